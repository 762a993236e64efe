package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func (a *app) benchVerb() *cobra.Command {
	var opt tuner.BenchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure every usable kernel over shapes and batches, beside this host's own limits",
		Long: `Each row is taken in interleaved pairs with the loop that limits it, in one run: a plain read of the same weights at
M = 1, the widest int8 multiply-add of the kernel's own instruction set above. Decode reads from memory: the distinct
weights of a row are several times any cache.`,
		Example: "  bitnet-autotune bench --quick\n  bitnet-autotune bench --format json >bench.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := probe.Local(cmd.Context())
			if err != nil {
				return err
			}
			opt.Progress = func(r tuner.Bench) {
				a.log.Info().Msgf("%s %d x %d, M = %d, %s: %.0f %% of %s", r.Kernel, r.N, r.K, r.M, threads(r.Threads), 100*r.FractionOfLimit, r.Limit)
			}
			report, err := tuner.RunBench(cmd.Context(), h, opt)
			if err != nil && len(report.Rows) == 0 {
				return err
			}
			if perr := a.print(report, func(w io.Writer) { writeBench(w, report) }); perr != nil {
				return perr
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&opt.Quick, "quick", false, "two shapes and three batches, under 20 s")
	cmd.Flags().Uint64Var(&opt.Seed, "seed", 1, "seed of the random weights")
	return cmd
}

func writeBench(w io.Writer, r *tuner.BenchReport) {
	for _, n := range sortedKeys(r.ReadBandwidth) {
		fmt.Fprintf(w, "limits with %s: read %.1f GB/s, int8 %.0f GOPS\n", threads(n), r.ReadBandwidth[n]/1e9, r.Int8Peak[n]/1e9)
	}
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "N\tK\tM\tthreads\tµs\tGB/s\tGOPS\tof limit\tinterval\tspread\t  \tkernel\t")
	for _, b := range r.Rows {
		fmt.Fprintf(tab, "%d\t%d\t%d\t%d\t%.1f\t%.1f\t%.0f\t%.3f %s\t%s\t%.1f %%\t  \t%s %s\t\n", b.N, b.K, b.M, b.Threads, 1e6*b.MedianSeconds, b.BytesPerSecond/1e9, b.OpsPerSecond/1e9,
			b.FractionOfLimit, b.Limit, interval(tuner.Ratio{Low: b.Low, High: b.High}), 100*b.Spread, b.Kernel, b.Blocking.Tile)
	}
	tab.Flush()
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "note: %s\n", warning)
	}
}
