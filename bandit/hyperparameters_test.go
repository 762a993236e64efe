//go:build hyperparameters || candidates

package bandit_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

var (
	hyperSeeds  = flag.Int("hyper.seeds", 6, "runs of each setting on each space")
	hyperSpaces = flag.String("hyper.spaces", "", "part of the names of the spaces")
	hyperOut    = flag.String("hyper.out", "", "file to append setting,space,score to; what it has is not run again")
)

// variants are the settings that were compared: the ones to begin with, one number changed at a time, and those chosen
// in the end, which put together the changes that helped.
func variants(chosen bandit.Settings) map[string]bandit.Settings {
	first := chosen
	chosen.Middle = 0.5 // as it was then; see experiments/2026-11-strategies
	first.Middle, first.FirstPoints, first.Squashed, first.Thrift = 0.5, 4, 0.2, 0.5
	all := map[string]bandit.Settings{"first guess": first, "chosen": chosen}
	vary := func(name string, change func(*bandit.Settings)) {
		s := first
		change(&s)
		all[name] = s
	}
	vary("first points 2", func(s *bandit.Settings) { s.FirstPoints = 2 })
	vary("first points 8", func(s *bandit.Settings) { s.FirstPoints = 8 })
	vary("squashed 1", func(s *bandit.Settings) { s.Squashed = 1 })
	vary("squashed 0.05", func(s *bandit.Settings) { s.Squashed = 0.05 })
	vary("thrift 0", func(s *bandit.Settings) { s.Thrift = 0 })
	vary("thrift 1", func(s *bandit.Settings) { s.Thrift = 1 })
	vary("middle 0", func(s *bandit.Settings) { s.Middle = 0 })
	return all
}

// TestHyperparameters is the experiment of experiments/2026-11-auto-hyperparameters, whose README has the command. It takes
// half an hour and is no test: hence the build tag.
func TestHyperparameters(t *testing.T) {
	done, err := os.ReadFile(*hyperOut)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	out, err := os.OpenFile(*hyperOut, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	base := bandit.Choose(bandit.Settings{})
	defer bandit.Choose(base)
	for _, space := range hyperTables(t) {
		for name, settings := range variants(base) {
			if strings.Contains(string(done), name+","+space.Name+",") {
				continue
			}
			bandit.Choose(settings)
			x := replay.Experiment{Tables: []replay.Scored{space}, Strategies: []string{"auto"}, Seeds: *hyperSeeds, Workers: runtime.NumCPU()}
			results, err := x.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(out, "%s,%s,%.4f\n", name, space.Name, results.Mean(0, 0))
		}
	}
}

func hyperTables(t *testing.T) []replay.Scored {
	t.Helper()
	dir := cmp.Or(os.Getenv("REPLAY_DATA"), filepath.Join("..", "..", "shared", "replay"))
	files, _ := filepath.Glob(filepath.Join(dir, "*"+*hyperSpaces+"*.json.gz"))
	var tables []replay.Scored
	for _, name := range files {
		if strings.HasSuffix(name, ".t4.json.gz") {
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		table, err := replay.Read(strings.TrimSuffix(filepath.Base(name), ".json.gz"), file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		scored, err := replay.Score(table)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, scored)
	}
	return tables
}
