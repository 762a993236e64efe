package tuner

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// The knobs of a CPU space. The names are persistent.
const (
	knobKernel   = "kernel"
	knobThreads  = "threads"
	knobTile     = "tile"
	knobPrefetch = "prefetch_bytes"
	knobChunk    = "chunk_rows"
	knobBatch    = "batch"
)

// prefillBatches are the chunk lengths into which a prompt may be cut. Below 32 tokens the small-batch regime
// applies; above 512 nothing is gained on a CPU (the arithmetic limit is reached from 32 on) and the workspace grows.
var prefillBatches = []int{32, 64, 128, 256, 512}

// chunkRows are the rows a worker may take at a time; 0 is one contiguous share, which keeps the memory stream
// linear, chunks help where cores differ in speed or are shared.
var chunkRows = []int{0, 256}

// Space returns the arms of a regime that may be tried, cut by what is known before any measurement. Each cut has its
// reason.
func (p Problem) Space(r target.Regime) (*bandit.Space, error) {
	usable := p.usable()
	return bandit.NewSpace(p.knobs(r, usable), p.rules(usable)...)
}

func (p Problem) knobs(r target.Regime, usable []kernels.Kernel) []bandit.Knob {
	tiles, prefetch, names := distinct{}, distinct{}, distinct{}
	prefetch.add("0")
	for _, k := range usable {
		names.add(k.Name)
		for _, t := range k.Tiles {
			if fits(r, t) {
				tiles.add(t.String())
			}
		}
		for _, batch := range batches(r) {
			tiles.add(k.Default(batch).Tile.String())
			prefetch.add(strconv.Itoa(k.Default(batch).PrefetchBytes))
		}
		if r == target.Prefill { // bound by arithmetic: no distance but none and the kernel's own can matter
			continue
		}
		for _, b := range k.Prefetch {
			prefetch.add(strconv.Itoa(b))
		}
	}
	return []bandit.Knob{
		{Name: knobKernel, Kind: bandit.Categorical, Values: names.values},
		{Name: knobThreads, Kind: bandit.Ordinal, Values: texts(threadCounts(p.threads(), p.Host.CPU.UsablePhysical))},
		{Name: knobTile, Kind: bandit.Categorical, Values: tiles.values},
		{Name: knobPrefetch, Kind: bandit.Ordinal, Values: prefetch.sorted()},
		{Name: knobChunk, Kind: bandit.Ordinal, Values: texts(chunkRows)},
		{Name: knobBatch, Kind: bandit.Ordinal, Values: texts(batches(r))},
	}
}

// fits keeps the tiles that make sense for a regime: decoding has one token, so no tile with more.
func fits(r target.Regime, t kernels.Tile) bool {
	switch r {
	case target.Decode:
		return t.Tokens <= 1
	case target.SmallBatch:
		return t.Tokens <= SmallBatchTokens
	}
	return t.Tokens > 1
}

// batches are the tokens per call of a regime.
func batches(r target.Regime) []int {
	switch r {
	case target.Decode:
		return []int{1}
	case target.SmallBatch:
		return []int{SmallBatchTokens}
	}
	return prefillBatches
}

// threadCounts are the thread counts worth trying: every one up to 8, then steps of a third to a half, the number of
// physical cores and the bound itself. Throughput is unimodal in threads, so coarse steps lose little.
func threadCounts(bound, physical int) []int {
	var counts []int
	for n, step := 1, 1; n <= bound; n += step {
		counts = append(counts, n)
		switch {
		case n >= 64:
			step = 32
		case n >= 32:
			step = 16
		case n >= 16:
			step = 8
		case n >= 8:
			step = 4
		}
	}
	return insert(insert(counts, min(physical, bound)), bound)
}

// insert puts n into the increasing list unless it is there.
func insert(list []int, n int) []int {
	i := 0
	for i < len(list) && list[i] < n {
		i++
	}
	if n < 1 || i < len(list) && list[i] == n {
		return list
	}
	return append(list[:i], append([]int{n}, list[i:]...)...)
}

