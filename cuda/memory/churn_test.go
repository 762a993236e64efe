package memory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim"
)

// churn allocates and frees for a number of operations: sizes log-uniform from 1 KB to 100 MB, as many live ones as make
// up about target bytes. check is called now and then.
func churn(t testing.TB, m *Manager, operations int, target uint64, seed uint64, check func()) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	var live []Allocation
	var sum uint64
	for i := range operations {
		if sum > target || len(live) > 0 && random.IntN(100) < 45 {
			n := random.IntN(len(live))
			if err := m.Free(live[n]); err != nil {
				t.Fatal(err)
			}
			sum -= live[n].Bytes
			live[n] = live[len(live)-1]
			live = live[:len(live)-1]
		} else {
			size := uint64(math.Exp(math.Log(1e3) + random.Float64()*math.Log(1e5)))
			a, err := m.Alloc(Request{Bytes: size})
			if err != nil {
				t.Fatalf("operation %d: %v", i, err)
			}
			live, sum = append(live, a), sum+a.Bytes
		}
		if i%1000 == 999 {
			check()
		}
	}
	apart(t, live)
	for _, a := range live {
		if err := m.Free(a); err != nil {
			t.Fatal(err)
		}
	}
}

// calls counts what reached the driver for memory, without queries: that the baseline needs one for each allocation, as
// this manager asks what is available, would flatter the pools.
func calls(s *sim.Machine) int {
	sum := 0
	for name, n := range s.Counts() {
		switch name {
		case "MemAlloc", "MemFree", "MemCreate", "MemRelease", "MemMap", "MemUnmap", "MemSetAccess", "MemAddressReserve", "MemAddressFree":
			sum += n
		}
	}
	return sum
}

// R4.52 R4.53 R4.55: 200,000 operations on a simulated device of 24 GiB. What is counted does not depend on the machine;
// the time that calls take is the simulation's.
func TestChurn(t *testing.T) {
	const operations, target = 200_000, 8 * gib
	type result struct {
		calls int
		took  time.Duration
		stats Stats
		worst float64
	}
	run := func(b Backing, operations int) result {
		s, d := gpus(t, 24*gib)
		m := manager(t, d, Options{Backing: b})
		before, start := calls(s), s.Now()
		worst := 0.0
		churn(t, m, operations, target, 1, func() {
			m.mu.Lock()
			worst = max(worst, m.stats(m.reckoned()).Fragmentation)
			m.mu.Unlock()
		})
		r := result{calls(s) - before, s.Now() - start, m.Stats(), worst}
		t.Logf("%q: %d driver calls, %v of the simulated driver, hits %.4f, efficiency at peak %.3f, fragmentation at worst %.3f",
			b, r.calls, r.took, r.stats.HitRate, r.stats.Efficiency, worst)
		return r
	}
	n := operations
	if testing.Short() {
		n = operations / 2
	}
	direct, pages, segments := run(BackingDirect, n), run(BackingPages, n), run(BackingSegments, n/10)
	if pages.stats.Efficiency <= 0.95 {
		t.Errorf("efficiency %.3f at peak: want more than 0.95", pages.stats.Efficiency)
	}
	if pages.worst >= 0.20 {
		t.Errorf("fragmentation %.3f at worst: want less than 0.20", pages.worst)
	}
	if 2*pages.calls > direct.calls || 2*pages.took > direct.took {
		t.Errorf("%d calls and %v against %d and %v: want half of it or less", pages.calls, pages.took, direct.calls, direct.took)
	}
	if 2*segments.calls > direct.calls/10 {
		t.Errorf("segments: %d calls against %d in ten times as many operations: want half of it or less", segments.calls, direct.calls)
	}
}

