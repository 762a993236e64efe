package tuner

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
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

// cpuDomain is a problem on the CPU.
type cpuDomain struct{ p Problem }

var _ domain = cpuDomain{}

// standard implements answers: what an engine of bitnet.cpp's class does on this host with nobody tuning it. That is one thread for each usable physical core, the AVX2 kernel on x86 (its I2_S path for
// this class of hosts has no wider one) or the portable one elsewhere, static shares of the rows, no software
// prefetch, and llama.cpp's n_ubatch of 512 tokens for a prompt; 32 with the portable kernel, which takes as long for
// each token at any batch, and would take a minute for one sample of 512.
func (d cpuDomain) standard() Config {
	d.p.Layout = DefaultLayout
	kernel, batch := "mul/"+string(d.p.Layout)+"/generic", 32
	for _, k := range d.usable() {
		if k.Needs == probe.AVX2 {
			kernel, batch = k.Name, 512
		}
	}
	return d.config(kernel, batch, func(b kernels.Blocking) kernels.Blocking {
		b.PrefetchBytes = 0
		return b
	})
}

// heuristic implements answers: the kernel that needs the most of what the host has, one thread for each usable physical core, and the kernel's own blocking.
func (d cpuDomain) heuristic() Config {
	if d.p.Layout == "" {
		d.p.Layout = DefaultLayout
	}
	batch := 128
	if d.widest().Needs == 0 {
		batch = 32
	}
	return d.config(d.widest().Name, batch, func(b kernels.Blocking) kernels.Blocking { return b })
}

// starts implements answers: the heuristic, the default, and the heuristic of each layout, also with the kernel's longest
// tile, which takes the fewest instructions to take weights apart: where those share ports with the multiplications it is
// the best.
func (d cpuDomain) starts(r target.Regime) []target.Arm {
	arms := []target.Arm{d.heuristic().Arm(r), d.standard().Arm(r)}
	for _, layout := range d.layouts() {
		arms = append(arms, d.in(layout).heuristic().Arm(r))
	}
	for _, a := range slices.Clone(arms[2:]) {
		a.Blocking.Tile = longest(r, a)
		arms = append(arms, a)
	}
	return arms
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

// usable are the kernels of the layouts worth trying that this host can run.
func (d cpuDomain) usable() []kernels.Kernel {
	layouts := d.layouts()
	return slices.DeleteFunc(kernels.Usable(d.p.Host.CPU.Features), func(k kernels.Kernel) bool { return !slices.Contains(layouts, k.Layout) })
}

// widest is the usable kernel of the layouts worth trying with the most demands.
func (d cpuDomain) widest() kernels.Kernel { return widestOf(d.usable()) }

// widestOf is the kernel with the most demands: a wider vector unit is faster unless proven otherwise.
func widestOf(list []kernels.Kernel) kernels.Kernel {
	best := list[0]
	for _, k := range list[1:] {
		if k.Needs > best.Needs {
			best = k
		}
	}
	return best
}

func (d cpuDomain) config(kernel string, batch int, adjust func(kernels.Blocking) kernels.Blocking) Config {
	k, _ := kernels.ByName(kernel)
	threads := max(1, min(d.p.Host.CPU.UsablePhysical, d.p.threads()))
	of := func(batch int) Setting {
		return Setting{Kernel: kernel, Threads: threads, Batch: batch, Blocking: adjust(k.Default(batch))}
	}
	c := Config{Strategy: CPUOnly, Layout: d.p.Layout, Decode: of(1), SmallBatch: of(SmallBatchTokens), Prefill: of(batch)}
	return d.p.on(targetCPU).completed(c)
}

// in is the domain bound to one layout.
func (d cpuDomain) in(layout kernels.Layout) cpuDomain { return cpuDomain{d.p.in(layout)} }

// space implements settings.
func (d cpuDomain) space(r target.Regime) (*bandit.Space, error) {
	usable := d.usable()
	return bandit.NewSpace(d.p.restricted(r, d.knobs(r, usable)), d.rules(usable)...)
}

func (d cpuDomain) knobs(r target.Regime, usable []kernels.Kernel) []bandit.Knob {
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
		{Name: knobThreads, Kind: bandit.Ordinal, Values: texts(threadCounts(d.p.threads(), d.p.Host.CPU.UsablePhysical))},
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

func (d cpuDomain) rules(usable []kernels.Kernel) []bandit.Rule {
	byName := map[string]kernels.Kernel{}
	simd := false
	for _, k := range usable {
		byName[k.Name] = k
		simd = simd || k.Needs != 0
	}
	limit := int64(d.p.Host.Memory.AvailableBytes / 8)
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
			return limit == 0 || d.workspace(d.arm(value)) <= limit
		}},
	}
}

