package tuner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// A row of a comparison with too few blocks for an interval has none, and marshals.
func TestBenchRow(t *testing.T) {
	unbounded := measure.Comparison{Ratio: 0.5, Low: 0, High: math.MaxFloat64, Blocks: 3, Base: measure.Summary{N: 6, Median: 2e6, CV: 0.01}, Cand: measure.Summary{Median: 4e6}}
	bounded := unbounded
	bounded.Low, bounded.High, bounded.Blocks = 0.4, 0.8, 10
	for name, test := range map[string]struct {
		c         measure.Comparison
		low, high float64
	}{
		"no interval": {unbounded, 0, 0},
		"interval":    {bounded, 1.25, 2.5},
	} {
		t.Run(name, func(t *testing.T) {
			row := Bench{N: 64, K: 128, M: 4}
			row.fill(test.c, 2048, 1, 2048)
			if row.FractionOfLimit != 2 || math.Abs(row.Low-test.low) > 1e-12 || math.Abs(row.High-test.high) > 1e-12 {
				t.Errorf("fraction %v in %v to %v; want 2 in %v to %v", row.FractionOfLimit, row.Low, row.High, test.low, test.high)
			}
			if row.MedianSeconds != 2e-3 || row.BytesPerSecond != 2048/2e-3 || row.LimitPerSecond != 2048/4e-3 || row.Intensity() != 2*64*128*4/2048.0 {
				t.Errorf("%v s, %v B/s, limit %v B/s, %v operations per byte", row.MedianSeconds, row.BytesPerSecond, row.LimitPerSecond, row.Intensity())
			}
			if _, err := json.Marshal(row); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBenchWarningsAreToldOnce(t *testing.T) {
	b := &bench{report: &BenchReport{}}
	for _, doubt := range []error{fmt.Errorf("%w: 9.1 %%", measure.ErrNoisy), measure.ErrUnsteady, fmt.Errorf("%w: 9.2 %%", measure.ErrNoisy)} {
		b.warn(kind(doubt))
	}
	if want := []string{measure.ErrNoisy.Error(), measure.ErrUnsteady.Error()}; !slices.Equal(b.report.Warnings, want) {
		t.Errorf("%q, want %q", b.report.Warnings, want)
	}
}

func TestBenchThreads(t *testing.T) {
	for usable, want := range map[int][]int{0: nil, 1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 8: {1, 2, 4, 8}} {
		if got := BenchThreads(usable); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", usable, got, want)
		}
	}
}

// The modelled hosts.
const (
	kib = 1 << 10
	mib = 1 << 20
)

var (
	desktop = probe.CPU{UsableCores: 8, L1d: probe.Cache{Bytes: 32 * kib, SharedBy: 2, Instances: 8}, L2: probe.Cache{Bytes: mib, SharedBy: 2, Instances: 8}, L3: probe.Cache{Bytes: 32 * mib, SharedBy: 16, Instances: 1}}
	chiplet = probe.CPU{UsableCores: 32, L1d: probe.Cache{Bytes: 32 * kib, SharedBy: 1, Instances: 32}, L2: probe.Cache{Bytes: mib, SharedBy: 1, Instances: 32}, L3: probe.Cache{Bytes: 32 * mib, SharedBy: 8, Instances: 4}}
	board   = probe.CPU{UsableCores: 4, L1d: probe.Cache{Bytes: 32 * kib, SharedBy: 1, Instances: 4}, L2: probe.Cache{Bytes: mib, SharedBy: 4, Instances: 1}}
	unknown = probe.CPU{UsableCores: 2}
)

// TestWorkingSet: the sets are the fewest matrices that the caches before cannot keep, and none where one is too large.
func TestWorkingSet(t *testing.T) {
	const small, medium, large = 100 * kib, 400 * kib, 1600 * kib
	for _, test := range []struct {
		name            string
		cpu             probe.CPU
		in              Residency
		threads         int
		matrix, outputs uint64
		want            int
	}{
		{"small, L2 of one core: four times its L1", desktop, InL2, 1, small, 0, 2},
		{"medium, L2 of one core", desktop, InL2, 1, medium, 0, 1},
		{"large is more than the L2", desktop, InL2, 1, large, 0, 0},
		{"large, a part each in the L2 of four cores, whose siblings may share them", desktop, InL2, 4, large, 0, 0},
		{"large, a part each in the L2 of four cores", chiplet, InL2, 4, large, 0, 1},
		{"the outputs take the L2", desktop, InL2, 1, medium, 500 * kib, 0},
		{"small, L3: four times the L2", desktop, InL3, 1, small, 0, 41},
		{"large, L3 with eight threads is full", desktop, InL3, 8, large, 0, 0},
		{"large, L3 with two threads", desktop, InL3, 2, large, 0, 6},
		{"each eight threads have an L3, half of which is not enough", chiplet, InL3, 32, large, 0, 0},
		{"no L3", board, InL3, 1, small, 0, 0},
		{"L2 shared by four", board, InL2, 4, small, 0, 6},
		{"memory: four times the L3", desktop, InDRAM, 1, large, 0, 82},
		{"memory: four times all L3", chiplet, InDRAM, 1, large, 0, 328},
		{"memory: the L2 is the last cache, the least is more", board, InDRAM, 1, mib, 0, 64},
		{"unknown caches: the least", unknown, InDRAM, 2, mib, 0, 64},
		{"unknown caches: no L2", unknown, InL2, 2, small, 0, 0},
		{"unknown caches: no L3", unknown, InL3, 2, small, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := workingSet(test.cpu, test.in, test.threads, test.matrix, 0, test.outputs, 64*mib); got != test.want {
				t.Errorf("%d matrices of %d KiB, want %d", got, test.matrix/kib, test.want)
			}
		})
	}
}

func TestResidencyNotes(t *testing.T) {
	for name, test := range map[string]struct {
		host probe.Host
		want string
	}{
		"bare metal":      {probe.Host{CPU: desktop, Virtualization: "none"}, ""},
		"virtual machine": {probe.Host{CPU: desktop, Virtualization: "kvm"}, "may share with others"},
		"unknown caches":  {probe.Host{CPU: unknown, Virtualization: "none"}, "does not tell the size of its caches"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(residencyNotes(test.host, Residencies()), "; ")
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// portable is a host on which only the portable kernels run.
func portable(cpu probe.CPU) probe.Host {
	return probe.Host{CPU: cpu, Memory: probe.Memory{AvailableBytes: 64 << 30}}
}

// TestQuickPlanKeepsTheContract: decode rows of a shape of at least 2560 x 2560 with 256 MiB of distinct weights, for
// every layout.
func TestQuickPlanKeepsTheContract(t *testing.T) {
	plan, err := planBench(portable(desktop), BenchOptions{Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	decoded := map[kernels.Layout]bool{}
	for _, b := range plan.banks {
		for _, c := range b.cases {
			if bytes := uint64(c.matrices) * b.matrix(); bytes < 256*mib || bytes < 4*32*mib {
				t.Errorf("%s on %d x %d: %d bytes of distinct weights", c.kernel.Name, b.n, b.k, bytes)
			}
			if c.m == 1 && b.n >= 2560 && b.k >= 2560 && c.residency == InDRAM {
				decoded[c.kernel.Layout] = true
			}
		}
	}
	for _, layout := range kernels.Layouts() {
		if !decoded[layout] {
			t.Errorf("no decode row of layout %s", layout)
		}
	}
	if plan.budget != QuickTime {
		t.Errorf("budget %v, want %v", plan.budget, QuickTime)
	}
}

// TestFullPlan: every distinct shape of the presets, once; every batch and number of threads from memory; nothing from a
// cache that cannot hold it.
func TestFullPlan(t *testing.T) {
	h := portable(desktop)
	plan, err := planBench(h, BenchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var want []shape
	for _, m := range model.Presets() {
		for _, s := range m.Shapes {
			if !slices.Contains(want, shape{s.N, s.K}) {
				want = append(want, shape{s.N, s.K})
			}
		}
	}
	if diff := cmp.Diff(want, plan.shapes, cmp.AllowUnexported(shape{})); diff != "" {
		t.Errorf("shapes (-want +got):\n%s", diff)
	}
	seen := map[string]int{}
	found := map[Residency]int{}
	for _, b := range plan.banks {
		for _, c := range b.cases {
			seen[fmt.Sprint(c.kernel.Name, b.shape, c.m, c.threads, c.residency)]++
			found[c.residency]++
			if c.residency == InL2 && b.matrix() > 8*mib {
				t.Errorf("%d x %d cannot be in the L2", b.n, b.k)
			}
		}
	}
	for row, times := range seen {
		if times != 1 {
			t.Errorf("%s is planned %d times", row, times)
		}
	}
	list, _ := BenchOptions{}.kernels(h.CPU.Features)
	if all := len(list) * len(want) * len(benchBatches) * len(BenchThreads(8)); found[InDRAM] != all {
		t.Errorf("%d rows from memory, want %d", found[InDRAM], all)
	}
	if found[InL2] == 0 || found[InL3] == 0 || found[InL2] >= found[InDRAM] {
		t.Errorf("rows by residency: %v", found)
	}
}

func TestPlanFilters(t *testing.T) {
	h := portable(desktop)
	plan, err := planBench(h, BenchOptions{Shapes: []model.Shape{{N: 1024, K: 640}, {N: 1024, K: 640}}, Kernel: "*/i2s/g?neric", Batches: []int{1, 3}, Threads: []int{2}, Residencies: []Residency{InL3, InDRAM}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range plan.banks {
		for _, c := range b.cases {
			got = append(got, fmt.Sprintf("%s %dx%d %d %d %s", c.kernel.Name, b.n, b.k, c.m, c.threads, c.residency))
		}
	}
	want := []string{
		"mul/i2s/generic 1024x640 1 2 l3", "mul/i2s/generic 1024x640 3 2 l3",
		"mul/i2s/generic 1024x640 1 2 dram", "mul/i2s/generic 1024x640 3 2 dram",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
}

func TestPlanRefuses(t *testing.T) {
	for name, opt := range map[string]BenchOptions{
		"kernel":    {Kernel: "mul/*/abacus"},
		"batch":     {Batches: []int{0}},
		"threads":   {Threads: []int{9}},
		"residency": {Residencies: []Residency{"l4"}},
		"budget":    {Budget: -time.Second},
		"no row":    {Shapes: []model.Shape{{N: 14336, K: 4096}}, Residencies: []Residency{InL2}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := planBench(portable(desktop), opt); !errors.Is(err, ErrBadBench) || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v, want ErrBadBench that names %s", err, name)
			}
		})
	}
}

// A host without the memory for a set still has its cache rows, and a note.
func TestPlanWithLittleMemory(t *testing.T) {
	h := portable(desktop)
	h.Memory.AvailableBytes = 100 * mib
	plan, err := planBench(h, BenchOptions{Shapes: []model.Shape{{N: 1024, K: 640}}, Kernel: "mul/i2s/generic", Batches: []int{1}, Threads: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.banks) != 1 || len(plan.banks[0].cases) != 2 || !strings.Contains(strings.Join(plan.notes, "; "), "not measured from memory") {
		t.Errorf("%d banks, notes %q", len(plan.banks), plan.notes)
	}
}

// invented is a plan of one shape and its clock, on a host where the portable kernel takes 1 ns per weight and token.
func invented(t *testing.T, opt BenchOptions) (*benchPlan, *benchClock, *time.Time) {
	t.Helper()
	opt.Kernel = "mul/i2s/generic"
	plan, err := planBench(portable(unknown), opt)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	clock := &benchClock{now: func() time.Time { return now }, paces: map[string]pace{"mul/i2s/generic": {1, 1}}}
	return plan, clock, &now
}

// TestBudgetDropsTheDearest: of what a budget has no room for the dear rows go, and every one is named.
func TestBudgetDropsTheDearest(t *testing.T) {
	plan, clock, _ := invented(t, BenchOptions{Shapes: []model.Shape{{N: 2560, K: 2560}}, Threads: []int{1}, Budget: 10 * time.Second})
	before := plan.rows()
	dropped := clock.fit(plan)
	kept := plan.rows()
	if kept+len(dropped) != before || kept == 0 || len(dropped) == 0 {
		t.Fatalf("%d rows kept, %d dropped of %d", kept, len(dropped), before)
	}
	if total := clock.total(plan, leastPairs); total > 10*time.Second {
		t.Errorf("what is kept takes %v", total)
	}
	dearest := 0
	for _, c := range plan.banks[0].cases {
		dearest = max(dearest, c.m)
	}
	for _, d := range dropped {
		if d.m < dearest {
			t.Errorf("a batch of %d was dropped and one of %d was kept", d.m, dearest)
		}
	}
	named := strings.Join(nameLeftOut("late", dropped), "\n")
	for _, want := range []string{"late: mul/i2s/generic on 2560 x 2560", "512 tokens from dram with 1 thread"} {
		if !strings.Contains(named, want) {
			t.Errorf("%q does not name %q", named, want)
		}
	}
}

// TestBudgetIsShared: a row of average cost gets its part of the time, none gets time past the deadline, and one that
// cannot have its least blocks any more is given up.
func TestBudgetIsShared(t *testing.T) {
	plan, clock, now := invented(t, BenchOptions{Shapes: []model.Shape{{N: 640, K: 640}}, Batches: []int{1, 2}, Budget: 10 * time.Second})
	clock.start(plan)
	s, first := plan.banks[0].shape, plan.banks[0].cases[0]
	rows := plan.rows()
	end, ok := clock.until(s, first)
	share := end.Sub(*now)
	if !ok || share > 10*time.Second*2/time.Duration(rows) || share < clock.row(s, first, leastPairs) {
		t.Errorf("a share of %v (%v) of 10 s for %d rows", share, ok, rows)
	}
	*now = clock.deadline.Add(-time.Millisecond)
	if _, ok := clock.until(s, first); ok {
		t.Error("a row begins a millisecond before the deadline")
	}
	if left := clock.remaining(); left > time.Millisecond {
		t.Errorf("%v left, want no more than the budget has", left)
	}
}

// TestClockLearns: where things take twice as long as was expected, so will the rest.
func TestClockLearns(t *testing.T) {
	plan, clock, now := invented(t, BenchOptions{Shapes: []model.Shape{{N: 640, K: 640}}})
	clock.start(plan)
	total := clock.remaining()
	clock.done(total / 2)
	*now = now.Add(total)
	if left := clock.remaining(); left < total*99/100 || left > total*101/100 {
		t.Errorf("%v left after half of %v took twice as long, want that again", left, total)
	}
}

// runSmall benches one small shape with the portable kernel on this machine.
func runSmall(t *testing.T, opt BenchOptions) (*BenchReport, error) {
	t.Helper()
	h, err := probe.Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.CPU.L3, h.CPU.L2 = probe.Cache{}, probe.Cache{}
	opt.Shapes, opt.Kernel, opt.Threads, opt.Budget = []model.Shape{{N: 512, K: 512}}, "mul/i2s/generic", []int{1}, time.Minute
	return RunBench(t.Context(), h, opt)
}

func TestRunBench(t *testing.T) {
	var told []BenchProgress
	r, err := runSmall(t, BenchOptions{Batches: []int{4, 1}, Quick: true, Progress: func(p BenchProgress) { told = append(told, p) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Interrupted || r.LeftOut != 0 || len(told) != 3 {
		t.Fatalf("%d rows, interrupted %v, %d left out, told %d times", len(r.Rows), r.Interrupted, r.LeftOut, len(told))
	}
	for i, want := range []struct {
		m     int
		limit string
	}{{1, limitRead}, {4, limitPeak}} {
		row := r.Rows[i]
		if row.M != want.m || row.Limit != want.limit || row.LimitLoop == "" || row.Residency != InDRAM || row.WorkingSetBytes < quickBytes ||
			!(row.FractionOfLimit > 0) || row.Samples < 2*leastPairs || !(row.LimitPerSecond > 0) {
			t.Errorf("row %d: %+v", i, row)
		}
	}
	if !(r.ReadBandwidth[1] > 0) || !(r.Int8Peak[1] > 0) || r.ReadFrom[InDRAM][1] != r.ReadBandwidth[1] {
		t.Errorf("limits %v, %v, %v", r.ReadBandwidth, r.ReadFrom, r.Int8Peak)
	}
}

// Ctrl-C keeps the rows that are done.
func TestRunBenchInterrupted(t *testing.T) {
	h, err := probe.Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := RunBench(ctx, h, BenchOptions{Quick: true, Shapes: []model.Shape{{N: 512, K: 512}}, Kernel: "mul/i2s/generic", Threads: []int{1}, Budget: time.Minute,
		Progress: func(p BenchProgress) {
			if p.Done == 1 {
				cancel()
			}
		}})
	if err != nil || r == nil || !r.Interrupted || len(r.Rows) != 1 || r.LeftOut != 2 {
		t.Fatalf("%+v, %v; want an interrupted report of one row", r, err)
	}
	if !strings.Contains(strings.Join(r.Warnings, "; "), "interrupted: 2 rows were not measured") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// A kernel that is wrong has no row and does not go unnoticed.
func TestBenchTakesAMismatchDown(t *testing.T) {
	b := &bench{report: &BenchReport{}}
	err := fmt.Errorf("token 0, row 1: %w", target.ErrMismatch)
	if got := b.mismatch("mul/x/bad", err); got != nil || !errors.Is(b.wrong, target.ErrMismatch) || !strings.Contains(b.report.Warnings[0], "mul/x/bad") {
		t.Errorf("%v, %v, %q", got, b.wrong, b.report.Warnings)
	}
	if got := b.mismatch("mul/x/bad", errors.ErrUnsupported); got != errors.ErrUnsupported {
		t.Errorf("another error became %v", got)
	}
}
