package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// machine is what a verb about models and hardware speaks of: this host, or another one that files describe.
type machine struct {
	hostFile, gpuFile string
	levels            []string
	constants         constants
	rules             placement.Rules

	host      probe.Host
	survey    gpu.Survey
	bandwidth uint64 // measured, of the CPU's memory; 0 unknown
	rates     map[rated]float64
	devices   []placement.Device
	matrix    *placement.Matrix
}

// rated is a model in a layout whose rate was measured.
type rated struct{ fingerprint, layout string }

// flags adds the flags that name the machine.
func (m *machine) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.hostFile, "host", "", "plan for the host that this document of probe --format json describes, not for this one")
	cmd.Flags().StringVar(&m.gpuFile, "gpus", "", "plan with the GPUs in this JSON file (gpus of a probe document), not with those found here")
	cmd.Flags().StringArrayVar(&m.levels, "level", nil, "override a cell of the compatibility matrix: ROW/COLUMN=LEVEL (repeatable)")
	constantFlag(cmd, &m.constants)
}

// described is what of a probe document describes a machine.
type described struct {
	probe.Host
	gpu.Survey
	Bandwidth map[int]float64 `json:"read_bandwidth_bytes_per_second"`
}

// mostBytes bounds a memory in a document: sums of so much do not overflow.
const mostBytes = 1 << 50

// check refuses what no machine has, and what would be counted twice.
func (d described) check() error {
	for _, memory := range []struct {
		field string
		bytes uint64
	}{{"total_bytes", d.Memory.TotalBytes}, {"available_bytes", d.Memory.AvailableBytes}, {"limit_bytes", d.Memory.LimitBytes}} {
		if memory.bytes > mostBytes {
			return fmt.Errorf("memory.%s is %d: want at most 2^50", memory.field, memory.bytes)
		}
	}
	if d.CPU.NUMANodes < 0 || d.CPU.NUMANodes > 1<<10 {
		return fmt.Errorf("cpu.numa_nodes is %d: want 0 (unknown) to 1024", d.CPU.NUMANodes)
	}
	if d.Memory.TotalBytes > 0 && d.Memory.AvailableBytes > d.Memory.TotalBytes {
		return fmt.Errorf("memory.available_bytes is %d: want at most total_bytes, %d", d.Memory.AvailableBytes, d.Memory.TotalBytes)
	}
	for threads, rate := range d.Bandwidth {
		if !(rate >= 0 && rate <= 1e15) {
			return fmt.Errorf("read_bandwidth_bytes_per_second of %d threads is %g: want 0 to 1e15", threads, rate)
		}
	}
	for field, text := range map[string]string{"cpu.model": d.CPU.Model, "gpu_note": d.Note} {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return fmt.Errorf("%s is %q: want plain text", field, text)
		}
	}
	return checkGPUs(d.GPUs)
}

func checkGPUs(list []gpu.GPU) error {
	seen := map[string]bool{}
	for i, g := range list {
		switch {
		case g.Index < 0:
			return fmt.Errorf("gpus[%d].index is %d: want 0 or more", i, g.Index)
		case g.UUID != "" && seen[g.UUID]:
			return fmt.Errorf("gpus[%d].uuid %q is there twice: want each device once", i, g.UUID)
		case strings.ContainsFunc(g.Name+g.UUID+g.Trouble, unicode.IsControl):
			return fmt.Errorf("gpus[%d]: name %q, uuid %q, trouble %q: want plain text", i, g.Name, g.UUID, g.Trouble)
		case g.TotalBytes > mostBytes:
			return fmt.Errorf("gpus[%d].memory_total_bytes is %d: want at most 2^50", i, g.TotalBytes)
		case g.FreeBytes > g.TotalBytes:
			return fmt.Errorf("gpus[%d].memory_free_bytes is %d: want at most memory_total_bytes, %d", i, g.FreeBytes, g.TotalBytes)
		case !(g.Utilization >= 0 && g.Utilization <= 1):
			return fmt.Errorf("gpus[%d].utilization is %g: want 0 to 1", i, g.Utilization)
		}
		seen[g.UUID] = true
	}
	return nil
}

