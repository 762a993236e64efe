package tuner

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	gpukernels "github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// The knobs of a CUDA space besides knobBatch. The names are persistent.
const (
	knobLayout    = "layout"
	knobMethod    = "method"
	knobWarps     = "warps"
	knobRowTiles  = "row_tiles"
	knobTokens    = "tokens"
	knobUnroll    = "unroll"
	knobStages    = "stages"
	knobSplit     = "split_k"
	knobRegisters = "max_registers"
)

// cudaPrefillBatches are the chunk lengths for a prompt on a GPU: below 128 tokens reading the weights is the limit on most
// cards, above 2048 the workspace grows and nothing else.
var cudaPrefillBatches = []int{128, 256, 512, 1024, 2048}

// splits are the parts into which a row may be cut: more blocks where a matrix has few rows.
var splits = []int{1, 2, 4, 8}

// registerBounds are what the driver's compiler may be told; 0 leaves it to the compiler.
var registerBounds = []int{0, 32, 64, 128}

// What the hardware gives, the same on every card that has a kernel here (CUDA C++ Programming Guide, table of technical
// specifications).
const (
	blockRegisters = 65536 // of a block
	plainShared    = 48 << 10
	mostRegisters  = 255 // of a thread
)

// cudaDomain is a problem on a GPU.
type cudaDomain struct{ p Problem }

var _ domain = cudaDomain{}

// capability is that of the card; 0 if there is none.
func (d cudaDomain) capability() gpukernels.Capability {
	if d.p.Card == nil {
		return 0
	}
	return gpukernels.Capability(10*d.p.Card.Capability.Major + d.p.Card.Capability.Minor)
}

// sharedBytes is what a block may ask for.
func (d cudaDomain) sharedBytes() int {
	if d.p.Card == nil {
		return plainShared
	}
	return max(plainShared, d.p.Card.SharedBytes)
}

// usable are the kernels of the layouts worth trying that the card can run in a regime.
func (d cudaDomain) usable(r target.Regime) []gpukernels.Kernel {
	layouts := d.layouts()
	all := slices.DeleteFunc(gpukernels.Usable(d.capability()), func(k gpukernels.Kernel) bool { return !slices.Contains(layouts, k.Layout) })
	most := map[kernels.Layout]int{} // tokens of a block
	for _, k := range all {
		most[k.Layout] = max(most[k.Layout], k.Geometry.Tokens)
	}
	return slices.DeleteFunc(all, func(k gpukernels.Kernel) bool { return !suits(r, k, most[k.Layout]) })
}

// suits keeps the kernels that make sense for a regime. Tensor cores work on eight tokens at the least. A prompt is for
// kernels of 32 tokens and more; where a layout has none, for those with the most.
func suits(r target.Regime, k gpukernels.Kernel, most int) bool {
	tokens := k.Geometry.Tokens
	switch r {
	case target.Decode:
		return tokens == 1 || k.Method == gpukernels.MMA && tokens == SmallBatchTokens
	case target.SmallBatch:
		return tokens > 1 && tokens <= 2*SmallBatchTokens
	}
	return tokens >= min(32, most)
}

// standard implements answers: what bitnet.cpp's GPU kernel does, which takes codes apart by shifts, four warps to a block;
// and for more than one token, tensor cores with nothing tuned. The prompt comes in llama.cpp's n_ubatch of 512 tokens.
func (d cudaDomain) standard() Config {
	d.p.Layout = DefaultLayout
	return d.config(map[target.Regime]gpukernels.Kernel{
		target.Decode:     d.nearest(target.Decode, gpukernels.Geometry{Warps: 4, RowTiles: 1, Unroll: 1}, gpukernels.Shift),
		target.SmallBatch: d.nearest(target.SmallBatch, gpukernels.Geometry{Warps: 4, RowTiles: 1, Tokens: 8, Unroll: 1}, gpukernels.MMA),
		target.Prefill:    d.nearest(target.Prefill, gpukernels.Geometry{Warps: 4, RowTiles: 1, Tokens: 64, Stages: 2}, gpukernels.GEMM, gpukernels.MMA),
	})
}