// What pools hand out is memory of its own: every allocation keeps the pattern that was written into it.
func TestChurnKeepsContents(t *testing.T) {
	for _, backing := range []Backing{BackingPages, BackingSegments} {
		_, d := gpus(t, 2*gib)
		m := manager(t, d, Options{Backing: backing})
		dev := d.Devices()[0]
		random := rand.New(rand.NewPCG(7, 7))
		type owned struct {
			a       Allocation
			pattern byte
		}
		var live []owned
		check := func(o owned) {
			got := make([]byte, 1)
			for _, at := range []uint64{0, o.a.Bytes / 2, o.a.Bytes - 1} {
				if err := driver.Download(dev, got, o.a.Ptr+driver.Ptr(at)); err != nil || got[0] != o.pattern {
					t.Fatalf("%s: byte %d of %+v is %d, want %d: %v", backing, at, o.a, got[0], o.pattern, err)
				}
			}
		}
		for i := range 2000 {
			if len(live) > 40 || len(live) > 0 && random.IntN(2) == 0 {
				n := random.IntN(len(live))
				check(live[n])
				drop(t, m, live[n].a)
				live = slices.Delete(live, n, n+1)
				continue
			}
			o := owned{get(t, m, 1+random.Uint64N(1<<(10+random.IntN(14)))), byte(i)}
			for _, at := range []uint64{0, o.a.Bytes / 2, o.a.Bytes - 1} {
				if err := driver.Upload(dev, o.a.Ptr+driver.Ptr(at), []byte{o.pattern}); err != nil {
					t.Fatal(err)
				}
			}
			live = append(live, o)
		}
		for _, o := range live {
			check(o)
			drop(t, m, o.a)
		}
	}
}

// R4.51 R4.55 R4.56: an allocation and a free that pools serve.
func BenchmarkPoolHit(b *testing.B) {
	for _, bytes := range []uint64{4 * kib, 256 * kib, 10 * mib, 90 * mib, 200 * mib} {
		b.Run(fmt.Sprintf("bytes=%d", bytes), func(b *testing.B) {
			_, d := gpus(b, 24*gib)
			m := manager(b, d, Options{})
			drop(b, m, get(b, m, bytes))
			b.ReportAllocs()
			for b.Loop() {
				drop(b, m, get(b, m, bytes))
			}
		})
	}
	b.Logf("simulated driver, %s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// R4.51 R4.55 R4.56: the median of an allocation in a churn, hits and misses apart.
func BenchmarkChurn(b *testing.B) {
	machine, d := gpus(b, 24*gib)
	m := manager(b, d, Options{})
	var hits, misses []float64
	random := rand.New(rand.NewPCG(1, 0))
	var live []Allocation
	for b.Loop() {
		if len(live) > 900 || len(live) > 0 && random.IntN(100) < 45 {
			n := random.IntN(len(live))
			drop(b, m, live[n])
			live[n] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		size := uint64(math.Exp(math.Log(1e3) + random.Float64()*math.Log(1e5)))
		before := m.record.valid
		m.record.valid = true
		start := time.Now()
		a, err := m.Alloc(Request{Bytes: size})
		took := float64(time.Since(start).Nanoseconds())
		if err != nil {
			b.Fatal(err)
		}
		if m.record.valid { // nothing was taken from the driver
			hits = append(hits, took)
		} else {
			misses = append(misses, took)
		}
		m.record.valid = before && m.record.valid
		live = append(live, a)
	}
	drop(b, m, live...)
	for name, all := range map[string][]float64{"hit": hits, "miss": misses} {
		if slices.Sort(all); len(all) > 0 {
			b.ReportMetric(all[len(all)/2], name+"-p50-ns")
			b.ReportMetric(all[len(all)*99/100], name+"-p99-ns")
		}
	}
	b.Logf("%v on %s/%s, %d CPUs", machine, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// R4.50 R4.56: making a manager and asking for the memory, without the start of the driver and of the context.
func BenchmarkQuery(b *testing.B) {
	_, d := gpus(b, 24*gib)
	if _, err := d.Devices()[0].MemoryInfo(); err != nil {
		b.Fatal(err)
	}
	b.Run("manager", func(b *testing.B) {
		for b.Loop() {
			m, err := NewManager(d, 0, Options{})
			if err != nil {
				b.Fatal(err)
			}
			closed(b, m)
		}
	})
	b.Run("refresh", func(b *testing.B) {
		m := manager(b, d, Options{})
		for b.Loop() {
			if _, err := m.Refresh(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Logf("simulated driver, %s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// R4.50: in the simulation's time, which is that of documents for a query, a manager is ready in less than 10 ms.
func TestManagerIsReadySoon(t *testing.T) {
	s, d := gpus(t, 141*gib)
	if _, err := d.Devices()[0].MemoryInfo(); err != nil { // the context, which is reported apart
		t.Fatal(err)
	}
	start := s.Now()
	manager(t, d, Options{})
	if took := s.Now() - start; took > 10*time.Millisecond {
		t.Errorf("%v", took)
	}
}