// arm implements settings.
func (d cpuDomain) arm(value func(knob string) string) target.Arm {
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

// values implements settings.
func (d cpuDomain) values(a target.Arm) map[string]string {
	return map[string]string{
		knobKernel: a.Kernel, knobThreads: strconv.Itoa(a.Threads), knobTile: a.Blocking.Tile.String(),
		knobPrefetch: strconv.Itoa(a.Blocking.PrefetchBytes), knobChunk: strconv.Itoa(a.Blocking.ChunkRows), knobBatch: strconv.Itoa(a.Batch),
	}
}

// narrower implements judgement: the config uses a lesser kernel than the heuristic, so it comes from a host that had none as
// wide.
func (d cpuDomain) narrower(c Config) bool {
	for _, r := range Regimes {
		if k, _ := kernels.ByName(c.setting(r).Kernel); k.Needs < d.in(c.Layout).widest().Needs {
			return true
		}
	}
	return false
}

// layouts implements kernelTable: the one that was asked for, else the default's and every other one for which this
// host has a SIMD kernel.
func (d cpuDomain) layouts() []kernels.Layout {
	if d.p.Layout != "" {
		return []kernels.Layout{d.p.Layout}
	}
	list := []kernels.Layout{DefaultLayout}
	for _, layout := range kernels.Layouts() {
		if layout != DefaultLayout && d.in(layout).widest().Needs != 0 {
			list = append(list, layout)
		}
	}
	return list
}

// signature implements kernelTable.
func (d cpuDomain) signature() string { return kernels.Signature() }

// revision implements kernelTable.
func (d cpuDomain) revision(kernel string) int {
	k, _ := kernels.ByName(kernel)
	return k.Rev
}

// judge implements judgement.
func (d cpuDomain) judge(r target.Regime, a target.Arm) error {
	h := d.p.Host
	k, ok := kernels.ByName(a.Kernel)
	switch {
	case !ok:
		return fmt.Errorf("kernel %q is not in this build", a.Kernel)
	case k.Layout != a.Layout:
		return fmt.Errorf("kernel %s works on layout %s, not %s", k.Name, k.Layout, a.Layout)
	case !h.CPU.Features.Has(k.Needs):
		return fmt.Errorf("kernel %s needs %s, this host has %s", k.Name, k.Needs, h.CPU.Features)
	case a.Threads < 1 || a.Threads > h.CPU.UsableCores:
		return fmt.Errorf("threads %d: this host can use 1 to %d", a.Threads, h.CPU.UsableCores)
	case a.Batch < 1 || r == target.Decode && a.Batch != 1:
		return fmt.Errorf("batch %d: decode takes 1, the others at least 1", a.Batch)
	case a.Batch > maxBatch:
		return fmt.Errorf("batch %d: at most %d", a.Batch, maxBatch)
	case a.Blocking.Tile != kernels.Tile{} && !slices.Contains(k.Tiles, a.Blocking.Tile) && a.Blocking.Tile != k.Default(a.Batch).Tile:
		return fmt.Errorf("tile %s: kernel %s has %v", a.Blocking.Tile, k.Name, k.Tiles)
	case a.Blocking.PrefetchBytes < 0 || a.Blocking.ChunkRows < 0:
		return fmt.Errorf("prefetch_bytes %d, chunk_rows %d: at least 0", a.Blocking.PrefetchBytes, a.Blocking.ChunkRows)
	}
	return nil
}

// workspace implements judgement: the bytes that the activations, their sums and the results of one matmul take, with what
// the kernel asks for besides.
func (d cpuDomain) workspace(a target.Arm) int64 {
	k, _ := kernels.ByName(a.Kernel)
	var most int64
	for _, s := range d.p.Model.Shapes {
		stride := kernels.Stride(s.K)
		bytes := int64(a.Batch) * (int64(stride) + 4*int64(s.N) + 8)
		if k.Work != nil {
			bytes += int64(a.Threads) * int64(k.Work(kernels.Shape{M: a.Batch, N: s.N, K: s.K}))
		}
		most = max(most, bytes)
	}
	return most
}
