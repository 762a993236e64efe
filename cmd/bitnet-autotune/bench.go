package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// benchFlags are the flags of bench as they are given.
type benchFlags struct {
	opt         tuner.BenchOptions
	model       string
	residencies []string
	plot        string
}

func (a *app) benchVerb() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure every usable kernel over shapes, batches, threads and caches, beside this host's own limits",
		Long: `Each row is taken in interleaved pairs with the loop that limits it, in one run: a plain read of the same weights at
M = 1, the widest int8 multiply-add of the kernel's own instruction set above. The weights of a row are a set of distinct
matrices multiplied in turn, as large as makes them come from where its residency says: l2, l3 or dram. A matrix that a
cache cannot hold has no row for it.

The full table, of the shapes of all presets, can take hours: see the expected time on stderr, and the flags that take a part
of it. Within a budget the dear rows are left out first, and named. Ctrl-C prints what was measured and ends with code 3.`,
		Example: `  bitnet-autotune bench --quick
  bitnet-autotune bench --quick --plot roofline.svg
  bitnet-autotune bench --model bitnet-b1.58-2b-4t --batch 1 --residency dram
  bitnet-autotune bench --kernel '*avx2' --threads 1 --budget 5m --format csv >bench.csv`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{moreFormats: "csv,markdown"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.bench(cmd, f) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.opt.Quick, "quick", false, "two shapes and three batches from dram, under 20 s")
	optionalModelFlag(cmd, &f.model, "only the shapes of this preset or GGUF file")
	flags.StringVar(&f.opt.Kernel, "kernel", "", "only kernels whose name matches; * stands for any characters")
	flags.IntSliceVar(&f.opt.Batches, "batch", nil, "only these batches, such as 1,8")
	flags.IntSliceVar(&f.opt.Threads, "threads", nil, "only these numbers of threads, such as 1,2")
	flags.StringSliceVar(&f.residencies, "residency", nil, "only weights in these places: l2, l3, dram")
	flags.DurationVar(&f.opt.Budget, "budget", 0, fmt.Sprintf("time for all rows (default: %v with --quick, else as long as it takes)", tuner.QuickTime))
	flags.StringVar(&f.plot, "plot", "", "also draw a roofline into this SVG file")
	flags.Uint64Var(&f.opt.Seed, "seed", 1, "seed of the random weights")
	completeFlag(cmd, "kernel", words(kernelNames()...))
	completeList(cmd, "batch", words("1", "2", "4", "8", "16", "32", "128", "512"))
	completeList(cmd, "threads", usableThreads)
	completeList(cmd, "residency", words(residencyNames()...))
	return cmd
}

func kernelNames() (names []string) {
	for _, k := range kernels.All() {
		names = append(names, k.Name)
	}
	return names
}

func residencyNames() (names []string) {
	for _, r := range tuner.Residencies() {
		names = append(names, string(r))
	}
	return names
}

func usableThreads(cmd *cobra.Command) (counts []string) {
	h, err := probe.Local(cmd.Context())
	if err != nil {
		return nil
	}
	for _, n := range tuner.BenchThreads(h.CPU.UsableCores) {
		counts = append(counts, fmt.Sprint(n))
	}
	return counts
}

func (a *app) bench(cmd *cobra.Command, f benchFlags) error {
	if err := f.settle(); err != nil {
		return err
	}
	h, err := probe.Local(cmd.Context())
	if err != nil {
		return err
	}
	p := newProgress(a)
	f.opt.Progress = func(e tuner.BenchProgress) { a.benchProgress(p, e) }
	report, err := tuner.RunBench(cmd.Context(), h, f.opt)
	p.clear()
	if report == nil || err != nil && len(report.Rows) == 0 {
		return err
	}
	if perr := errors.Join(a.printBench(report), drawInto(f.plot, func(w io.Writer) error { return plotBench(w, report) })); perr != nil {
		return perr
	}
	switch {
	case errors.Is(err, target.ErrMismatch):
		return coded{exitUnverified, err}
	case err == nil && report.Interrupted:
		return silently(exitInconclusive)
	}
	return err
}

