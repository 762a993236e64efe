package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// benchColumn is a column of the CSV table, named as the field in the JSON document.
type benchColumn struct {
	name string
	text func(b tuner.Bench) string
}

var benchColumns = []benchColumn{
	{"kernel", func(b tuner.Bench) string { return b.Kernel }},
	{"layout", func(b tuner.Bench) string { return string(b.Layout) }},
	{"n", func(b tuner.Bench) string { return strconv.Itoa(b.N) }},
	{"k", func(b tuner.Bench) string { return strconv.Itoa(b.K) }},
	{"m", func(b tuner.Bench) string { return strconv.Itoa(b.M) }},
	{"threads", func(b tuner.Bench) string { return strconv.Itoa(b.Threads) }},
	{"residency", func(b tuner.Bench) string { return string(b.Residency) }},
	{"tile", func(b tuner.Bench) string { return b.Blocking.Tile.String() }},
	{"prefetch_bytes", func(b tuner.Bench) string { return strconv.Itoa(b.Blocking.PrefetchBytes) }},
	{"chunk_rows", func(b tuner.Bench) string { return strconv.Itoa(b.Blocking.ChunkRows) }},
	{"working_set_bytes", func(b tuner.Bench) string { return strconv.FormatUint(b.WorkingSetBytes, 10) }},
	{"median_seconds", func(b tuner.Bench) string { return figure(b.MedianSeconds) }},
	{"bytes_per_second", func(b tuner.Bench) string { return figure(b.BytesPerSecond) }},
	{"ops_per_second", func(b tuner.Bench) string { return figure(b.OpsPerSecond) }},
	{"weights_per_second", func(b tuner.Bench) string { return figure(b.WeightsPerSecond) }},
	{"limit", func(b tuner.Bench) string { return b.Limit }},
	{"limit_loop", func(b tuner.Bench) string { return b.LimitLoop }},
	{"limit_per_second", func(b tuner.Bench) string { return figure(b.LimitPerSecond) }},
	{"fraction_of_limit", func(b tuner.Bench) string { return figure(b.FractionOfLimit) }},
	{"fraction_low", func(b tuner.Bench) string { return figure(b.Low) }},
	{"fraction_high", func(b tuner.Bench) string { return figure(b.High) }},
	{"samples", func(b tuner.Bench) string { return strconv.Itoa(b.Samples) }},
	{"spread", func(b tuner.Bench) string { return figure(b.Spread) }},
}

// figure is a measured number with six digits, more than any of them is good for.
func figure(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// writeBenchCSV prints one line a row. Notes have no place in it: they are in the other formats.
func writeBenchCSV(w io.Writer, r *tuner.BenchReport) error {
	table := csv.NewWriter(w)
	line := make([]string, len(benchColumns))
	for i, c := range benchColumns {
		line[i] = c.name
	}
	_ = table.Write(line) // Error tells
	for _, b := range r.Rows {
		for i, c := range benchColumns {
			line[i] = c.text(b)
		}
		_ = table.Write(line)
	}
	table.Flush()
	return table.Error()
}

// writeBenchMarkdown prints the limits, one table for each shape and residency, and the notes.
func writeBenchMarkdown(w io.Writer, r *tuner.BenchReport) {
	fmt.Fprintf(w, "**%s**, %s usable, %s\n\n", orUnknown(r.Host.CPU), threads(r.Host.UsableCores), r.StartedAt.Format(time.DateOnly))
	for _, line := range limitLines(r) {
		fmt.Fprintf(w, "- %s\n", line)
	}
	block := ""
	for _, b := range r.Rows {
		if heading := fmt.Sprintf("%d x %d from %s", b.N, b.K, b.Residency); heading != block {
			block = heading
			fmt.Fprintf(w, "\n### %s\n\n", heading)
			fmt.Fprintln(w, "| M | threads | kernel | tile | prefetch | µs | GB/s | GOPS | of limit | interval | spread |")
			fmt.Fprintln(w, "|--:|--:|:--|--:|--:|--:|--:|--:|--:|:-:|--:|")
		}
		fmt.Fprintf(w, "| %d | %d | `%s` | %s | %d | %.1f | %.2f | %.0f | %.3f %s | %s | %.1f %% |\n", b.M, b.Threads, b.Kernel, b.Blocking.Tile, b.Blocking.PrefetchBytes,
			1e6*b.MedianSeconds, b.BytesPerSecond/1e9, b.OpsPerSecond/1e9, b.FractionOfLimit, b.Limit, interval(tuner.Ratio{Low: b.Low, High: b.High}), 100*b.Spread)
	}
	for i, warning := range r.Warnings {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "- Note: %s\n", warning)
	}
}