// heuristic implements answers: codes multiplied where they are in the word, which takes the fewest instructions, two tiles
// read ahead; and blocks of 32 rows by 64 tokens for a prompt.
func (d cudaDomain) heuristic() Config {
	if d.p.Layout == "" {
		d.p.Layout = DefaultLayout
	}
	return d.config(map[target.Regime]gpukernels.Kernel{
		target.Decode:     d.nearest(target.Decode, gpukernels.Geometry{Warps: 4, RowTiles: 1, Unroll: 2}, gpukernels.NoShift, gpukernels.Decode),
		target.SmallBatch: d.nearest(target.SmallBatch, gpukernels.Geometry{Warps: 4, RowTiles: 1, Tokens: 8, Unroll: 2}, gpukernels.MMA),
		target.Prefill:    d.nearest(target.Prefill, gpukernels.Geometry{Warps: 4, RowTiles: 2, Tokens: 64, Stages: 3}, gpukernels.GEMM, gpukernels.MMA),
	})
}

// nearest is the kernel for a regime with the first of the methods that there is, or with any, and the geometry closest to
// what is wanted.
func (d cudaDomain) nearest(r target.Regime, want gpukernels.Geometry, methods ...gpukernels.Method) gpukernels.Kernel {
	list := d.usable(r)
	for _, m := range methods {
		only := slices.DeleteFunc(slices.Clone(list), func(k gpukernels.Kernel) bool { return k.Method != m })
		if len(only) > 0 {
			list = only
			break
		}
	}
	if len(list) == 0 { // no card
		return gpukernels.Kernel{}
	}
	return slices.MinFunc(list, func(a, b gpukernels.Kernel) int { return distance(a.Geometry, want) - distance(b.Geometry, want) })
}

// distance is how far two geometries are apart, in steps of 2.
func distance(a, b gpukernels.Geometry) int {
	steps := func(x, y int) int {
		return int(math.Abs(math.Round(math.Log2(float64(max(1, x))) - math.Log2(float64(max(1, y))))))
	}
	return steps(a.Warps, b.Warps) + steps(a.RowTiles, b.RowTiles) + steps(a.Tokens, b.Tokens) + steps(a.Unroll, b.Unroll) + steps(a.Stages, b.Stages)
}

func (d cudaDomain) config(chosen map[target.Regime]gpukernels.Kernel) Config {
	batches := map[target.Regime]int{target.Decode: 1, target.SmallBatch: SmallBatchTokens, target.Prefill: 512}
	c := Config{Strategy: GPUOnly, Layout: d.p.Layout}
	for r, k := range chosen {
		c = c.with(r, target.Arm{Kernel: k.Name, Batch: batches[r]})
	}
	return d.p.on(targetCUDA).completed(c)
}

// starts implements answers: the heuristic, the default, and the heuristic of each layout, for a batch also in two parts.
func (d cudaDomain) starts(r target.Regime) []target.Arm {
	arms := []target.Arm{d.heuristic().Arm(r), d.standard().Arm(r)}
	for _, layout := range d.layouts() {
		arms = append(arms, cudaDomain{d.p.in(layout)}.heuristic().Arm(r))
	}
	split := arms[0]
	split.Launch.SplitK = 2
	return append(arms, split)
}

// variant is what tells the kernels of the table apart.
type variant struct {
	layout   kernels.Layout
	method   gpukernels.Method
	geometry gpukernels.Geometry
}

// variants finds a kernel by its variant.
var variants = sync.OnceValue(func() map[variant]gpukernels.Kernel {
	m := map[variant]gpukernels.Kernel{}
	for _, k := range gpukernels.All() {
		m[variant{k.Layout, k.Method, k.Geometry}] = k
	}
	return m
})

// variantAt reads the knobs of a kernel.
func variantAt(value func(knob string) string) variant {
	return variant{kernels.Layout(value(knobLayout)), gpukernels.Method(value(knobMethod)), gpukernels.Geometry{
		Warps: number(value(knobWarps)), RowTiles: number(value(knobRowTiles)), Tokens: number(value(knobTokens)),
		Unroll: number(value(knobUnroll)), Stages: number(value(knobStages)),
	}}
}

// space implements settings.
func (d cudaDomain) space(r target.Regime) (*bandit.Space, error) {
	usable := d.usable(r)
	if len(usable) == 0 {
		return nil, fmt.Errorf("no CUDA kernel for layouts %v runs on a card of capability %s", d.layouts(), d.capability())
	}
	return bandit.NewSpace(d.p.restricted(r, d.knobs(r, usable)), d.rules(usable)...)
}

