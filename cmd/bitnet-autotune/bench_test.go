package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// inventedBench is a report with every layout, residency and kind of limit. Nothing in it was measured.
func inventedBench() *tuner.BenchReport {
	r := &tuner.BenchReport{
		Host:          tuner.BenchHost{CPU: "Example Processor 9000", UsableCores: 2},
		StartedAt:     time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		ReadBandwidth: map[int]float64{1: 40e9, 2: 48e9},
		ReadFrom: map[tuner.Residency]map[int]float64{
			tuner.InL2: {1: 125e9, 2: 250e9}, tuner.InL3: {1: 75e9, 2: 150e9}, tuner.InDRAM: {1: 40e9, 2: 48e9},
		},
		Int8Peak:   map[int]float64{1: 1085e9, 2: 2150e9},
		Int8PeakOf: map[string]map[int]float64{"vpdpbusd zmm": {1: 1085e9, 2: 2150e9}, "vpmaddubsw ymm": {1: 543e9, 2: 1083e9}},
		Warnings:   []string{"an invented note"},
	}
	for _, residency := range tuner.Residencies() {
		for _, m := range []int{1, 8, 128} {
			for _, threads := range []int{1, 2} {
				for i, k := range inventedKernels {
					r.Rows = append(r.Rows, invent(r, k, residency, m, threads, i))
				}
			}
		}
	}
	return r
}

type inventedKernel struct {
	layout kernels.Layout
	isa    string
	loop   string
	bits   float64
}

var inventedKernels = []inventedKernel{
	{"i2s", "avx2", "vpmaddubsw ymm", 2}, {"i2s", "avx512vnni", "vpdpbusd zmm", 2}, {"t5", "avx512vbmi", "vpdpbusd zmm", 1.6},
	{"tl1", "avx2", "vpmaddubsw ymm", 2}, {"tl2", "avx2", "vpmaddubsw ymm", 1.67}, {"tl2", "avx512vbmi", "vpdpbusd zmm", 1.67},
}

func invent(r *tuner.BenchReport, k inventedKernel, residency tuner.Residency, m, threads, i int) tuner.Bench {
	const n, columns = 1024, 640
	matrix := n * columns * k.bits / 8
	b := tuner.Bench{
		Kernel: fmt.Sprintf("mul/%s/%s", k.layout, k.isa), Layout: k.layout, N: n, K: columns, M: m, Threads: threads, Residency: residency,
		Blocking:        kernels.Blocking{Tile: kernels.Tile{Groups: 4, Tokens: min(m, 4)}, PrefetchBytes: 4096},
		WorkingSetBytes: uint64(matrix) * 3, Limit: "int8 peak", LimitLoop: k.loop, LimitPerSecond: r.Int8PeakOf[k.loop][threads],
		Samples: 20, Spread: 0.0125,
	}
	read := r.ReadFrom[residency][threads]
	operations := 2 * float64(n*columns*m)
	b.MedianSeconds = max(operations/b.LimitPerSecond, matrix/read) / (0.95 - 0.03*float64(i))
	b.FractionOfLimit = operations / b.LimitPerSecond / b.MedianSeconds
	if m == 1 {
		b.Limit, b.LimitLoop, b.LimitPerSecond = "read", "plain loads", read
		b.FractionOfLimit = matrix / read / b.MedianSeconds
	}
	b.Low, b.High = 0.99*b.FractionOfLimit, 1.01*b.FractionOfLimit
	b.BytesPerSecond, b.OpsPerSecond, b.WeightsPerSecond = matrix/b.MedianSeconds, operations/b.MedianSeconds, n*columns/b.MedianSeconds
	return b
}

// TestBenchFormats compares every format with what it was when somebody last looked at it; -update rewrites them.
func TestBenchFormats(t *testing.T) {
	report := inventedBench()
	for file, write := range map[string]func(io.Writer) error{
		"bench.txt": func(w io.Writer) error { writeBench(w, report); return nil },
		"bench.csv": func(w io.Writer) error { return writeBenchCSV(w, report) },
		"bench.md":  func(w io.Writer) error { writeBenchMarkdown(w, report); return nil },
		"bench.svg": func(w io.Writer) error { return plotBench(w, report) },
	} {
		t.Run(file, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", file)
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// The columns of the CSV are the fields of the JSON document, blocking taken apart.
func TestBenchCSVHasEveryField(t *testing.T) {
	data, err := json.Marshal(tuner.Bench{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	var blocking map[string]json.RawMessage
	if err := json.Unmarshal(fields["blocking"], &blocking); err != nil {
		t.Fatal(err)
	}
	delete(fields, "blocking")
	want := append(sortedKeys(fields), sortedKeys(blocking)...)
	slices.Sort(want)
	var got []string
	for _, c := range benchColumns {
		got = append(got, c.name)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}

// A report of one row, or of none, is drawn as well.
func TestPlotOfLittle(t *testing.T) {
	full := inventedBench()
	for name, rows := range map[string][]tuner.Bench{"one row": full.Rows[:1], "none": nil} {
		t.Run(name, func(t *testing.T) {
			little := &tuner.BenchReport{Rows: rows}
			var svg bytes.Buffer
			err := plotBench(&svg, little)
			if len(rows) == 0 {
				if err == nil {
					t.Error("a picture of nothing, want an error")
				}
				return
			}
			if err != nil || !strings.Contains(svg.String(), "</svg>") {
				t.Errorf("%v, %d bytes; want a picture", err, svg.Len())
			}
		})
	}
}
