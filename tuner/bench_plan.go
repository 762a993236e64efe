package tuner

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// BenchOptions say how much Bench measures. The zero value is the full table: every kernel worth it, the shapes of all
// presets, every batch, number of threads and residency. A list that is not empty takes the place of the default one.
type BenchOptions struct {
	Quick       bool          // two shapes, three batches, 256 MiB of weights from DRAM, in QuickTime
	Shapes      []model.Shape // only these
	Kernel      string        // only kernels whose name matches; * stands for any characters and ? for one
	Batches     []int
	Threads     []int
	Residencies []Residency
	Budget      time.Duration           // the time that all rows share; if 0, QuickTime with Quick, else as long as it takes
	Seed        uint64                  // of the random weights
	Progress    func(row BenchProgress) // is told each row as it is done; nil = nobody
}

// QuickTime is the budget of a quick bench.
const QuickTime = 16 * time.Second

// ErrBadBench is wrapped by the errors of BenchOptions that cannot be.
var ErrBadBench = errors.New("bench")

// The tables' batches, and the shapes of a quick one.
var (
	benchBatches = []int{1, 2, 4, 8, 16, 32, 128, 512}
	quickBatches = []int{1, SmallBatchTokens, 128}
	quickShapes  = []shape{{2560, 2560}, {6912, 2560}}
)

// How many blocks of four samples, two of them the kernel's, a row gets: the least are those that an interval takes.
const (
	leastPairs = 6
	quickPairs = 10
	fullPairs  = 16
)

// The least bytes of distinct weights in DRAM, with a budget and without. The caches of a large host ask for more.
const (
	quickBytes = 256 << 20
	fullBytes  = 1 << 30
)

type shape struct{ n, k int }

// benchCase is a row to be measured.
type benchCase struct {
	kernel    kernels.Kernel
	m         int
	threads   int
	residency Residency
	matrices  int // used in turn
}

// benchBank is the cases of one shape in one layout, which share their matrices.
type benchBank struct {
	shape
	format kernels.Format
	cases  []benchCase
}

// matrix is the size of one matrix.
func (b benchBank) matrix() uint64 { return uint64(b.format.Bytes(b.n, b.k)) }

// matrices is how many the cases need.
func (b benchBank) matrices() int {
	most := 0
	for _, c := range b.cases {
		most = max(most, c.matrices)
	}
	return most
}

// benchPlan is what a run of Bench goes through.
type benchPlan struct {
	shapes []shape
	banks  []benchBank
	blocks int           // of a row, at most
	warm   time.Duration // of a subject, at most
	budget time.Duration // 0 = none
	notes  []string
}

// planBench lays out the table.
func planBench(h probe.Host, opt BenchOptions) (*benchPlan, error) {
	p := &benchPlan{blocks: fullPairs, warm: 200 * time.Millisecond, budget: opt.Budget}
	batches, residencies := benchBatches, Residencies()
	if opt.Quick {
		p.blocks, p.budget = quickPairs, cmp.Or(opt.Budget, QuickTime)
		batches, residencies = quickBatches, []Residency{InDRAM}
	}
	atLeast := uint64(fullBytes)
	if p.budget > 0 {
		atLeast, p.warm = quickBytes, 50*time.Millisecond
	}
	if lastLevel(h.CPU) == 0 {
		residencies = []Residency{InDRAM}
	}
	batches, residencies = orList(opt.Batches, batches), orList(opt.Residencies, residencies)
	threads := orList(opt.Threads, BenchThreads(h.CPU.UsableCores))
	list, err := opt.kernels(h.CPU.Features)
	if err := errors.Join(err, opt.check(h, batches, threads, residencies)); err != nil {
		return nil, err
	}
	p.shapes = opt.shapes()
	p.notes = residencyNotes(h, residencies)
	for _, s := range p.shapes {
		for _, layout := range kernels.Layouts() {
			format, _ := kernels.FormatOf(layout)
			bank := benchBank{shape: s, format: format}
			bank.add(h.CPU, list, batches, threads, residencies, atLeast)
			p.keep(bank, h.Memory.AvailableBytes/2)
		}
	}
	if len(p.banks) == 0 {
		return nil, fmt.Errorf("%w: no row is left: none of these matrices fits %v with these batches", ErrBadBench, residencies)
	}
	return p, nil
}

func orList[T any](list, def []T) []T {
	if len(list) > 0 {
		return list
	}
	return def
}