func (d cudaDomain) knobs(r target.Regime, usable []gpukernels.Kernel) []bandit.Knob {
	layouts, methods := distinct{}, distinct{}
	numbers := map[string][]int{}
	for _, k := range usable {
		layouts.add(string(k.Layout))
		methods.add(string(k.Method))
		g := k.Geometry
		for knob, n := range map[string]int{knobWarps: g.Warps, knobRowTiles: g.RowTiles, knobTokens: g.Tokens, knobUnroll: g.Unroll, knobStages: g.Stages} {
			numbers[knob] = append(numbers[knob], n)
		}
	}
	list := []bandit.Knob{
		{Name: knobLayout, Kind: bandit.Categorical, Values: layouts.values},
		{Name: knobMethod, Kind: bandit.Categorical, Values: methods.values},
	}
	for _, knob := range []string{knobWarps, knobRowTiles, knobTokens, knobUnroll, knobStages} {
		list = append(list, bandit.Knob{Name: knob, Kind: bandit.Ordinal, Values: texts(slices.Compact(slices.Sorted(slices.Values(numbers[knob]))))})
	}
	return append(list,
		bandit.Knob{Name: knobSplit, Kind: bandit.Ordinal, Values: texts(splits)},
		bandit.Knob{Name: knobRegisters, Kind: bandit.Ordinal, Values: texts(registerBounds)},
		bandit.Knob{Name: knobBatch, Kind: bandit.Ordinal, Values: texts(d.batches(r))},
	)
}

func (d cudaDomain) batches(r target.Regime) []int {
	if r == target.Prefill {
		return cudaPrefillBatches
	}
	return batches(r)
}

func (d cudaDomain) rules(usable []gpukernels.Kernel) []bandit.Rule {
	known := map[variant]gpukernels.Kernel{}
	for _, k := range usable {
		known[variant{k.Layout, k.Method, k.Geometry}] = k
	}
	multiprocessors, limit := 1, int64(0)
	if c := d.p.Card; c != nil {
		multiprocessors, limit = max(1, c.Multiprocessors), int64(c.TotalBytes/8)
	}
	return []bandit.Rule{
		{Reason: "no kernel was compiled with this geometry", Allows: func(value func(string) string) bool {
			_, ok := known[variantAt(value)]
			return ok
		}},
		{Reason: "a block would need more shared memory than the card gives one", Allows: func(value func(string) string) bool {
			return known[variantAt(value)].SharedBytes() <= d.sharedBytes()
		}},
		{Reason: "a block cannot have that many registers anyway, or its sums alone take more", Allows: func(value func(string) string) bool {
			k, bound := known[variantAt(value)], number(value(knobRegisters))
			return bound == 0 || bound*k.Threads() <= blockRegisters && bound > sumRegisters(k.Geometry)
		}},
		{Reason: "rows are too short for so many parts", Allows: func(value func(string) string) bool {
			k := known[variantAt(value)]
			return number(value(knobSplit)) <= d.mostSplits(k)
		}},
		{Reason: "fewer parts occupy every multiprocessor twice already", Allows: func(value func(string) string) bool {
			k, split := known[variantAt(value)], number(value(knobSplit))
			return split == 1 || d.blocks(k, number(value(knobBatch)), slices.Min[[]int])*split/2 < 2*multiprocessors
		}},
		{Reason: "so many rows to a block leave multiprocessors without one", Allows: func(value func(string) string) bool {
			k := known[variantAt(value)]
			return k.Geometry.RowTiles == 1 || d.blocks(k, number(value(knobBatch)), slices.Max[[]int])*number(value(knobSplit)) >= multiprocessors
		}},
		{Reason: "the workspace would take more than an eighth of the card's memory", Allows: func(value func(string) string) bool {
			return limit == 0 || d.workspace(d.arm(value)) <= limit
		}},
	}
}

// sumRegisters are the registers of a thread that hold sums: four for eight tokens of a tile of rows with tensor cores.
func sumRegisters(g gpukernels.Geometry) int { return g.RowTiles * g.Tokens / 8 * 4 }

// blocks is the size of the grid for the shape of the model that of picks.
func (d cudaDomain) blocks(k gpukernels.Kernel, batch int, of func([]int) int) int {
	list := []int{}
	for _, s := range d.p.Model.Shapes {
		list = append(list, (s.N+k.Rows()-1)/k.Rows()*((batch+k.Geometry.Tokens-1)/k.Geometry.Tokens))
	}
	if len(list) == 0 {
		return 0
	}
	return of(list)
}

