package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func (a *app) probeVerb() *cobra.Command {
	var bandwidth bool
	cmd := &cobra.Command{
		Use:     "probe",
		Short:   "Print the facts about this host: CPU, caches, limits, memory, load, GPUs",
		Example: "  bitnet-autotune probe\n  bitnet-autotune probe --bandwidth --format json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := gpu.LocalMachine(cmd.Context(), gpu.Options{})
			if err != nil {
				return err
			}
			if bandwidth {
				if report.Bandwidth, err = readBandwidth(cmd.Context(), report.Host); err != nil {
					return err
				}
			}
			return a.print(report, func(w io.Writer) { writeHost(w, report) })
		},
	}
	cmd.Flags().BoolVar(&bandwidth, "bandwidth", false, "also measure the read bandwidth with 1 to all usable threads (a few seconds)")
	return cmd
}

// How read bandwidth is measured: a buffer several times any last-level cache, read for a while.
const (
	bandwidthBuffer = 1 << 30
	bandwidthTime   = 500 * time.Millisecond
)

// readBandwidth measures bytes per second by number of threads, each on a CPU of its own.
func readBandwidth(ctx context.Context, h probe.Host) (map[int]float64, error) {
	if len(h.CPU.CPUs) == 0 {
		return nil, errors.New("probe: --bandwidth: this system does not tell which CPUs may be used")
	}
	bytes := min(bandwidthBuffer, h.Memory.AvailableBytes/2)
	buffer, err := kernels.Alloc(int(bytes))
	if err != nil {
		return nil, err
	}
	defer buffer.Free()
	for i := 0; i < len(buffer.Bytes); i += 4096 {
		buffer.Bytes[i] = byte(i >> 12) // untouched pages would all be one page of zeros
	}
	read := kernels.ReadLoop(h.CPU.Features)
	found := map[int]float64{}
	for _, threads := range tuner.BenchThreads(min(h.CPU.UsableCores, len(h.CPU.CPUs))) {
		if found[threads], err = probe.Bandwidth(ctx, read, buffer.Bytes, h.CPU.CPUs[:threads], bandwidthTime); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func writeHost(w io.Writer, r gpu.Machine) {
	h, c := r.Host, r.CPU
	fmt.Fprintf(w, "%s  (%s, %s/%s)\n", orUnknown(c.Model), orUnknown(c.Vendor), h.OS, h.Arch)
	fmt.Fprintf(w, "cores        %d physical, %d logical, %d usable (%d physical) on NUMA nodes: %d\n", c.PhysicalCores, c.LogicalCores, c.UsableCores, c.UsablePhysical, c.NUMANodes)
	fmt.Fprintf(w, "features     %s\n", strings.Join(c.Features.Names(), " "))
	fmt.Fprintf(w, "caches       L1d %s, L2 %s, L3 %s\n", cacheSize(c.L1d), cacheSize(c.L2), cacheSize(c.L3))
	fmt.Fprintf(w, "memory       %s total, %s available, limit %s\n", size(h.Memory.TotalBytes), size(h.Memory.AvailableBytes), size(h.Memory.LimitBytes))
	if h.Cgroup.QuotaCPUs > 0 {
		fmt.Fprintf(w, "quota        %.2f CPUs (cgroup v%d)\n", h.Cgroup.QuotaCPUs, h.Cgroup.Version)
	}
	fmt.Fprintf(w, "load         CPU %.0f %%, memory %.0f %%\n", 100*h.Load.CPUUtilization, 100*h.Load.MemoryUtilization)
	fmt.Fprintf(w, "condition    virtualisation %s, governor %s, huge pages %s\n", orUnknown(h.Virtualization), orUnknown(h.Governor), orUnknown(h.HugePages))
	fmt.Fprintf(w, "fingerprint  %s\n", r.Fingerprint)
	writeFoundGPUs(w, r.Survey)
	for _, n := range sortedKeys(r.Bandwidth) {
		fmt.Fprintf(w, "read         %.1f GB/s with %s\n", r.Bandwidth[n]/1e9, threads(n))
	}
	for _, warning := range h.Warnings {
		fmt.Fprintf(w, "unknown      %s\n", warning)
	}
}

func writeFoundGPUs(w io.Writer, found gpu.Survey) {
	if len(found.GPUs) == 0 {
		fmt.Fprintf(w, "GPUs         none: %s\n", found.Note)
		return
	}
	for _, g := range found.GPUs {
		fmt.Fprintf(w, "GPU %-8d %s, capability %s, %s of %s free, %s busy\n", g.Index, orUnknown(g.Name), orUnknown(g.ComputeCapability.String()),
			told(g, "memory_free_bytes", size(g.FreeBytes)), told(g, "memory_total_bytes", size(g.TotalBytes)), told(g, "utilization", fmt.Sprintf("%.0f %%", 100*g.Utilization)))
	}
	if found.Note != "" {
		fmt.Fprintf(w, "GPUs         %s\n", found.Note)
	}
}

func cacheSize(c probe.Cache) string {
	if c.Bytes == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%d KiB x %d", c.Bytes>>10, c.Instances)
}