// check refuses what this host cannot do, naming the field.
func (o BenchOptions) check(h probe.Host, batches, threads []int, residencies []Residency) error {
	if o.Budget < 0 {
		return fmt.Errorf("%w: budget %v: want a positive duration, or 0 for as long as it takes", ErrBadBench, o.Budget)
	}
	for _, m := range batches {
		if m < 1 {
			return fmt.Errorf("%w: batch %d: want 1 or more tokens", ErrBadBench, m)
		}
	}
	for _, n := range threads {
		if n < 1 || n > h.CPU.UsableCores {
			return fmt.Errorf("%w: threads %d: this host can use 1 to %d", ErrBadBench, n, h.CPU.UsableCores)
		}
	}
	for _, r := range residencies {
		if !slices.Contains(Residencies(), r) {
			return fmt.Errorf("%w: residency %q: one of %v", ErrBadBench, r, Residencies())
		}
	}
	return nil
}

// shapes are the distinct ones.
func (o BenchOptions) shapes() []shape {
	var list []shape
	add := func(from []model.Shape) {
		for _, s := range from {
			if !slices.Contains(list, shape{s.N, s.K}) {
				list = append(list, shape{s.N, s.K})
			}
		}
	}
	switch {
	case len(o.Shapes) > 0:
		add(o.Shapes)
		if o.Quick {
			list = list[:min(len(list), len(quickShapes))]
		}
	case o.Quick:
		return quickShapes
	default:
		for _, m := range model.Presets() {
			add(m.Shapes)
		}
	}
	return list
}

// kernels are those that the filter leaves of what the host can run. Without one, those are the SIMD kernels, and the
// portable ones only where there is no other.
func (o BenchOptions) kernels(have probe.Feature) ([]kernels.Kernel, error) {
	usable := kernels.Usable(have)
	if o.Kernel == "" {
		simd := widestOf(usable).Needs != 0
		return slices.DeleteFunc(usable, func(k kernels.Kernel) bool { return k.Needs == 0 && simd }), nil
	}
	var names []string
	for _, k := range usable {
		names = append(names, k.Name)
	}
	pattern := glob(o.Kernel)
	usable = slices.DeleteFunc(usable, func(k kernels.Kernel) bool { return !pattern.MatchString(k.Name) })
	if len(usable) == 0 {
		return nil, fmt.Errorf("%w: kernel %q: none of %s", ErrBadBench, o.Kernel, strings.Join(names, ", "))
	}
	return usable, nil
}

// glob is a pattern in which * stands for any characters, slashes among them, and ? for one.
func glob(pattern string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(quoted)
	return regexp.MustCompile("^" + quoted + "$")
}

// add gives the bank its cases. Kernels come last in the order, so that those to be compared are close in time.
func (b *benchBank) add(cpu probe.CPU, list []kernels.Kernel, batches, threads []int, residencies []Residency, atLeast uint64) {
	for _, r := range residencies {
		for _, m := range batches {
			for _, n := range threads {
				x := uint64(m) * uint64(b.k+kernels.ColAlign)
				out := 4 * uint64(m) * uint64(b.n)
				count := workingSet(cpu, r, n, b.matrix(), x, out, atLeast)
				for _, k := range list {
					if k.Layout == b.format.Layout && count > 0 {
						b.cases = append(b.cases, benchCase{k, m, n, r, count})
					}
				}
			}
		}
	}
}

// keep takes a bank up into the plan, less what the memory does not hold; a limit of 0 is unknown.
func (p *benchPlan) keep(b benchBank, limit uint64) {
	if need := uint64(b.matrices()) * b.matrix(); limit > 0 && need > limit {
		p.notes = append(p.notes, fmt.Sprintf("%s, %d x %d: not measured from memory: the weights would take %d bytes, and %d may be used", b.format.Layout, b.n, b.k, need, limit))
		b.cases = slices.DeleteFunc(b.cases, func(c benchCase) bool { return uint64(c.matrices)*b.matrix() > limit })
	}
	if len(b.cases) > 0 {
		p.banks = append(p.banks, b)
	}
}

// rows is how many rows the plan has.
func (p *benchPlan) rows() int {
	count := 0
	for _, b := range p.banks {
		count += len(b.cases)
	}
	return count
}

// BenchThreads are the thread counts of a table: 1 and the bound, with the powers of two between.
func BenchThreads(usable int) []int {
	if usable < 1 {
		return nil
	}
	var counts []int
	for n := 1; n < usable; n *= 2 {
		counts = append(counts, n)
	}
	return append(counts, usable)
}

// kernels are those of the cases, each once.
func (p *benchPlan) kernels() []kernels.Kernel {
	var list []kernels.Kernel
	for _, b := range p.banks {
		for _, c := range b.cases {
			if !slices.ContainsFunc(list, func(k kernels.Kernel) bool { return k.Name == c.kernel.Name }) {
				list = append(list, c.kernel)
			}
		}
	}
	return list
}