func (p Problem) rules(usable []kernels.Kernel) []bandit.Rule {
	byName := map[string]kernels.Kernel{}
	simd := false
	for _, k := range usable {
		byName[k.Name] = k
		simd = simd || k.Needs != 0
	}
	limit := int64(p.Host.Memory.AvailableBytes / 8)
	return []bandit.Rule{
		{Reason: "the portable reference kernel cannot win where a SIMD kernel runs", Allows: func(value func(string) string) bool {
			return !simd || byName[value(knobKernel)].Needs != 0
		}},
		{Reason: "the kernel has no such register tile", Allows: func(value func(string) string) bool {
			k, tile := byName[value(knobKernel)], value(knobTile)
			if k.Default(number(value(knobBatch))).Tile.String() == tile {
				return true
			}
			for _, t := range k.Tiles {
				if t.String() == tile {
					return true
				}
			}
			return false
		}},
		{Reason: "the kernel has no such prefetch distance", Allows: func(value func(string) string) bool {
			b := number(value(knobPrefetch))
			for _, have := range byName[value(knobKernel)].Prefetch {
				if have == b {
					return true
				}
			}
			return b == 0
		}},
		{Reason: "one thread has nobody to share chunks with", Allows: func(value func(string) string) bool {
			return value(knobThreads) != "1" || value(knobChunk) == "0"
		}},
		{Reason: "the workspace would take more than an eighth of the available memory", Allows: func(value func(string) string) bool {
			return limit == 0 || armWorkspace(p.arm(value), p.Model) <= limit
		}},
	}
}

// arm reads a point's values as an arm.
func (p Problem) arm(value func(knob string) string) target.Arm {
	var tile kernels.Tile
	if err := tile.UnmarshalText([]byte(value(knobTile))); err != nil {
		panic("tuner: a space holds well-formed tiles")
	}
	kernel, _ := kernels.ByName(value(knobKernel))
	return target.Arm{
		Layout: kernel.Layout, Kernel: kernel.Name, Threads: number(value(knobThreads)), Batch: number(value(knobBatch)),
		Blocking: kernels.Blocking{Tile: tile, PrefetchBytes: number(value(knobPrefetch)), ChunkRows: number(value(knobChunk))},
	}
}

// ArmAt returns the arm of a point of a Space.
func (p Problem) ArmAt(s *bandit.Space, point bandit.Point) target.Arm {
	return p.arm(func(knob string) string { return s.Value(point, knob) })
}

// Starts returns the points of a Space that a search asks first, as facts alone choose them: the heuristic, the default,
// and the heuristic of each layout, also with the kernel's longest tile, which takes the fewest instructions to take weights
// apart: where those share ports with the multiplications it is the best. Points may repeat.
func (p Problem) Starts(s *bandit.Space, r target.Regime) []bandit.Point {
	arms := []target.Arm{p.Heuristic().Arm(r), p.Default().Arm(r)}
	for _, layout := range p.layouts() {
		arms = append(arms, p.in(layout).Heuristic().Arm(r))
	}
	for _, a := range slices.Clone(arms[2:]) {
		a.Blocking.Tile = longest(r, a)
		arms = append(arms, a)
	}
	var points []bandit.Point
	for _, a := range arms {
		if point, ok := pointOf(s, a); ok {
			points = append(points, point)
		}
	}
	return points
}

// longest is the tile of an arm's kernel that holds the most tokens in a regime.
func longest(r target.Regime, a target.Arm) kernels.Tile {
	tile := a.Blocking.Tile
	k, _ := kernels.ByName(a.Kernel)
	for _, t := range k.Tiles {
		if fits(r, t) && t.Tokens > tile.Tokens {
			tile = t
		}
	}
	return tile
}

// pointOf returns the point of an arm, if the space holds it.
func pointOf(s *bandit.Space, a target.Arm) (bandit.Point, bool) {
	want := map[string]string{
		knobKernel: a.Kernel, knobThreads: strconv.Itoa(a.Threads), knobTile: a.Blocking.Tile.String(),
		knobPrefetch: strconv.Itoa(a.Blocking.PrefetchBytes), knobChunk: strconv.Itoa(a.Blocking.ChunkRows), knobBatch: strconv.Itoa(a.Batch),
	}
	return s.Lookup(want)
}

// distinct keeps values in the order of their first appearance.
type distinct struct{ values []string }

func (d *distinct) add(v string) {
	for _, have := range d.values {
		if have == v {
			return
		}
	}
	d.values = append(d.values, v)
}

// sorted orders numeric values by size.
func (d *distinct) sorted() []string {
	var numbers []int
	for _, v := range d.values {
		n := number(v)
		if n == 0 {
			continue
		}
		numbers = insert(numbers, n)
	}
	return append([]string{"0"}, texts(numbers)...)
}

func texts(numbers []int) []string {
	list := make([]string, len(numbers))
	for i, n := range numbers {
		list[i] = strconv.Itoa(n)
	}
	return list
}

// number reads a numeric knob value.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("tuner: knob value %q is no number", text))
	}
	return n
}
