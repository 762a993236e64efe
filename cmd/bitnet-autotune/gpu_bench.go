package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func (a *app) gpuBench() *cobra.Command {
	var o tuner.GPUBenchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a GPU: copies, allocations, and every CUDA kernel's speed",
		Long: `Measures what the card's memory copies, what allocating costs with the driver and with the pools, and kernels on the
shapes of 2B-4T and two that are long enough to show bandwidth, with distinct weights of four times the last-level cache. Each kernel is
checked bit for bit first. Times are of graphs of launches, without what launching costs.`,
		Example: "  bitnet-autotune gpu bench\n  bitnet-autotune gpu bench --all --format json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := a.open(tuner.Options{})
			if err != nil {
				return err
			}
			defer t.Close()
			p := newProgress(a)
			o.Tell = func(row string) { p.say("gpu bench", "measuring "+row) }
			b, err := t.RunGPUBench(cmd.Context(), o)
			p.clear()
			if b != nil {
				if perr := a.print(b, func(w io.Writer) { writeGPUBench(w, b) }); perr != nil {
					return perr
				}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.Device, "device", "", "UUID of the GPU (default: the one with the most memory)")
	cmd.Flags().BoolVar(&o.All, "all", false, "every kernel that suits, not only the default's and the heuristic's of each layout")
	return cmd
}

func writeGPUBench(w io.Writer, b *tuner.GPUBench) {
	fmt.Fprintf(w, "%s  %s\n", b.Name, b.Device)
	fmt.Fprintf(w, "copies       %.0f GB/s, read and written\n", b.Copy/1e9)
	fmt.Fprintf(w, "allocations  %.2f us by the driver, %.2f us by the pools (%.0f %% saved), %.2f us for a query\n\n",
		b.Allocator.DirectNs/1e3, b.Allocator.PoolNs/1e3, 100*b.Allocator.Saved, b.Allocator.QueryNs/1e3)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "N x K\tM\tus\tGB/s\tof copy\tGOPS\tspread\tkernel\t")
	for _, r := range b.Rows {
		fmt.Fprintf(tab, "%d x %d\t%d\t%.2f\t%.0f\t%.2f\t%.0f\t%.1f %%\t%s\t\n", r.N, r.K, r.M, 1e6*r.Median, r.BytesPerS/1e9, r.OfCopy, r.OpsPerS/1e9, 100*r.Spread, r.Kernel)
	}
	tab.Flush()
	for _, f := range b.Failed {
		fmt.Fprintf(w, "not measured: %s\n", f)
	}
}
