package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/report"
)

// replayFlags are the flags of replay as they are given.
type replayFlags struct {
	x      replay.Experiment
	report string
	plots  string
}

func (a *app) replayVerb() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Let search strategies search recorded spaces, and say which is best",
		Long: `Plays every strategy on every recorded space with so many seeds, offline: a configuration takes the time that was
recorded, costs what measuring it cost then, and fails again where it failed. The clock is virtual.

FILE is a cache of Kernel Tuner, results in the T4 format, or a table of samples (.jsonl) such as those of this project's own
kernels under experiments/, plain or gzipped; a directory stands for the caches in it.

The score of a run is the mean, over the time in which random search gets from 1 % to 95 % of the way from the median to the
optimum, of how much of random search's distance to the optimum it saves: 0 is random search, 1 knows the answer. Ctrl-C
prints what was complete and ends with code 3.`,
		Example: `  bitnet-autotune replay gemm.json.gz
  bitnet-autotune replay spaces/ --strategies auto,descent,random --seeds 100 --report board.html
  bitnet-autotune replay spaces/ --seeds 3 --format json`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: map[string]string{moreFormats: "markdown"},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json", "jsonl", "gz"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.replay(cmd.Context(), f, args) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.x.Strategies, "strategies", bandit.Names(), "strategies to play, with commas between")
	flags.IntVar(&f.x.Seeds, "seeds", 10, "runs of each strategy on each space")
	flags.Uint64Var(&f.x.First, "seed", 1, "the first seed; the others follow")
	flags.IntVar(&f.x.Workers, "workers", 0, "runs at the same time (default: every usable core)")
	flags.StringVar(&f.report, "report", "", "also write a report with plots into this HTML file")
	flags.StringVar(&f.plots, "plots", "", "also write the plots of the report into this directory, as SVG and PNG")
	completeList(cmd, "strategies", words(bandit.Names()...))
	return cmd
}

func (a *app) replay(ctx context.Context, f replayFlags, files []string) error {
	if err := f.settle(); err != nil {
		return err
	}
	loaded, err := replay.Load(ctx, files, f.x.Workers)
	if ctx.Err() != nil {
		return coded{exitInconclusive, errors.New("replay: interrupted while the files were read: nothing was played")}
	}
	if err != nil {
		return err
	}
	for _, name := range loaded.PassedOver {
		a.log.Info().Msgf("%s: passed over: T4 results beside caches; to replay it, name the file", name)
	}
	for _, t := range loaded.Tables {
		if t.Torn {
			a.log.Warn().Msgf("%s: the file ends early; what is whole of it is replayed", t.Name)
		}
	}
	f.x.Tables = loaded.Tables
	p := newProgress(a)
	f.x.Progress = replayProgress(p)
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	started := time.Now()
	results, err := f.x.Run(ctx)
	took := time.Since(started)
	p.clear()
	if err != nil && ctx.Err() == nil {
		return err
	}
	rep := report.New(&f.x, results, took)
	if perr := errors.Join(a.printReplay(rep.Board), f.write(rep)); perr != nil {
		return perr
	}
	if rep.Board.Interrupted {
		return silently(exitInconclusive)
	}
	return nil
}

// gcPercent lets garbage be collected more seldom: strategies make much of it over little that lives, and it is a tenth of
// the time at 100. 400 takes 250 MB on eight spaces.
const gcPercent = 400

// mostSeeds keeps the memory of a run, a kilobyte, from adding up to that of the machine.
const mostSeeds = 10000

// settle finds out what is wrong before anything is played.
func (f *replayFlags) settle() error {
	for i, name := range f.x.Strategies {
		if !slices.Contains(bandit.Names(), name) {
			return usage(fmt.Errorf("--strategies %q: want some of %s", name, strings.Join(bandit.Names(), ", ")))
		}
		if slices.Contains(f.x.Strategies[:i], name) {
			return usage(fmt.Errorf("--strategies %q: want each once", name))
		}
	}
	switch {
	case len(f.x.Strategies) == 0:
		return usage(fmt.Errorf("--strategies: want at least one of %s", strings.Join(bandit.Names(), ", ")))
	case f.x.Seeds < 1 || f.x.Seeds > mostSeeds:
		return usage(fmt.Errorf("--seeds %d: want 1 to %d", f.x.Seeds, mostSeeds))
	case f.x.Workers < 0:
		return usage(fmt.Errorf("--workers %d: want 1 or more", f.x.Workers))
	case f.x.Workers == 0:
		f.x.Workers = runtime.GOMAXPROCS(0)
	}
	if f.report != "" {
		if filepath.Ext(f.report) != ".html" {
			return usage(fmt.Errorf("--report %q: want a name that ends in .html", f.report))
		}
		if dir, err := os.Stat(filepath.Dir(f.report)); err != nil || !dir.IsDir() {
			return usage(fmt.Errorf("--report %q: want a file in a directory that exists", f.report))
		}
	}
	if f.plots != "" {
		if err := os.MkdirAll(f.plots, 0o777); err != nil {
			return usage(fmt.Errorf("--plots: %w", err))
		}
	}
	return nil
}

// progressEvery spaces the lines on a terminal: cheap strategies end a thousand runs a second.
const progressEvery = 100 * time.Millisecond

// replayProgress shows a bar with the runs that ended and the expected time.
func replayProgress(p *progress) func(replay.Progress) {
	var last time.Time
	return func(e replay.Progress) {
		if time.Since(last) < progressEvery && e.Done < e.Total {
			return
		}
		last = time.Now()
		p.say("replay", fmt.Sprintf("%s %d/%d runs, about %s left  %s on %s, seed %d", bar(e.Done, e.Total), e.Done, e.Total, e.Left.Round(time.Second), e.Strategy, e.Table, e.Seed))
	}
}

// bar draws a share.
func bar(done, total int) string {
	const width = 20
	full := width * done / max(1, total)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

func (a *app) printReplay(b *report.Board) error {
	if a.format == "markdown" {
		return a.printText(b.WriteMarkdown)
	}
	return a.print(b, func(w io.Writer) { b.WriteText(w) })
}

// write writes the files that were asked for.
func (f *replayFlags) write(r *report.Report) error {
	var errs []error
	if f.report != "" {
		errs = append(errs, writeFile(f.report, r.WriteHTML))
	}
	if f.plots != "" {
		for _, figure := range r.Figures() {
			name := filepath.Join(f.plots, figure.Name)
			errs = append(errs, writeFile(name+".svg", figure.WriteSVG), writeFile(name+".png", figure.WritePNG))
		}
	}
	return errors.Join(errs...)
}

func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return errors.Join(write(file), file.Close())
}
