//go:build amd64 && !purego

// Command 2026-11-cpu-kernel-portfolio measures which layout and kernel is best by ISA, shape, residency, batch and
// threads. It prints a JSON object per line: the host, then a row for every candidate of every scenario.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// row is a candidate in a scenario. Ratio is pair by pair, in one round: how often the candidate goes into the time of
// the best blocking of i2s (more than 1: faster); OfLimit compares with the read loop over as many bytes at M = 1, with
// the multiply loop over as many operations otherwise.
type row struct {
	ISA, Shapes, Residency string
	M, Threads             int
	Kernel                 string
	Blocking               kernels.Blocking
	Rounds                 int
	GigaWeights            [3]float64 // per second: quartiles
	Ratio, OfLimit         [3]float64
}

type candidate struct {
	kernel  kernels.Kernel
	choice  kernels.Blocking
	seconds []float64
}

type scenario struct {
	isa       string
	shapes    [][2]int
	residency string
	copies    int
	m         int
	threads   int
	rounds    int
}

var shapeSets = map[string][][2]int{
	"2b4t-layer": {{2560, 2560}, {640, 2560}, {640, 2560}, {2560, 2560}, {6912, 2560}, {6912, 2560}, {2560, 6912}},
	"640x2560":   {{640, 2560}},
	"2560x2560":  {{2560, 2560}},
	"6912x2560":  {{6912, 2560}},
	"2560x6912":  {{2560, 6912}},
	"23040x3072": {{23040, 3072}},
}

// residencies are bytes of distinct weights, at two bits a weight.
var residencies = map[string]int{"L2": 400 << 10, "L3": 12 << 20, "DRAM": 1 << 30}

