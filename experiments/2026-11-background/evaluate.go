package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// readHalves reads what an earlier run wrote; nothing where there is none.
func readHalves(path string) ([]half, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var halves []half
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var h half
		if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		halves = append(halves, h)
	}
	return halves, lines.Err()
}

// quantile is the least value that at least a share q of the list does not exceed; NaN of none.
func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// pooled are the latencies with and without the tuner over some pairs, by their numbers.
func pooled(halves []half, pairs []int) (with, without []float64) {
	for _, pair := range pairs {
		for _, h := range halves {
			if h.Pair == pair && h.Tuner {
				with = append(with, h.Latencies...)
			} else if h.Pair == pair {
				without = append(without, h.Latencies...)
			}
		}
	}
	return with, without
}

// ratio is a quantile with the tuner over that without, with a 95 % interval by the bootstrap over whole pairs: the minutes
// of one pair have the host's mood in common.
func ratio(halves []half, q float64, seed uint64) (estimate, low, high float64) {
	var pairs []int
	for _, h := range halves {
		if !slices.Contains(pairs, h.Pair) {
			pairs = append(pairs, h.Pair)
		}
	}
	over := func(pairs []int) float64 {
		with, without := pooled(halves, pairs)
		return quantile(with, q) / quantile(without, q)
	}
	random := rand.New(rand.NewPCG(seed, seed))
	var draws []float64
	for range 500 {
		drawn := make([]int, len(pairs))
		for i := range drawn {
			drawn[i] = pairs[random.IntN(len(pairs))]
		}
		draws = append(draws, over(drawn))
	}
	return over(pairs), quantile(draws, 0.025), quantile(draws, 0.975)
}

// table is the answer as Markdown.
func table(halves []half) string {
	var b strings.Builder
	var all []int
	for _, h := range halves {
		if !slices.Contains(all, h.Pair) {
			all = append(all, h.Pair)
		}
	}
	with, without := pooled(halves, all)
	fmt.Fprintf(&b, "%d and %d requests in %d pairs.\n\n| quantile | without, ms | with, ms | with / without | 95 %% interval |\n|---|---|---|---|---|\n", len(without), len(with), len(all))
	for _, q := range []float64{0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1} {
		estimate, low, high := ratio(halves, q, 1)
		fmt.Fprintf(&b, "| p%g | %.3f | %.3f | %.3f | %.3f-%.3f |\n", 100*q, quantile(without, q), quantile(with, q), estimate, low, high)
	}
	b.WriteString(felt(halves, quantile(without, 0.99)))
	b.WriteString("\np99 of each half, ms:\n\n| pair | without | with | with / without |\n|---|---|---|---|\n")
	for _, pair := range all {
		with, without := pooled(halves, []int{pair})
		fmt.Fprintf(&b, "| %d | %.3f | %.3f | %.3f |\n", pair, quantile(without, 0.99), quantile(with, 0.99), quantile(with, 0.99)/quantile(without, 0.99))
	}
	return b.String()
}

// tuneSeconds is how long a tune works: what the daemon allows one beside a service.
const tuneSeconds = 60

// felt says what the tuner did, which requests it met, and when a tune would be done at this pace.
func felt(halves []half, p99 float64) string {
	var met, others []float64
	var worked, child, daemon, time float64
	for _, h := range halves {
		if !h.Tuner || len(h.Latencies) == 0 {
			continue
		}
		for i, ms := range h.Latencies {
			if _, found := slices.BinarySearch(h.Met, i); found {
				met = append(met, ms)
			} else {
				others = append(others, ms)
			}
		}
		worked, child, daemon, time = worked+h.Worked, child+h.ChildCPU, daemon+h.DaemonCPU, time+h.Seconds
	}
	slow := 0
	for _, ms := range met {
		if ms > p99 {
			slow++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nIn the %.0f s with the tuner its children worked for %.2f s (%.3f %% of the time) and used %.2f CPU s, the daemon itself %.2f.\n", time, worked, 100*worked/time, child, daemon)
	fmt.Fprintf(&b, "%d requests (%.2f %%) met that work: %d of them took longer than the p99 without the tuner; their median is %.3f ms, that of the others %.3f ms.\n",
		len(met), 100*float64(len(met))/float64(max(1, len(met)+len(others))), slow, quantile(met, 0.5), quantile(others, 0.5))
	if worked > 0 {
		fmt.Fprintf(&b, "At this pace a tune of %d s of work is done in %.1f hours, and uses %.0f CPU s of the day's 1800.\n", tuneSeconds, tuneSeconds/(worked/time)/3600, tuneSeconds*child/worked)
	}
	return b.String()
}

// picture is the share of requests that take longer than a time, both on logarithmic scales.
func picture(halves []half) string {
	const width, height, margin = 640, 400, 50
	var with, without []float64
	for _, h := range halves {
		if h.Tuner {
			with = append(with, h.Latencies...)
		} else {
			without = append(without, h.Latencies...)
		}
	}
	all := append(slices.Clone(with), without...)
	if len(with) == 0 || len(without) == 0 {
		return ""
	}
	least, most := math.Log10(max(slices.Min(all), 1e-3)), math.Log10(max(slices.Max(all), 2e-3))
	deepest := math.Log10(float64(max(len(with), len(without))))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for _, curve := range []struct {
		list         []float64
		name, colour string
		labelled     int
	}{{without, "without the tuner", "#1f77b4", 20}, {with, "with the tuner", "#d62728", 38}} {
		sorted := slices.Sorted(slices.Values(curve.list))
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text><polyline fill="none" stroke="%s" points="`, width-180, curve.labelled, curve.colour, curve.name, curve.colour)
		last := math.Inf(-1)
		for i, v := range sorted {
			share := 1 - float64(i)/float64(len(sorted))
			x := margin + (math.Log10(max(v, 1e-3))-least)/(most-least)*(width-2*margin)
			y := margin + -math.Log10(share)/deepest*(height-2*margin)
			if x-last > 0.5 || i > len(sorted)-100 { // more cannot be seen
				fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
				last = x
			}
		}
		b.WriteString(`"/>` + "\n")
	}
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
		if y := margin + -math.Log10(1-q)/deepest*(height-2*margin); y <= height-margin {
			fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ccc"/><text x="8" y="%.1f">p%g</text>`+"\n", margin, width-margin, y, y, y+4, 100*q)
		}
	}
	for _, at := range []float64{least, (least + most) / 2, most} {
		x := margin + (at-least)/(most-least)*(width-2*margin)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.2f ms</text>`+"\n", x, height-margin/2, math.Pow(10, at))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
