package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// gpuMemoryReport is the document of gpu memory.
type gpuMemoryReport struct {
	Devices   []deviceMemory   `json:"devices"`
	Constants memory.Constants `json:"constants"`
}

// deviceMemory is the memory of one device.
type deviceMemory struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
	memory.Stats
	Workspaces []modelWorkspace `json:"workspaces,omitempty"` // of the model that was asked for
}

// modelWorkspace is the largest workspace of a model's matmuls with weights of a type, or why there is none.
type modelWorkspace struct {
	Quantization memory.Quantization `json:"quantization"`
	N            int                 `json:"n"`
	K            int                 `json:"k"`
	memory.Workspace
	Reason string `json:"reason,omitempty"`
}

func (a *app) gpuMemory() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Show the memory of the GPUs, what of it may be used, and the workspace of a model",
		Long: `Shows what each GPU has, what of it may be used after the reserves, the state of the pools of an empty manager, and with
--model the workspace and batch for each type of weights (estimates by the constants, which --format json lists).

It makes a context on each GPU, which takes some hundred MB while the command runs.`,
		Example: "  bitnet-autotune gpu memory\n  bitnet-autotune gpu memory --model bitnet-b1.58-2b-4t --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			report, err := memoryReport(name)
			if err != nil {
				return err
			}
			return a.print(report, func(w io.Writer) { writeMemory(w, report) })
		},
	}
	optionalModelFlag(cmd, &name, "preset name (see models) or path to a GGUF file whose workspace is shown")
	return cmd
}

func memoryReport(name string) (report gpuMemoryReport, err error) {
	var m model.Model
	if name != "" {
		if m, err = model.Load(name); err != nil {
			return report, err
		}
	}
	d, err := openCUDA()
	if err != nil {
		return report, fmt.Errorf("gpu memory: no GPU: %w", err)
	}
	defer d.Close()
	report.Constants = memory.Defaults
	for i := range d.Devices() {
		one, err := memoryOf(d, i, m)
		if err != nil {
			return report, fmt.Errorf("gpu memory: %w", err)
		}
		report.Devices = append(report.Devices, one)
	}
	return report, nil
}

func memoryOf(d *driver.Driver, id int, m model.Model) (one deviceMemory, err error) {
	manager, err := memory.NewManager(d, id, memory.Options{})
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, manager.Close()) }()
	device := d.Devices()[id]
	one = deviceMemory{UUID: device.UUID(), Name: device.Name(), Stats: manager.Stats()}
	if len(m.Shapes) == 0 {
		return one, nil
	}
	largest := slices.MaxFunc(m.Shapes, func(a, b model.Shape) int { return a.N*a.K - b.N*b.K })
	for _, q := range []memory.Quantization{memory.I2S, memory.TL1, memory.TL2} {
		w := modelWorkspace{Quantization: q, N: largest.N, K: largest.K}
		w.Workspace, err = manager.Workspace(memory.Demand{InputFeatures: uint64(largest.K), OutputFeatures: uint64(largest.N), Quantization: q})
		if err != nil {
			w.Reason = err.Error()
		}
		one.Workspaces = append(one.Workspaces, w)
	}
	return one, nil
}

func writeMemory(w io.Writer, r gpuMemoryReport) {
	for _, d := range r.Devices {
		fmt.Fprintf(w, "%s  %s\n", d.Name, d.UUID)
		fmt.Fprintf(w, "  memory      %s free of %s (probe), %s usable after the reserves, pressure %s\n",
			size(d.Memory.FreeBytes), size(d.Memory.TotalBytes), size(d.UsableBytes), d.Level)
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, p := range d.Pools {
			fmt.Fprintf(tab, "  pool\t%s\theld %s\tin use %s\n", p.Name, size(p.HeldBytes), size(p.UsedBytes))
		}
		for _, s := range d.Workspaces {
			if s.Reason != "" {
				fmt.Fprintf(tab, "  workspace\t%s\t%s\n", s.Quantization, s.Reason)
				continue
			}
			fmt.Fprintf(tab, "  workspace\t%s\t%s\tbatch %d, bound by %s (estimate, %d x %d)\n", s.Quantization, size(s.Bytes), s.Batch, s.Limit, s.N, s.K)
		}
		tab.Flush()
	}
}
