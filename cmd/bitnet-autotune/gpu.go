package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

func (a *app) gpuVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "gpu",
		Short:   "The NVIDIA GPUs of this host",
		Example: "  bitnet-autotune gpu list\n  bitnet-autotune gpu bench",
	}
	cmd.AddCommand(a.gpuList(), a.gpuMemory(), a.gpuBench())
	return cmd
}

// gpuReport is the document of gpu list: what the driver's monitoring says, and what CUDA says.
type gpuReport struct {
	gpu.Survey
	CUDA cudaReport `json:"cuda"`
}

// cudaReport is what CUDA sees.
type cudaReport struct {
	Version string       `json:"version,omitempty"` // of the driver
	Devices []cudaDevice `json:"devices"`
	Note    string       `json:"note"` // why there are none, or which GPUs are not among them; "" = all is well
}

// cudaDevice is a device as CUDA counts it.
type cudaDevice struct {
	Ordinal    int                      `json:"ordinal"`
	UUID       string                   `json:"uuid"`
	Name       string                   `json:"name"`
	PCI        string                   `json:"pci,omitempty"`
	TotalBytes uint64                   `json:"memory_total_bytes"`
	Capability gpu.Capability           `json:"compute_capability"`
	Attributes map[driver.Attribute]int `json:"attributes"` // those that the driver told
}

func (a *app) gpuList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the GPUs, what holds them back now, and which of them CUDA can use",
		Long: `List the GPUs as NVML, the monitoring library of NVIDIA's driver, describes them, and as CUDA counts them; the two are
matched by UUID. Nothing is allocated on a GPU. Where there is none, the reason is printed, and that is no error.

BITNET_CUDA_LIBRARY names the file of libcuda where it is not in a usual place, and BITNET_AUTOTUNE_DISABLE=cuda hides all GPUs.`,
		Example: "  bitnet-autotune gpu list\n  bitnet-autotune gpu list --format json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := listGPUs(cmd.Context())
			return a.print(report, func(w io.Writer) { writeGPUs(w, report) })
		},
	}
}

// openCUDA opens the driver of this machine.
func openCUDA() (*driver.Driver, error) {
	if probe.Disabled("cuda") {
		return nil, errors.New("BITNET_AUTOTUNE_DISABLE switches off cuda")
	}
	return driver.Local(driver.Options{Library: os.Getenv("BITNET_CUDA_LIBRARY")})
}

func listGPUs(ctx context.Context) gpuReport {
	report := gpuReport{Survey: gpu.Local(ctx, gpu.Options{}), CUDA: cudaReport{Devices: []cudaDevice{}}}
	d, err := openCUDA()
	if err != nil {
		report.CUDA.Note = err.Error()
		return report
	}
	defer d.Close()
	report.CUDA.Version = fmt.Sprintf("%d.%d", d.Version()/1000, d.Version()%1000/10)
	for _, device := range d.Devices() {
		one := cudaDevice{Ordinal: device.Ordinal(), UUID: device.UUID(), Name: device.Name(), PCI: device.PCI(),
			TotalBytes: device.TotalBytes(), Attributes: device.Attributes()}
		one.Capability.Major, one.Capability.Minor, _ = device.Capability()
		report.CUDA.Devices = append(report.CUDA.Devices, one)
	}
	report.CUDA.Note = unseen(report)
	return report
}

// unseen says which GPUs CUDA does not have among its devices.
func unseen(r gpuReport) string {
	var missing []string
	for _, g := range r.GPUs {
		if ordinalOf(g, r.CUDA.Devices) == "" {
			missing = append(missing, cmp.Or(g.UUID, fmt.Sprintf("GPU %d", g.Index)))
		}
	}
	if missing == nil {
		return ""
	}
	return "not seen by CUDA (CUDA_VISIBLE_DEVICES may hide it): " + strings.Join(missing, ", ")
}

// ordinalOf is CUDA's number of a GPU, or "".
func ordinalOf(g gpu.GPU, devices []cudaDevice) string {
	for _, d := range devices {
		if driver.SameUUID(d.UUID, g.UUID) {
			return fmt.Sprint(d.Ordinal)
		}
	}
	return ""
}

func writeGPUs(w io.Writer, r gpuReport) {
	if r.Driver != "" {
		fmt.Fprintf(w, "driver  %s, for CUDA %s and older\n", r.Driver, orUnknown(r.Survey.CUDA))
	}
	if len(r.GPUs) > 0 {
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tab, "GPU\tCUDA\tname\tcapability\tfree\ttotal\tbusy\tSM clock\ttemperature\tpower\tUUID")
		for _, g := range r.GPUs {
			fmt.Fprintf(tab, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Index, cmp.Or(ordinalOf(g, r.CUDA.Devices), "-"), orUnknown(g.Name),
				orUnknown(g.ComputeCapability.String()), told(g, "memory_free_bytes", size(g.FreeBytes)), told(g, "memory_total_bytes", size(g.TotalBytes)),
				told(g, "utilization", fmt.Sprintf("%.0f %%", 100*g.Utilization)), told(g, "sm_mhz", fmt.Sprintf("%d of %d MHz", g.Clocks.SM, g.Clocks.MaxSM)),
				told(g, "temperature_celsius", fmt.Sprintf("%d °C", g.TemperatureCelsius)),
				told(g, "power_watts", fmt.Sprintf("%.0f of %.0f W", g.PowerWatts, g.PowerLimitWatts)), orUnknown(g.UUID))
		}
		tab.Flush()
		for _, g := range r.GPUs {
			writeTroubles(w, g)
		}
	} else {
		fmt.Fprintf(w, "GPUs  none: %s\n", r.Note)
	}
	writeCUDA(w, r)
}

// told is a value as text, unless the driver did not tell it.
func told(g gpu.GPU, name, text string) string {
	if g.Lacks(name) || g.UUID == "" {
		return "-"
	}
	return text
}

func writeTroubles(w io.Writer, g gpu.GPU) {
	if g.Trouble != "" {
		fmt.Fprintf(w, "GPU %d cannot be used: %s\n", g.Index, g.Trouble)
	}
	if len(g.Throttled) > 0 {
		fmt.Fprintf(w, "GPU %d is held back: %s\n", g.Index, strings.Join(g.Throttled, ", "))
	}
	if g.MIGParent != "" {
		fmt.Fprintf(w, "%s is an instance of %s\n", g.UUID, g.MIGParent)
	}
	if g.NVLinks > 0 {
		fmt.Fprintf(w, "GPU %d has %d NVLinks\n", g.Index, g.NVLinks)
	}
}

func writeCUDA(w io.Writer, r gpuReport) {
	if len(r.CUDA.Devices) == 0 {
		fmt.Fprintf(w, "CUDA  none: %s\n", r.CUDA.Note)
		return
	}
	for _, d := range r.CUDA.Devices {
		fmt.Fprintf(w, "CUDA device %d: %s, capability %s, %s, %s\n", d.Ordinal, orUnknown(d.Name), orUnknown(d.Capability.String()), size(d.TotalBytes), orUnknown(d.UUID))
	}
	if r.CUDA.Note != "" {
		fmt.Fprintln(w, r.CUDA.Note)
	}
}