// settle turns flags into options and finds out what is wrong before anything is measured.
func (f *benchFlags) settle() error {
	if err := checkPlot(f.plot); err != nil {
		return err
	}
	for _, r := range f.residencies {
		f.opt.Residencies = append(f.opt.Residencies, tuner.Residency(r))
	}
	if f.model == "" {
		return nil
	}
	m, err := model.Load(f.model)
	if err != nil {
		return err
	}
	if f.opt.Shapes = m.Shapes; len(m.Shapes) == 0 {
		return fmt.Errorf("bench: %s: %w", m.Name, model.ErrNoTernary)
	}
	return nil
}

// benchProgress tells how long it will take before the first row, and then how far it is.
func (a *app) benchProgress(p *progress, e tuner.BenchProgress) {
	if e.Row == nil {
		a.log.Info().Msgf("%d rows, about %s", e.Total, e.Left.Round(time.Second))
		return
	}
	r := e.Row
	text := fmt.Sprintf("%s %d x %d, M = %d, %s, %s: %.0f %% of %s", r.Kernel, r.N, r.K, r.M, r.Residency, threads(r.Threads), 100*r.FractionOfLimit, r.Limit)
	p.say("bench", fmt.Sprintf("%d/%d rows, %s left  %s", e.Done, e.Total, e.Left.Round(time.Second), text))
}

func (a *app) printBench(r *tuner.BenchReport) error {
	switch a.format {
	case "csv":
		return writeBenchCSV(a.out, r)
	case "markdown":
		return a.printText(func(w io.Writer) { writeBenchMarkdown(w, r) })
	}
	return a.print(r, func(w io.Writer) { writeBench(w, r) })
}

// limitLines are the host's limits in words.
func limitLines(r *tuner.BenchReport) (lines []string) {
	for _, residency := range tuner.Residencies() {
		if rates := r.ReadFrom[residency]; len(rates) > 0 {
			lines = append(lines, fmt.Sprintf("read from %s: %s", residency, rateLine(rates, "GB/s", 1)))
		}
	}
	for _, loop := range sortedKeys(r.Int8PeakOf) {
		lines = append(lines, fmt.Sprintf("int8 peak, %s: %s", loop, rateLine(r.Int8PeakOf[loop], "GOPS", 0)))
	}
	return lines
}

func rateLine(rates map[int]float64, unit string, digits int) string {
	var parts []string
	for _, n := range sortedKeys(rates) {
		parts = append(parts, fmt.Sprintf("%.*f %s with %s", digits, rates[n]/1e9, unit, threads(n)))
	}
	return strings.Join(parts, ", ")
}

// writeBench prints the table for people: a block for each shape and residency.
func writeBench(w io.Writer, r *tuner.BenchReport) {
	fmt.Fprintf(w, "%s, %s usable, %s\n", orUnknown(r.Host.CPU), threads(r.Host.UsableCores), r.StartedAt.Format(time.DateOnly))
	for _, line := range limitLines(r) {
		fmt.Fprintln(w, line)
	}
	width := len("kernel")
	for _, b := range r.Rows {
		width = max(width, len(b.Kernel))
	}
	block := ""
	for _, b := range r.Rows {
		if heading := fmt.Sprintf("%d x %d from %s", b.N, b.K, b.Residency); heading != block {
			block = heading
			fmt.Fprintf(w, "\n%s\n%5s %7s  %-*s %5s %8s %10s %7s %7s  %-9s %8s  %-13s %6s\n", heading,
				"M", "threads", width, "kernel", "tile", "prefetch", "µs", "GB/s", "GOPS", "limit", "of limit", "interval", "spread")
		}
		fmt.Fprintf(w, "%5d %7d  %-*s %5s %8d %10.1f %7.2f %7.0f  %-9s %8.3f  %-13s %4.1f %%\n", b.M, b.Threads, width, b.Kernel, b.Blocking.Tile, b.Blocking.PrefetchBytes,
			1e6*b.MedianSeconds, b.BytesPerSecond/1e9, b.OpsPerSecond/1e9, b.Limit, b.FractionOfLimit, interval(tuner.Ratio{Low: b.Low, High: b.High}), 100*b.Spread)
	}
	fmt.Fprintln(w)
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "note: %s\n", warning)
	}
}