// read finds out about the machine.
func (m *machine) read(ctx context.Context, a *app) error {
	m.rules = placement.Rules{Constants: m.constants.Placement, Device: m.constants.Device, Memory: m.constants.Memory}
	m.matrix, m.rates = placement.DefaultMatrix(), map[rated]float64{}
	for _, k := range kernels.All() {
		m.matrix.AddKernel(string(k.Layout), k.Needs)
	}
	if err := m.look(ctx, a); err != nil {
		return err
	}
	if m.gpuFile != "" {
		found := described{}
		if err := readJSON("--gpus", m.gpuFile, &found); err != nil {
			return err
		}
		if found.GPUs == nil {
			return usage(fmt.Errorf("--gpus %s: it has no list called gpus: want a document of bitnet-autotune probe --format json, or {\"gpus\": […]} of one", m.gpuFile))
		}
		if err := checkGPUs(found.GPUs); err != nil {
			return usage(fmt.Errorf("--gpus %s: %w", m.gpuFile, err))
		}
		m.survey = found.Survey
	}
	for _, level := range m.levels {
		if err := m.matrix.Override(level); err != nil {
			return usage(fmt.Errorf("--level: %w", err))
		}
	}
	m.devices = m.rules.Devices(m.host, m.survey, m.bandwidth)
	return nil
}

// look reads the description that --host names, or this host and what was learned on it.
func (m *machine) look(ctx context.Context, a *app) (err error) {
	if m.hostFile == "" {
		if m.host, err = probe.Local(ctx); err != nil {
			return err
		}
		m.survey = surveyGPUs(ctx, 0)
		m.recall(a)
		return nil
	}
	found := described{}
	if err := readJSON("--host", m.hostFile, &found); err != nil {
		return err
	}
	if found.Memory.TotalBytes == 0 || found.Arch == "" {
		return usage(fmt.Errorf("--host %s: want a document of bitnet-autotune probe --format json", m.hostFile))
	}
	if err := found.check(); err != nil {
		return usage(fmt.Errorf("--host %s: %w", m.hostFile, err))
	}
	m.host, m.survey = found.Host, found.Survey
	for _, bytes := range found.Bandwidth {
		m.bandwidth = max(m.bandwidth, uint64(bytes))
	}
	return nil
}

// surveyGPUs looks for GPUs, for at most so long; 0 = as long as it takes a driver that sleeps.
func surveyGPUs(ctx context.Context, timeout time.Duration) gpu.Survey {
	return gpu.Local(ctx, gpu.Options{Timeout: timeout})
}

func readJSON(flag, path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", flag, err))
	}
	if err := json.Unmarshal(data, into); err != nil {
		return usage(fmt.Errorf("%s %s: %w; want a document of bitnet-autotune probe --format json", flag, path, err))
	}
	return nil
}

// recall takes from the store what was measured on this host: the bandwidth, and the cells of the matrix.
func (m *machine) recall(a *app) {
	snapshot, err := history.ReadSnapshot(a.store)
	if err != nil {
		if !errors.Is(err, history.ErrNoSnapshot) {
			a.log.Warn().Err(err).Msg("what was learned here cannot be read: estimates only")
		}
		return
	}
	for _, l := range snapshot.Learned {
		var proof tuner.Certificate
		if l.Signature != kernels.Signature() || !m.is(l) || json.Unmarshal(l.Certificate, &proof) != nil {
			continue
		}
		m.bandwidth = max(m.bandwidth, uint64(proof.Roofline.ReadBandwidth))
		best := proof.Best
		if at := (rated{l.Model, string(best.Config.Layout)}); l.Target == "cpu" {
			m.rates[at] = max(m.rates[at], best.Decode)
		}
		if k, known := kernels.ByName(best.Config.Decode.Kernel); known && best.Decode > 0 {
			m.matrix.AddMeasurement(string(best.Config.Layout), k.Needs, placement.Measurement{Model: l.ModelName, Kernel: k.Name,
				TokensPerSecond: best.Decode, Ratio: proof.Ratio.Estimate, At: l.MeasuredAt})
		}
	}
}

// is reports whether something was learned on this host under the limits that it has now.
func (m *machine) is(l history.Learned) bool {
	for _, f := range m.host.Envelope() {
		if l.Envelope[f.Name] != f.Value {
			return false
		}
	}
	return l.Host == m.host.Fingerprint()
}