func main() {
	isas := flag.String("isa", "avx2,avx512vnni", "what the last part of the kernels' names begins with: avx512 is VNNI and VBMI")
	shapes := flag.String("shapes", "2b4t-layer", "names of shapes")
	residency := flag.String("residency", "L2,L3,DRAM", "where the weights lie; what does not fit is left out")
	batches := flag.String("m", "1", "tokens")
	threads := flag.String("threads", "1,2", "threads")
	rounds := flag.Int("rounds", 15, "samples of each candidate")
	flag.Parse()
	host, err := probe.Local(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	out := json.NewEncoder(os.Stdout)
	emit(out, host)
	for _, isa := range strings.Split(*isas, ",") {
		for _, name := range strings.Split(*shapes, ",") {
			for _, where := range strings.Split(*residency, ",") {
				for _, m := range numbers(*batches) {
					for _, n := range numbers(*threads) {
						s := scenario{isa: isa, shapes: shapeSets[name], residency: where, m: m, threads: n, rounds: *rounds}
						s.copies = residencies[where] * 4 / weightsOf(s.shapes)
						if s.copies == 0 {
							continue
						}
						for _, r := range s.run(host.CPU.Features) {
							r.Shapes = name
							emit(out, r)
						}
					}
				}
			}
		}
	}
}

func emit(out *json.Encoder, v any) {
	if err := out.Encode(v); err != nil {
		log.Fatal(err)
	}
}

func numbers(list string) (all []int) {
	for _, s := range strings.Split(list, ",") {
		var n int
		if _, err := fmt.Sscan(s, &n); err != nil {
			log.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

func weightsOf(shapes [][2]int) (sum int) {
	for _, s := range shapes {
		sum += s[0] * s[1]
	}
	return sum
}

// candidates are the blockings of every kernel of the ISA: with one token the prefetch distances, else the tiles.
func (s scenario) candidates(have probe.Feature) (all []*candidate) {
	known := kernels.Usable(have)
	if s.m == 1 {
		known = append(known, spike())
	}
	for _, k := range known {
		if !strings.HasPrefix(k.Name[strings.LastIndex(k.Name, "/")+1:], s.isa) {
			continue
		}
		choice := k.Default(s.m)
		all = append(all, &candidate{kernel: k, choice: choice})
		for _, tile := range k.Tiles {
			for _, distance := range k.Prefetch {
				c := kernels.Blocking{Tile: tile, PrefetchBytes: distance}
				if c != choice && (s.m == 1 && tile.Tokens == 1 || s.m > 1 && tile.Tokens > 1 && tile.Tokens <= s.m && distance == choice.PrefetchBytes) {
					all = append(all, &candidate{kernel: k, choice: c})
				}
			}
		}
	}
	return all
}

// run measures all candidates and the limit in rounds, each in another order.
func (s scenario) run(have probe.Feature) (rows []row) {
	cpus := make([]int, s.threads)
	for i := range cpus {
		cpus[i] = i
	}
	pool, err := kernels.NewPool(cpus)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	defer pool.Enter()()
	all := s.candidates(have)
	models := map[kernels.Layout][]*kernels.Packed{}
	for _, c := range all {
		if models[c.kernel.Layout] == nil {
			model, free := s.model(c.kernel.Layout)
			defer free()
			models[c.kernel.Layout] = model
		}
	}
	x, dst := s.tokens()
	for _, a := range x {
		prepareSpike(a)
	}
	calls := len(s.shapes)
	weights := weightsOf(s.shapes)
	for weights*s.m < 40e6 { // about a millisecond
		calls, weights = calls*2, weights*2
	}
	next := 0
	limit := &candidate{}
	work := func(c *candidate) float64 {
		model := models[c.kernel.Layout]
		start := time.Now()
		for i := range calls {
			w := model[(next+i)%len(model)]
			pool.Mul(&c.kernel, dst, w, x[w.K], c.choice)
		}
		return time.Since(start).Seconds()
	}
	model := models[kernels.I2S]
	read := kernels.ReadLoop(have)
	peak, operations, _ := kernels.PeakLoop(featuresOf(s.isa))
	bound := func() float64 {
		start := time.Now()
		pool.Run(func(worker int) {
			if s.m > 1 {
				peak(2 * weights * s.m / operations / s.threads)
				return
			}
			for i := range calls {
				w := model[(next+i)%len(model)]
				rows, perRow := kernels.Share(w.N, s.threads, worker), len(w.Data)/w.N
				read(w.Data[rows.From*perRow : rows.To*perRow])
			}
		})
		return time.Since(start).Seconds()
	}
	for round := range s.rounds + 1 { // the first warms up
		order := append(rand.Perm(len(all)), -1)
		for _, i := range order {
			c, seconds := limit, 0.
			if i < 0 {
				seconds = bound()
			} else {
				c = all[i]
				if s.residency != "DRAM" {
					work(c)
				}
				seconds = work(c)
			}
			if round > 0 {
				c.seconds = append(c.seconds, seconds)
			}
			next += calls
		}
	}
	best := all[0]
	for _, c := range all {
		if c.kernel.Layout == kernels.I2S && (best.kernel.Layout != kernels.I2S || speed(c.seconds) > speed(best.seconds)) {
			best = c
		}
	}
	for _, c := range all {
		share := 1.
		if s.m == 1 {
			share = float64(size(models[c.kernel.Layout])) / float64(size(model))
		}
		rows = append(rows, row{
			ISA: s.isa, Residency: s.residency, M: s.m, Threads: s.threads, Kernel: c.kernel.Name, Blocking: c.choice, Rounds: s.rounds,
			GigaWeights: quartiles(c.seconds, func(int) float64 { return float64(weights) / 1e9 }),
			Ratio:       quartiles(c.seconds, func(i int) float64 { return best.seconds[i] }),
			OfLimit:     quartiles(c.seconds, func(i int) float64 { return limit.seconds[i] * share }),
		})
	}
	return rows
}

func featuresOf(isa string) probe.Feature {
	if isa == "avx2" {
		return probe.AVX2
	}
	return probe.AVX512 | probe.AVX512VNNI
}

func size(model []*kernels.Packed) (sum int) {
	for _, w := range model {
		sum += len(w.Data)
	}
	return sum
}

func (s scenario) model(layout kernels.Layout) (model []*kernels.Packed, free func()) {
	format := formatOf(layout)
	total := 0
	for _, shape := range s.shapes {
		total += format.Bytes(shape[0], shape[1])
	}
	memory, err := kernels.Alloc(total * s.copies)
	if err != nil {
		log.Fatal(err)
	}
	rest := memory.Bytes
	for len(rest) > 0 {
		for _, shape := range s.shapes {
			data := rest[:format.Bytes(shape[0], shape[1])]
			rest = rest[len(data):]
			format.Random(data, shape[0], shape[1], uint64(len(rest)))
			model = append(model, &kernels.Packed{Layout: layout, N: shape[0], K: shape[1], Data: data, Scale: 1})
		}
	}
	return model, func() { memory.Free() }
}

func (s scenario) tokens() (x map[int]*kernels.Activations, dst []int32) {
	x = map[int]*kernels.Activations{}
	for _, shape := range s.shapes {
		a := kernels.NewActivations(s.m, shape[1])
		a.Random(1)
		x[shape[1]] = a
		dst = slices.Grow(dst[:0], s.m*shape[0])[:max(len(dst), s.m*shape[0])]
	}
	return x, dst
}

func speed(seconds []float64) float64 { return quartiles(seconds, func(int) float64 { return 1 })[1] }

// quartiles are those of over(i) / seconds[i].
func quartiles(seconds []float64, over func(int) float64) (q [3]float64) {
	v := make([]float64, len(seconds))
	for i, s := range seconds {
		v[i] = over(i) / s
	}
	slices.Sort(v)
	for i := range q {
		q[i] = v[len(v)*(i+1)/4]
	}
	return q
}
