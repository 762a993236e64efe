// Noise asks how a configuration should be chosen when measurements are noisy: it replays recorded spaces with their
// recorded samples, with and without injected noise, and prints what several ways of choosing come to.
//
//	REPLAY_DATA=../shared/replay go run ./experiments/2026-11-noise -seeds 100
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "noise:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("noise", flag.ContinueOnError)
	data := flags.String("data", cmp.Or(os.Getenv("REPLAY_DATA"), filepath.Join("..", "shared", "replay")), "directory of the recorded spaces")
	spaces := flags.String("spaces", "", "parts of the names of the spaces, with commas between; all if empty")
	names := flags.String("ways", "", "beginnings of the names of the ways, with commas between; all if empty")
	seeds := flags.Int("seeds", 100, "runs of each way on each space")
	first := flags.Int("first", 0, "the first seed")
	file := flags.String("journal", "", "file to append every outcome to; those that it has are not run again")
	budget := flags.Int("runs", 280, "runs of configurations that each way may make")
	if err := flags.Parse(args); err != nil {
		return err
	}
	tables, err := load(*data, *spaces)
	if err != nil {
		return err
	}
	ways := named(*names)
	if len(ways) == 0 {
		return fmt.Errorf("no way begins with any of %q", *names)
	}
	kept, err := openJournal(*file)
	if err != nil {
		return err
	}
	defer kept.close()
	for _, noise := range disturbances {
		if err := study(ctx, ways, tables, noise, *first, *seeds, *budget, kept); err != nil {
			return err
		}
		write(out, ways, noise, *budget, kept)
	}
	return nil
}

// load reads the caches of a directory.
func load(dir, parts string) ([]*replay.Table, error) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.json.gz"))
	files = slices.DeleteFunc(files, func(name string) bool {
		wanted := func(part string) bool { return strings.Contains(filepath.Base(name), part) }
		return strings.HasSuffix(name, ".t4.json.gz") || !slices.ContainsFunc(strings.Split(parts, ","), wanted)
	})
	if len(files) == 0 {
		return nil, fmt.Errorf("no recorded space in %q; set REPLAY_DATA or -data to their directory", dir)
	}
	var tables []*replay.Table
	for _, name := range files {
		table, err := read(name)
		if err != nil {
			return nil, err
		}
		tables = append(tables, table)
	}
	return tables, nil
}

func read(name string) (*replay.Table, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return replay.Read(strings.TrimSuffix(filepath.Base(name), ".json.gz"), file)
}

// outcome is what a way of choosing came to in one run, in true costs.
type outcome struct {
	OverTried  float64 // how much dearer the choice is than the best that was tried: 0.02 is 2 %
	OverBest   float64 // and than the best of the space
	OverExpert float64 // and than the default
	Changed    bool    // the choice is not the default
	Tried      int     // how many points were measured
}

// study lets every way choose on every table with every seed, except where the journal has the outcome.
func study(ctx context.Context, ways []pipeline, tables []*replay.Table, noise disturbance, first, seeds, budget int, kept *journal) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type job struct {
		table *replay.Table
		costs []float64
		seed  int
	}
	jobs := make(chan job)
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for j := range jobs {
				for _, way := range ways {
					at := key{noise.name, way.name, j.table.Name, budget, j.seed}
					if kept.has(at) || ctx.Err() != nil {
						continue
					}
					o, err := play(way, j.table, j.costs, noise, uint64(j.seed), budget)
					if err == nil {
						err = kept.add(at, o)
					}
					if err != nil {
						cancel(fmt.Errorf("%s on %s: %w", way.name, j.table.Name, err))
					}
				}
			}
		})
	}
	costs := make([][]float64, len(tables))
	for t, table := range tables {
		costs[t] = truth(table)
	}
	for seed := first; seed < first+seeds; seed++ {
		for t, table := range tables {
			select {
			case jobs <- job{table, costs[t], seed}:
			case <-ctx.Done():
			}
		}
	}
	close(jobs)
	wait.Wait()
	return context.Cause(ctx)
}

// play lets one way choose once.
func play(way pipeline, t *replay.Table, costs []float64, noise disturbance, seed uint64, budget int) (outcome, error) {
	standard := expert(costs, rand.New(rand.NewPCG(seed, 4)))
	h := newHost(t, noise, seed)
	choice, err := way.choose(h, seed, standard, budget)
	if err != nil {
		return outcome{}, err
	}
	tried, best := costs[standard], math.Inf(1)
	for i := range h.tried {
		tried = min(tried, costs[i])
	}
	for _, c := range costs {
		if c < best { // not where it is NaN
			best = c
		}
	}
	c := costs[choice]
	return outcome{c/tried - 1, c/best - 1, c/costs[standard] - 1, choice != standard, len(h.tried)}, nil
}

// near is how close to the best a choice is good: a share of its cost.
const near = 0.02

// summary is what the outcomes of a way come to.
type summary struct {
	nearTried, nearBest float64 // shares of the runs
	overTried, overBest float64 // means
	worse               float64 // share of the runs in which something slower than the default took its place
	changed, tried      float64
}

func summarize(outcomes []outcome) summary {
	var s summary
	n := float64(len(outcomes))
	share := func(yes bool) float64 {
		if yes {
			return 1 / n
		}
		return 0
	}
	for _, o := range outcomes {
		s.nearTried += share(o.OverTried <= near)
		s.nearBest += share(o.OverBest <= near)
		s.overTried += o.OverTried / n
		s.overBest += o.OverBest / n
		s.worse += share(o.Changed && o.OverExpert > 0)
		s.changed += share(o.Changed)
		s.tried += float64(o.Tried) / n
	}
	return s
}

// write prints a table of what the ways came to under a disturbance.
func write(out io.Writer, ways []pipeline, noise disturbance, budget int, kept *journal) {
	fmt.Fprintf(out, "\n%s, %d runs\n\n| way | searches | within 2 %% of the best tried | of the space | mean regret to the best tried | of the space | tried | slower than the default crowned | default replaced |\n|---|---|---|---|---|---|---|---|---|\n",
		noise.name, budget)
	for _, way := range ways {
		outcomes := kept.of(noise.name, way.name, budget)
		s := summarize(outcomes)
		fmt.Fprintf(out, "| %s | %d | %.0f %% | %.0f %% | %.1f %% | %.1f %% | %.0f | %.1f %% | %.0f %% |\n", way.name, len(outcomes),
			100*s.nearTried, 100*s.nearBest, 100*s.overTried, 100*s.overBest, s.tried, 100*s.worse, 100*s.changed)
	}
}
