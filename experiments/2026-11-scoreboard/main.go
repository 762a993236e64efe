// Scoreboard replays recorded spaces and prints the scores of strategies as a Markdown table.
//
//	REPLAY_DATA=../shared/replay go run ./experiments/2026-11-scoreboard -seeds 100
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scoreboard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("scoreboard", flag.ContinueOnError)
	data := flags.String("data", cmp.Or(os.Getenv("REPLAY_DATA"), filepath.Join("..", "shared", "replay")), "directory of the recorded spaces")
	names := flags.String("strategies", strings.Join(bandit.Names(), ","), "strategies, with commas between")
	spaces := flags.String("spaces", "", "parts of the names of the spaces to replay, with commas between; all if empty")
	seeds := flags.Int("seeds", 100, "runs of each strategy on each space")
	first := flags.Int("first", 0, "the first seed, to run an experiment in parts")
	workers := flags.Int("workers", runtime.NumCPU(), "runs at the same time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	tables, err := load(*data, *spaces)
	if err != nil {
		return err
	}
	strategies := strings.Split(*names, ",")
	results, err := replay.PlayAll(ctx, tables, strategies, *first, *seeds, *workers)
	if err != nil {
		return err
	}
	describe(out, tables)
	board(out, tables, strategies, results)
	near(out, tables, strategies, results)
	return nil
}

// load reads the caches of a directory at the same time.
func load(dir, parts string) ([]replay.Scored, error) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.json.gz"))
	files = slices.DeleteFunc(files, func(name string) bool {
		wanted := func(part string) bool { return strings.Contains(filepath.Base(name), part) }
		return strings.HasSuffix(name, ".t4.json.gz") || !slices.ContainsFunc(strings.Split(parts, ","), wanted)
	})
	if len(files) == 0 {
		return nil, fmt.Errorf("no recorded space in %q; set REPLAY_DATA or -data to their directory", dir)
	}
	tables, errs := make([]replay.Scored, len(files)), make([]error, len(files))
	var wait sync.WaitGroup
	for i, name := range files {
		wait.Go(func() { tables[i], errs[i] = read(name) })
	}
	wait.Wait()
	return tables, cmp.Or(errs...)
}

func read(name string) (replay.Scored, error) {
	file, err := os.Open(name)
	if err != nil {
		return replay.Scored{}, err
	}
	defer file.Close()
	table, err := replay.Read(strings.TrimSuffix(filepath.Base(name), ".json.gz"), file)
	if err != nil {
		return replay.Scored{}, err
	}
	return replay.Score(table)
}

// describe prints what the spaces are.
func describe(out io.Writer, tables []replay.Scored) {
	fmt.Fprintln(out, "| space | points | median / optimum | median cost | evaluations at median cost |\n|---|---|---|---|---|")
	for _, t := range tables {
		s := t.Score
		fmt.Fprintf(out, "| %s | %d | %.2f | %.2f s | %.0f to %.0f |\n", t.Name, t.Space.Size(), s.Median/s.Optimum, s.MedianCost/1000, s.Start/s.MedianCost, s.End/s.MedianCost)
	}
}

// board prints the scores.
func board(out io.Writer, tables []replay.Scored, strategies []string, results replay.Results) {
	fmt.Fprintf(out, "\n| strategy | mean |")
	for _, t := range tables {
		fmt.Fprintf(out, " %s |", t.Name)
	}
	fmt.Fprintf(out, "\n|---|---|%s\n", strings.Repeat("---|", len(tables)))
	for s, name := range strategies {
		sum, row := 0.0, ""
		for t := range tables {
			mean := results.Mean(s, t)
			sum += mean
			row += fmt.Sprintf(" %.2f |", mean)
		}
		fmt.Fprintf(out, "| %s | %.3f |%s\n", name, sum/float64(len(tables)), row)
	}
}

// near prints the median number of evaluations to come near the optimum.
func near(out io.Writer, tables []replay.Scored, strategies []string, results replay.Results) {
	fmt.Fprintf(out, "\n| evaluations to 5 %% / 1 %% |")
	for _, t := range tables {
		fmt.Fprintf(out, " %s |", t.Name)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("---|", len(tables)))
	for s, name := range strategies {
		row := ""
		for t := range tables {
			row += fmt.Sprintf(" %s / %s |", count(results.Near(s, t, 0.05)), count(results.Near(s, t, 0.01)))
		}
		fmt.Fprintf(out, "| %s |%s\n", name, row)
	}
}

// count is "–" for never.
func count(n int) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprint(n)
}
