package bandit_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/bandit/bandittest"
)

var runs = flag.Int("runs", 20, "runs")
var quiet = flag.Bool("quiet", false, "")
var names = flag.String("names", "", "names")

func TestStudy(t *testing.T) {
	budgets := []int{10, 20, 40}
	rec := recordedTables(t)
	for _, name := range strings.Split(*names, ",") {
		reg := map[string][][]float64{}
		var order []string
		begin := time.Now()
		ended := map[string]int{}
		for seed := range *runs {
			for _, tab := range append(bandittest.Synthetic(uint64(seed)), rec...) {
				if reg[tab.Name] == nil {
					reg[tab.Name] = make([][]float64, 3)
					order = append(order, tab.Name)
				}
				s, err := bandit.New(name, tab.Space, bandit.Options{Seed: uint64(seed), Start: tab.Start, Budget: 40})
				if err != nil {
					t.Fatal(err)
				}
				dice := rand.New(rand.NewPCG(uint64(seed), 99))
				used := 0
				for bi, b := range budgets {
					for used < b {
						asks := s.Ask(1)
						if len(asks) == 0 {
							ended[tab.Name] += b - used
							break
						}
						asks[0].Want = min(asks[0].Want, b-used)
						used += max(1, asks[0].Want)
						s.Tell(tab.Run(asks[0], dice))
					}
					r := 9.99
					if best := s.(bandit.Recommender).Recommend(1); len(best) > 0 {
						r = tab.Regret(best[0])
					}
					reg[tab.Name][bi] = append(reg[tab.Name][bi], r)
				}
			}
		}
		var sum [3]float64
		for _, tn := range order {
			line := fmt.Sprintf("%-10s %-20s", name, tn)
			for bi := range budgets {
				r := reg[tn][bi]
				slices.Sort(r)
				line += fmt.Sprintf("  %5.1f %5.1f", 100*r[len(r)/2], 100*r[len(r)*9/10])
			}
			for bi := range budgets {
				m := 0.0
				for _, r := range reg[tn][bi] {
					m += 100 * math.Log1p(r) / float64(*runs)
				}
				if tn != "rugged" {
					sum[bi] += m / float64(len(order)-1)
				}
			}
			if !*quiet {
				fmt.Println(line, " unused", ended[tn] / *runs)
			}
		}
		fmt.Printf("%-10s mean log regret %% (no rugged) %.2f\n", name, sum)
		if !*quiet {
			fmt.Println(name, time.Since(begin).Round(time.Millisecond))
		}
	}
}