// mostSplits is how many parts every row of the model can be cut into.
func (d cudaDomain) mostSplits(k gpukernels.Kernel) int {
	most := slices.Max(splits)
	for _, s := range d.p.Model.Shapes {
		most = min(most, k.Splits(s.K))
	}
	return most
}

// arm implements settings.
func (d cudaDomain) arm(value func(knob string) string) target.Arm {
	k := variants()[variantAt(value)]
	a := target.Arm{Layout: k.Layout, Kernel: k.Name, Batch: number(value(knobBatch))}
	a.Launch.MaxRegisters = number(value(knobRegisters))
	if split := number(value(knobSplit)); split > 1 {
		a.Launch.SplitK = split
	}
	return a
}

// values implements settings.
func (d cudaDomain) values(a target.Arm) map[string]string {
	k, _ := gpukernels.ByName(a.Kernel)
	g := k.Geometry
	return map[string]string{
		knobLayout: string(k.Layout), knobMethod: string(k.Method), knobWarps: strconv.Itoa(g.Warps), knobRowTiles: strconv.Itoa(g.RowTiles),
		knobTokens: strconv.Itoa(g.Tokens), knobUnroll: strconv.Itoa(g.Unroll), knobStages: strconv.Itoa(g.Stages),
		knobSplit: strconv.Itoa(max(1, a.Launch.SplitK)), knobRegisters: strconv.Itoa(a.Launch.MaxRegisters), knobBatch: strconv.Itoa(a.Batch),
	}
}

// judge implements judgement.
func (d cudaDomain) judge(r target.Regime, a target.Arm) error {
	k, ok := gpukernels.ByName(a.Kernel)
	switch {
	case d.p.Card == nil:
		return fmt.Errorf("kernel %q: there is no GPU", a.Kernel)
	case !ok:
		return fmt.Errorf("kernel %q is none of this build's CUDA kernels", a.Kernel)
	case k.Layout != a.Layout:
		return fmt.Errorf("kernel %s works on layout %s, not %s", k.Name, k.Layout, a.Layout)
	case k.Needs > d.capability():
		return fmt.Errorf("kernel %s needs a card of %s, this one is %s", k.Name, k.Needs, d.capability())
	case k.SharedBytes() > d.sharedBytes():
		return fmt.Errorf("kernel %s needs %d bytes of shared memory to a block, the card gives %d", k.Name, k.SharedBytes(), d.sharedBytes())
	case a.Batch < 1 || a.Batch > maxBatch || r == target.Decode && a.Batch != 1:
		return fmt.Errorf("batch %d: decode takes 1, the others 1 to %d", a.Batch, maxBatch)
	case a.Launch.SplitK < 0 || a.Launch.SplitK > d.mostSplits(k):
		return fmt.Errorf("split_k %d: 0 to %d", a.Launch.SplitK, d.mostSplits(k))
	case a.Launch.MaxRegisters < 0 || a.Launch.MaxRegisters > mostRegisters:
		return fmt.Errorf("max_registers %d: 0 to %d", a.Launch.MaxRegisters, mostRegisters)
	}
	return nil
}

// narrower implements judgement: a card of another capability is another identity, so nothing comes from a lesser one.
func (d cudaDomain) narrower(Config) bool { return false }

// workspace implements judgement: what the kernel asks for besides weights, and the results of one matmul.
func (d cudaDomain) workspace(a target.Arm) int64 {
	k, _ := gpukernels.ByName(a.Kernel)
	var most int64
	for _, s := range d.p.Model.Shapes {
		most = max(most, int64(k.Workspace(kernels.Shape{M: a.Batch, N: s.N, K: s.K}))+4*int64(a.Batch)*int64(s.N))
	}
	return most
}

// signature implements kernelTable.
func (d cudaDomain) signature() string { return gpukernels.Signature() }

// revision implements kernelTable.
func (d cudaDomain) revision(kernel string) int {
	k, _ := gpukernels.ByName(kernel)
	return k.Rev
}

// layouts implements kernelTable.
func (d cudaDomain) layouts() []kernels.Layout {
	if d.p.Layout != "" {
		return []kernels.Layout{d.p.Layout}
	}
	list := []kernels.Layout{DefaultLayout}
	for _, layout := range gpukernels.Layouts() {
		if layout != DefaultLayout {
			list = append(list, layout)
		}
	}
	return list
}
