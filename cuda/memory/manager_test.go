package memory

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// gpus is a simulated machine with devices of so many bytes each.
func gpus(t testing.TB, totals ...uint64) (*sim.Machine, *driver.Driver) {
	t.Helper()
	var config sim.Config
	for _, total := range totals {
		config.Devices = append(config.Devices, sim.DeviceSpec{TotalBytes: total})
	}
	return simulated(t, config)
}

// simulated is a simulated machine, of which nothing may be left when the test ends.
func simulated(t testing.TB, config sim.Config) (*sim.Machine, *driver.Driver) {
	t.Helper()
	m, err := sim.New(config)
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.Open(m.Table())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !t.Failed() {
			t.Errorf("close: %v", err)
		}
		if leaks := m.Leaks(); len(leaks) > 0 && !t.Failed() {
			t.Errorf("left on the devices: %q", leaks)
		}
		m.Close()
	})
	return m, d
}

// manager is that of device 0, closed when the test ends.
func manager(t testing.TB, d *driver.Driver, o Options) *Manager {
	t.Helper()
	m, err := NewManager(d, 0, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, m) })
	return m
}

// closed closes a manager, and checks what must hold after any test.
func closed(t testing.TB, m *Manager) {
	t.Helper()
	if t.Failed() {
		_ = m.Close()
		return
	}
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if m.taken != 0 || m.allocated != 0 {
		t.Errorf("closed with %d bytes taken and %d allocated", m.taken, m.allocated)
	}
}

// get allocates, or ends the test.
func get(t testing.TB, m *Manager, bytes uint64) Allocation {
	t.Helper()
	a, err := m.Alloc(Request{Bytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func drop(t testing.TB, m *Manager, all ...Allocation) {
	t.Helper()
	for _, a := range all {
		if err := m.Free(a); err != nil {
			t.Fatal(err)
		}
	}
}

var backings = []Backing{BackingPages, BackingSegments, BackingDirect}

func TestNewManager(t *testing.T) {
	t.Run("R4.1 a device that there is not", func(t *testing.T) {
		_, d := gpus(t, 8*gib, 8*gib)
		for _, id := range []int{-1, 2, 7} {
			_, err := NewManager(d, id, Options{})
			var wrong *DeviceError
			if !errors.As(err, &wrong) || wrong.Device != id || wrong.Count != 2 || !strings.Contains(err.Error(), fmt.Sprint(id)) {
				t.Errorf("device %d: %v", id, err)
			}
		}
		m, err := NewManager(d, 1, Options{})
		if err != nil || m.Device() != 1 || m.Close() != nil {
			t.Errorf("device 1: %v", err)
		}
	})
	t.Run("R4.1 R4.10 pooling on and off", func(t *testing.T) {
		_, d := gpus(t, 8*gib)
		for backing, pools := range map[Backing]int{BackingAuto: 3, BackingPages: 3, BackingSegments: 3, BackingDirect: 0} {
			m, err := NewManager(d, 0, Options{Backing: backing})
			if err != nil || len(m.Stats().Pools) != pools {
				t.Errorf("%q: %d pools, %v; want %d", backing, len(m.Stats().Pools), err, pools)
			}
			closed(t, m)
		}
		if _, err := NewManager(d, 0, Options{Backing: "slab"}); err == nil || !strings.Contains(err.Error(), "slab") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a device without virtual memory takes segments", func(t *testing.T) {
		_, d := simulated(t, sim.Config{Devices: []sim.DeviceSpec{{NoVirtual: true}}})
		m := manager(t, d, Options{})
		drop(t, m, get(t, m, 50*mib))
		if _, err := NewManager(d, 0, Options{Backing: BackingPages}); err == nil {
			t.Error("pages on a device that has none")
		}
	})
	t.Run("R1.4 R4.2 a query that fails is typed", func(t *testing.T) {
		_, d := simulated(t, sim.Config{Devices: make([]sim.DeviceSpec, 1), Faults: "MemGetInfo:1=999"})
		_, err := NewManager(d, 0, Options{})
		var query *QueryError
		var said *driver.Error
		if !errors.As(err, &query) || query.Device != 0 || !errors.As(err, &said) || said.Code != 999 || said.Text == "" {
			t.Errorf("%v", err)
		}
	})
	t.Run("constants that cannot be meant", func(t *testing.T) {
		_, d := gpus(t, 8*gib)
		c := Defaults
		c.AlignmentBytes = 300
		if _, err := NewManager(d, 0, Options{Constants: c}); err == nil || !strings.Contains(err.Error(), "alignment_bytes") {
			t.Errorf("%v", err)
		}
	})
}

func TestMemoryRecord(t *testing.T) {
	t.Run("R1.1 R1.3 R4.2 read from the driver, of the device that is meant", func(t *testing.T) {
		s, d := gpus(t, 8*gib, 24*gib)
		s.Take(1, 3*gib)
		for id, want := range []uint64{8 * gib, 24 * gib} {
			m, err := NewManager(d, id, Options{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := m.Memory()
			used, _ := s.Used(id)
			if err != nil || r.Device != id || r.TotalBytes != want || r.UsedBytes() != used || r.FreeBytes != want-used || r.Basis != "probe" {
				t.Errorf("device %d: %+v, %v; %d are used", id, r, err, used)
			}
			closed(t, m)
		}
	})
	t.Run("R1.5 cached for its lifetime, dropped on allocation, failure and demand", func(t *testing.T) {
		s, d := gpus(t, 8*gib)
		clock := newClock()
		m := manager(t, d, Options{Now: clock.now})
		queries := func(f func()) int {
			before := s.Calls("MemGetInfo")
			f()
			return s.Calls("MemGetInfo") - before
		}
		memory := func() {
			if _, err := m.Memory(); err != nil {
				t.Fatal(err)
			}
		}
		memory()
		if n := queries(func() { memory(); memory() }); n != 0 {
			t.Errorf("twice within the lifetime: %d queries, want 0", n)
		}
		clock.pass(Defaults.RecordLifetime)
		if n := queries(func() { memory(); memory() }); n != 1 {
			t.Errorf("after the lifetime: %d queries, want 1", n)
		}
		if n := queries(func() { _, _ = m.Refresh() }); n != 1 {
			t.Errorf("on demand: %d queries, want 1", n)
		}
		a := get(t, m, mib)
		if n := queries(memory); n != 1 {
			t.Errorf("after an allocation with the driver: %d queries, want 1", n)
		}
		drop(t, m, a)
		if n := queries(func() { drop(t, m, get(t, m, mib)) }); n != 0 {
			t.Errorf("an allocation of a pool: %d queries, want 0", n)
		}
		if err := s.Fault("MemAlloc:1=999"); err != nil {
			t.Fatal(err)
		}
		memory()
		if a, err := m.Alloc(Request{Bytes: 200 * mib}); err != nil || a.Owner != "direct" {
			t.Errorf("%+v, %v: want what the pool failed to get to be direct", a, err)
		} else {
			drop(t, m, a)
		}
		if err := s.Fault("MemAlloc:1+=999"); err != nil {
			t.Fatal(err)
		}
		memory()
		if _, err := m.Alloc(Request{Bytes: 200 * mib}); err == nil {
			t.Error("an allocation of a driver that fails")
		}
		s.Heal()
		if n := queries(memory); n != 1 {
			t.Errorf("after a failure: %d queries, want 1", n)
		}
		if err := s.Fault("MemGetInfo:1=999"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Refresh(); err == nil {
			t.Error("a query that failed")
		}
		if n := queries(memory); n != 1 {
			t.Errorf("after a query that failed: %d queries, want 1", n)
		}
	})
	t.Run("R1.32 a failure leaves the last record, called stale and an estimate", func(t *testing.T) {
		s, d := gpus(t, 8*gib)
		m := manager(t, d, Options{})
		before, _ := m.Memory()
		a := get(t, m, 200*mib)
		if err := s.Fault("MemGetInfo:1+=999"); err != nil {
			t.Fatal(err)
		}
		r, err := m.Refresh()
		var query *QueryError
		if !errors.As(err, &query) || r.Basis != "estimate" || r.Stale == "" || r.FreeBytes != before.FreeBytes-200*mib {
			t.Errorf("%+v, %v", r, err)
		}
		b := get(t, m, 300*mib) // the budget still holds
		if s := m.Stats(); s.Memory.Basis != "estimate" || s.Memory.FreeBytes != 8*gib-500*mib {
			t.Errorf("R4.30 free is total - allocated, as an estimate: %+v", s.Memory)
		}
		drop(t, m, a, b)
	})
	t.Run("RX.1 another source of the same record", func(t *testing.T) {
		_, d := gpus(t, 8*gib)
		m := manager(t, d, Options{Query: func(device int) (gpu.Memory, error) {
			return gpu.Memory{TotalBytes: 4 * gib, FreeBytes: 2 * gib}, nil
		}})
		if r, err := m.Memory(); err != nil || r.TotalBytes != 4*gib || m.Usable() != Defaults.Usable(4*gib) {
			t.Errorf("%+v, %v", r, err)
		}
		nonsense := Options{Query: func(int) (gpu.Memory, error) { return gpu.Memory{TotalBytes: 1, FreeBytes: 2}, nil }}
		if _, err := NewManager(d, 0, nonsense); err == nil {
			t.Error("more free than there is")
		}
	})
	t.Run("R4.4 R4.5 R4.61 usable is the budget, and total is above 0", func(t *testing.T) {
		for _, total := range []uint64{2, 4, 8, 16, 24, 48, 80, 141} {
			_, d := gpus(t, total*gib)
			m := manager(t, d, Options{})
			r, err := m.Memory()
			if err != nil || r.TotalBytes == 0 || m.Usable() > r.TotalBytes || m.Usable() != Defaults.Usable(total*gib) {
				t.Errorf("%d GiB: usable %d, %+v, %v", total, m.Usable(), r, err)
			}
		}
	})
}

func TestProperties(t *testing.T) {
	// R4.3: what the driver tells, and nil for what it does not.
	_, d := simulated(t, sim.Config{Devices: []sim.DeviceSpec{{Name: "Card", Capability: [2]int32{9, 0}, SMs: 132,
		Unreadable: []driver.Attribute{driver.MemoryClockRateKHz, driver.UnifiedAddressing}}}})
	got := manager(t, d, Options{}).Properties()
	number := func(n int) *int { return &n }
	want := Properties{
		Name: "Card", UUID: d.Devices()[0].UUID(), ComputeCapability: gpu.Capability{Major: 9},
		MaxThreadsPerBlock: number(1024), MaxThreadsPerMultiproc: number(2048), Multiprocessors: number(132),
		MemoryBusBits: number(5120), ConstantBytes: number(64 * kib), SharedBytesPerBlock: number(48 * kib),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAlloc(t *testing.T) {
	t.Run("R4.11 R4.12 R4.22 the first pool that fits, borders to the smaller one", func(t *testing.T) {
		_, d := gpus(t, 8*gib)
		m := manager(t, d, Options{})
		if s := m.Stats(); s.TakenBytes != 0 {
			t.Errorf("%d bytes taken before the first use", s.TakenBytes)
		}
		for _, test := range []struct {
			bytes uint64
			owner string
		}{
			{1, "small"}, {kib, "small"}, {2 * kib, "small"}, {mib, "small"}, {mib + 1, "medium"}, {100 * mib, "medium"},
			{100*mib + 1, "large"}, {gib, "large"},
		} {
			a := get(t, m, test.bytes)
			if a.Owner != test.owner {
				t.Errorf("%d bytes: %s, want %s", test.bytes, a.Owner, test.owner)
			}
			drop(t, m, a)
		}
	})
	t.Run("R4.20 R4.23 sizes are rounded up to the alignment, addresses are aligned", func(t *testing.T) {
		_, d := gpus(t, 8*gib)
		for _, backing := range backings {
			m := manager(t, d, Options{Backing: backing})
			var all []Allocation
			for _, alignment := range []uint64{0, 1, 256, 512, 4096, 64 * kib, 2 * mib} {
				for _, bytes := range []uint64{1, 1000, 70_000, 3_000_001, 150_000_001} {
					a, err := m.Alloc(Request{Bytes: bytes, Alignment: alignment})
					step := max(alignment, 1)
					if alignment == 0 {
						step = 256
					}
					if err != nil || a.Bytes != (bytes+step-1)/step*step || uint64(a.Ptr)%step != 0 || a.Device != 0 {
						t.Errorf("%s: %d bytes at %d: %+v, %v", backing, bytes, alignment, a, err)
					}
					all = append(all, a)
				}
			}
			apart(t, all)
			drop(t, m, all...)
			for _, wrong := range []Request{{}, {Bytes: 1, Alignment: 3}, {Bytes: 1, Alignment: 4 * mib}} {
				if a, err := m.Alloc(wrong); err == nil {
					t.Errorf("%+v: %+v and no error", wrong, a)
				}
			}
		}
	})
	t.Run("R4.21 R4.61 beyond the budget nothing changes", func(t *testing.T) {
		_, d := gpus(t, 8*gib)
		for _, backing := range backings {
			m := manager(t, d, Options{Backing: backing})
			a := get(t, m, gib)
			before := m.Stats()
			for _, bytes := range []uint64{m.Usable() + 1, m.Usable() - gib + 1, 1<<64 - 1, 1<<64 - 256} {
				_, err := m.Alloc(Request{Bytes: bytes})
				var out *OutOfMemoryError
				if !errors.As(err, &out) || !errors.Is(err, driver.ErrOutOfMemory) || out.Bytes < bytes ||
					out.AllocatedBytes != gib || out.UsableBytes != m.Usable() {
					t.Errorf("%s: %d bytes: %v", backing, bytes, err)
				}
			}
			after := m.Stats()
			after.Counts.OutOfMemory, after.Memory.At = before.Counts.OutOfMemory, before.Memory.At
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%s (-before +after):\n%s", backing, diff)
			}
			drop(t, m, a)
		}
	})
	t.Run("R4.5 the moment's limit holds beside the budget", func(t *testing.T) {
		s, d := gpus(t, 8*gib)
		m := manager(t, d, Options{})
		s.Take(0, 5*gib) // free 2.75 GiB, of which 0.8 GiB are reserved
		if _, err := m.Refresh(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Alloc(Request{Bytes: 2 * gib}); !errors.Is(err, driver.ErrOutOfMemory) || !strings.Contains(err.Error(), "available now") {
			t.Errorf("%v", err)
		}
		drop(t, m, get(t, m, 1900*mib))
	})
	t.Run("R4.22 direct when no pool has room", func(t *testing.T) {
		var log bytes.Buffer
		logger := zerolog.New(&log)
		_, d := gpus(t, 8*gib)
		m := manager(t, d, Options{BudgetBytes: 4 * mib, Log: &logger, Backing: BackingSegments})
		a := get(t, m, mib) // a segment of 8 MiB is beyond the budget
		if a.Owner != "large" && a.Owner != "direct" {
			t.Errorf("%+v", a)
		}
		b, err := m.Alloc(Request{Bytes: 1536 * kib, Alignment: 512})
		if err != nil || b.Owner != "large" && b.Owner != "direct" {
			t.Errorf("%+v, %v", b, err)
		}
		drop(t, m, a, b)
	})
	t.Run("R4.22 a failure of the driver is typed, with size and code", func(t *testing.T) {
		for _, backing := range backings {
			s, d := gpus(t, 8*gib)
			m := manager(t, d, Options{Backing: backing})
			if err := s.Fault("MemAlloc:1+=999,MemCreate:1+=999"); err != nil {
				t.Fatal(err)
			}
			_, err := m.Alloc(Request{Bytes: 3 * mib})
			var failed *AllocationError
			var said *driver.Error
			if !errors.As(err, &failed) || failed.Bytes != 3*mib || !errors.As(err, &said) || said.Code != 999 {
				t.Errorf("%s: %v", backing, err)
			}
			s.Heal()
			drop(t, m, get(t, m, 3*mib))
		}
	})
	t.Run("R4.24 counters do not drift", func(t *testing.T) {
		_, d := gpus(t, 8*gib)
		for _, backing := range backings {
			m := manager(t, d, Options{Backing: backing})
			for i := range uint64(500) {
				drop(t, m, get(t, m, 1+i*i*i), get(t, m, 1+i))
			}
			if s := m.Stats(); s.AllocatedBytes != 0 {
				t.Errorf("%s: %d bytes allocated after everything was freed", backing, s.AllocatedBytes)
			}
		}
	})
	t.Run("R4.25 double free and foreign pointers", func(t *testing.T) {
		_, d := gpus(t, 8*gib, 8*gib)
		m := manager(t, d, Options{})
		other, err := NewManager(d, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		theirs := get(t, other, 100)
		a := get(t, m, 100)
		drop(t, m, a)
		again := get(t, m, 100)
		if again.Ptr != a.Ptr {
			t.Fatal("the test wants the same address")
		}
		for _, test := range []struct {
			name string
			a    Allocation
			want error
		}{
			{"freed, its address given out again", a, ErrDoubleFree}, {"of another device", theirs, ErrForeign},
			{"of nobody", Allocation{Ptr: 4096}, ErrForeign}, {"nothing", Allocation{}, ErrForeign},
		} {
			if err := m.Free(test.a); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", test.name, err, test.want)
			}
		}
		drop(t, m, again)
		drop(t, other, theirs)
		closed(t, other)
	})
	t.Run("R4.25 a failure of the driver on free is a warning", func(t *testing.T) {
		var log bytes.Buffer
		logger := zerolog.New(&log)
		s, d := gpus(t, 8*gib)
		m, err := NewManager(d, 0, Options{Backing: BackingDirect, Log: &logger})
		if err != nil {
			t.Fatal(err)
		}
		a := get(t, m, mib)
		if err := s.Fault("MemFree:1=999"); err != nil {
			t.Fatal(err)
		}
		if err := m.Free(a); err != nil {
			t.Errorf("%v", err)
		}
		if !strings.Contains(log.String(), `"level":"warn"`) {
			t.Errorf("no warning in %s", log.String())
		}
		if err := d.Devices()[0].Reset(); err != nil { // the simulated driver still has it
			t.Fatal(err)
		}
	})
	t.Run("R4.61 a 7-billion-parameter model", func(t *testing.T) {
		for _, test := range []struct {
			total   uint64
			bytes   uint64
			succeed bool
		}{
			{8 * gib, 14_000_000_000, false}, {12 * gib, 14_000_000_000, false}, {16 * gib, 14_000_000_000, true}, {24 * gib, 14_000_000_000, true}, // 2 bytes each
			{2 * gib, 1_750_000_000, false}, {4 * gib, 1_750_000_000, true}, {8 * gib, 1_750_000_000, true}, // ternary, 2 bits
		} {
			_, d := gpus(t, test.total)
			m := manager(t, d, Options{})
			a, err := m.Alloc(Request{Bytes: test.bytes})
			if (err == nil) != test.succeed || err != nil && !errors.Is(err, driver.ErrOutOfMemory) {
				t.Errorf("%d bytes on %d: %v", test.bytes, test.total, err)
			}
			if err == nil {
				drop(t, m, a)
			}
		}
	})
}

// apart checks that no two allocations overlap.
func apart(t testing.TB, all []Allocation) {
	t.Helper()
	for i, a := range all {
		for _, b := range all[:i] {
			if uint64(a.Ptr) < uint64(b.Ptr)+b.Bytes && uint64(b.Ptr) < uint64(a.Ptr)+a.Bytes {
				t.Fatalf("%+v and %+v overlap", a, b)
			}
		}
	}
}

func TestOutOfMemory(t *testing.T) {
	// The conformance list: out of memory on the first and on the n-th allocation: sync, trim, one retry, then a typed
	// error with what the memory looked like.
	t.Run("one failure of the driver is survived", func(t *testing.T) {
		for _, backing := range backings {
			s, d := gpus(t, 8*gib)
			m := manager(t, d, Options{Backing: backing})
			if err := s.Fault("MemAlloc:1=2,MemCreate:1=2"); err != nil {
				t.Fatal(err)
			}
			drop(t, m, get(t, m, 3*mib))
		}
	})
	t.Run("what is cached is given back before the retry", func(t *testing.T) {
		for _, backing := range []Backing{BackingPages, BackingSegments} {
			s, d := gpus(t, 4*gib)
			m := manager(t, d, Options{Backing: backing})
			var all []Allocation
			for range 25 {
				all = append(all, get(t, m, 100*mib))
			}
			drop(t, m, all...)
			if now, _ := s.Used(0); now < 2500*mib {
				t.Fatalf("%s: %d bytes used: the pools kept nothing", backing, now)
			}
			drop(t, m, get(t, m, 2600*mib)) // only if the pools let go
			if got := m.Stats().Counts; got.Retries != 1 || got.Trims == 0 {
				t.Errorf("%s: %+v", backing, got)
			}
		}
	})
	t.Run("the error of the second failure has a snapshot", func(t *testing.T) {
		s, d := gpus(t, 8*gib)
		m := manager(t, d, Options{})
		a := get(t, m, 10*mib)
		if err := s.Fault("MemAlloc:1+=2,MemCreate:1+=2"); err != nil {
			t.Fatal(err)
		}
		calls := s.Calls("MemCreate")
		_, err := m.Alloc(Request{Bytes: 50 * mib})
		var out *OutOfMemoryError
		var said *driver.Error
		if !errors.As(err, &out) || !errors.As(err, &said) || said.Code != driver.OutOfMemory {
			t.Fatalf("%v", err)
		}
		if out.Snapshot.AllocatedBytes != 10*mib || len(out.Snapshot.Pools) != 3 || out.Snapshot.Counts.Retries != 1 {
			t.Errorf("%+v", out.Snapshot)
		}
		if tries := s.Calls("MemCreate") - calls; tries != 2 {
			t.Errorf("%d attempts, want 2", tries)
		}
		s.Heal()
		drop(t, m, a, get(t, m, 50*mib))
	})
	t.Run("in the middle of mapping pages", func(t *testing.T) {
		for _, fault := range []string{"MemCreate:7=2", "MemCreate:7+=2", "MemMap:7=999", "MemMap:7+=2", "MemSetAccess:1=999", "MemSetAccess:1+=2", "MemAddressReserve:1=2"} {
			s, d := gpus(t, 8*gib)
			m := manager(t, d, Options{Backing: BackingPages})
			if err := s.Fault(fault); err != nil {
				t.Fatal(err)
			}
			a, err := m.Alloc(Request{Bytes: 30 * mib})
			if err == nil {
				drop(t, m, a)
			}
			s.Heal()
			drop(t, m, get(t, m, 30*mib))
		}
	})
	t.Run("a lost device refuses, and Close gives up", func(t *testing.T) {
		s, d := gpus(t, 8*gib, 8*gib)
		f, err := NewFleet(d, []int{0, 1}, Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := f.Manager(0)
		second, _ := f.Manager(1)
		get(t, first, 3*mib)
		if err := s.Fault("MemCreate@0:1=700"); err != nil {
			t.Fatal(err)
		}
		if _, err := first.Alloc(Request{Bytes: 70 * mib}); !errors.Is(err, driver.ErrDeviceLost) {
			t.Errorf("%v", err)
		}
		drop(t, second, get(t, second, 70*mib)) // the other goes on
		if err := f.Close(); !errors.Is(err, driver.ErrDeviceLost) {
			t.Errorf("%v", err)
		}
		if err := d.Devices()[0].Reset(); err != nil {
			t.Fatal(err)
		}
		m := manager(t, d, Options{})
		drop(t, m, get(t, m, 70*mib))
	})
}

func TestFreeAfter(t *testing.T) {
	_, d := gpus(t, 8*gib)
	m := manager(t, d, Options{})
	s, _ := d.Devices()[0].NewStream()
	e, _ := d.Devices()[0].NewFence()
	a := get(t, m, 500*kib)
	if err := errors.Join(s.Fill8(a.Ptr, 1, a.Bytes), s.Record(e), m.FreeAfter(a, e)); err != nil {
		t.Fatal(err)
	}
	b := get(t, m, 500*kib)
	if b.Ptr == a.Ptr {
		t.Error("given out while the device still writes to it")
	}
	if err := m.FreeAfter(a, e); !errors.Is(err, ErrDoubleFree) {
		t.Errorf("%v", err)
	}
	if err := s.Synchronize(); err != nil {
		t.Fatal(err)
	}
	if err := m.Trim(false); err != nil {
		t.Fatal(err)
	}
	c := get(t, m, 500*kib)
	if c.Ptr != a.Ptr {
		t.Errorf("%#x, want what was freed at %#x", c.Ptr, a.Ptr)
	}
	drop(t, m, b, c)
}

// A large block is used again where at most a twentieth of it is wasted.
func TestLargeBlocksAreUsedAgain(t *testing.T) {
	_, d := gpus(t, 8*gib)
	m := manager(t, d, Options{})
	a := get(t, m, 400*mib)
	drop(t, m, a)
	b := get(t, m, 378*mib)
	if b.Ptr == a.Ptr || b.Owner != "large" {
		t.Errorf("%+v took 22 MiB more than a twentieth of 400", b)
	}
	c := get(t, m, 382*mib)
	if c.Ptr != a.Ptr {
		t.Errorf("%+v, want the block of 400 MiB at %#x", c, a.Ptr)
	}
	drop(t, m, b, c)
}

// An event that was closed before it happened tells nothing: then the device has to be waited for.
func TestFreeAfterAnEventThatIsClosed(t *testing.T) {
	s, d := gpus(t, 8*gib)
	m := manager(t, d, Options{})
	stream, _ := d.Devices()[0].NewStream()
	e, _ := d.Devices()[0].NewFence()
	a := get(t, m, 500*kib)
	if err := errors.Join(stream.Fill8(a.Ptr, 1, a.Bytes), stream.Record(e), m.FreeAfter(a, e), e.Close()); err != nil {
		t.Fatal(err)
	}
	keep := get(t, m, 500*kib) // its segment
	before := s.Calls("CtxSynchronize")
	if err := m.Trim(false); err != nil {
		t.Fatal(err)
	}
	if s.Calls("CtxSynchronize") == before {
		t.Error("given back without waiting for the device")
	}
	b := get(t, m, 500*kib)
	if b.Ptr != a.Ptr {
		t.Errorf("%#x, want what was freed at %#x", b.Ptr, a.Ptr)
	}
	drop(t, m, keep, b)
}

// A context takes memory, and may take longer to make than a query is given: the first query finds one.
func TestContextIsMadeBeforeTheFirstQuery(t *testing.T) {
	s, d := gpus(t, 8*gib)
	contexts := -1
	manager(t, d, Options{Query: func(int) (gpu.Memory, error) {
		if contexts < 0 {
			contexts = s.Calls("DevicePrimaryCtxRetain")
		}
		return gpu.Memory{TotalBytes: 8 * gib, FreeBytes: 7 * gib}, nil
	}})
	if contexts != 1 {
		t.Errorf("%d contexts at the first query, want 1", contexts)
	}
}

func TestClose(t *testing.T) {
	t.Run("R4.27 a closed manager says what was not freed", func(t *testing.T) {
		for _, backing := range backings {
			_, d := gpus(t, 8*gib)
			m, err := NewManager(d, 0, Options{Backing: backing})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []Request{{Bytes: 1000, Name: "bias"}, {Bytes: 5_000_000, Name: "ffn_down"}, {Bytes: 200 * mib}} {
				if _, err := m.Alloc(r); err != nil {
					t.Fatal(err)
				}
			}
			err = m.Close()
			var leak *LeakError
			if !errors.As(err, &leak) || len(leak.Leaks) != 3 || !strings.Contains(err.Error(), `5000192 bytes`) || !strings.Contains(err.Error(), `"ffn_down"`) {
				t.Errorf("%s: %v", backing, err)
			}
			if _, err := m.Alloc(Request{Bytes: 1}); !errors.Is(err, ErrClosed) {
				t.Errorf("%v", err)
			}
			if err := m.Close(); err != nil {
				t.Errorf("again: %v", err)
			}
		}
	})
}

func TestLog(t *testing.T) {
	// R4.6 R4.13 R4.26 R4.33 R4.64 R1.22: what is logged, and at which level.
	var log bytes.Buffer
	logger := zerolog.New(&log).Level(zerolog.DebugLevel)
	_, d := simulated(t, sim.Config{Devices: []sim.DeviceSpec{{Name: "Card", TotalBytes: 8 * gib}}})
	m := manager(t, d, Options{Log: &logger})
	a := get(t, m, 5*mib)
	if _, err := m.Workspace(Demand{InputFeatures: 2560, OutputFeatures: 2560, Quantization: TL1}); err != nil {
		t.Fatal(err)
	}
	m.Stats()
	drop(t, m, a)
	for _, want := range []string{
		`{"level":"info","device":0,"total_bytes":8589934592,"usable_bytes":7101795533,"free_bytes":8321499136,"message":"memory manager"}`,
		`{"level":"info","device":0,"name":"Card","pools":3,"message":"memory pools"}`,
		`{"level":"debug","device":0,"bytes":5242880,"allocated_bytes":5242880,"message":"allocated"}`,
		`{"level":"debug","device":0,"bytes":5242880,"allocated_bytes":0,"message":"freed"}`,
		`"quantization":"tl1","message":"workspace"}`,
		`{"level":"info","device":0,"allocated_bytes":5242880,"total_bytes":8589934592,"utilization_percent":0.07`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no line with %s in\n%s", want, log.String())
		}
	}
	log.Reset()
	// A megabyte in each of many pages is stuck: R4.33 warns.
	var all []Allocation
	for range 64 {
		all = append(all, get(t, m, mib+256), get(t, m, 900*kib))
	}
	for i, a := range all {
		if i%2 == 0 || i%16 != 1 {
			drop(t, m, a)
		}
	}
	if s := m.Stats(); s.Fragmentation <= Defaults.FragmentationWarning {
		t.Errorf("fragmentation %v: the test wants more", s.Fragmentation)
	}
	if !strings.Contains(log.String(), `{"level":"warn","device":0,"allocated_bytes":`) {
		t.Errorf("no warning of fragmentation")
	}
	for i, a := range all {
		if i%16 == 1 {
			drop(t, m, a)
		}
	}
}

func TestStats(t *testing.T) {
	// R4.30 R4.31 R4.32
	s, d := gpus(t, 8*gib)
	m := manager(t, d, Options{Backing: BackingPages})
	if got := m.Stats(); got.Idle != 0 || got.Waste != 0 || got.Fragmentation != 0 {
		t.Errorf("empty pools: %+v", got)
	}
	a := get(t, m, 10*mib)
	b := get(t, m, 90*mib-100)
	got := m.Stats()
	used, _ := s.Used(0)
	if got.AllocatedBytes != 100*mib || got.Memory.TotalBytes != 8*gib || got.Memory.FreeBytes != 8*gib-used || got.Memory.Basis != "probe" ||
		got.Utilization != float64(100*mib)/float64(m.Usable()) || got.Counts.Allocations != 2 || got.Efficiency < 0.95 {
		t.Errorf("%+v", got)
	}
	if want := 100.0 / (100 * mib); got.Waste < want*0.99 || got.Waste > want*1.01 {
		t.Errorf("waste %v, want %v: 100 bytes that nobody asked for", got.Waste, want)
	}
	drop(t, m, a, b)
	if got := m.Stats(); got.Idle != 1 || got.Waste != 0 || got.Fragmentation != 0 {
		t.Errorf("everything freed: %+v, want idle 1 and nothing wasted or stuck", got)
	}
	direct := manager(t, d, Options{Backing: BackingDirect})
	a = get(t, direct, 1000)
	if got := direct.Stats(); got.Idle != 0 || got.Fragmentation != 0 || len(got.Pools) != 0 {
		t.Errorf("R4.31 without pools: %+v", got)
	}
	drop(t, direct, a)
}

func TestConcurrentAllocations(t *testing.T) {
	// R4.26
	_, d := gpus(t, 24*gib)
	m := manager(t, d, Options{})
	var all sync.WaitGroup
	for i := range uint64(8) {
		all.Go(func() {
			for n := range uint64(300) {
				a, err := m.Alloc(Request{Bytes: 1 + (n*7919+i*104729)%(3*mib)})
				if err == nil {
					if n%50 == 0 {
						m.Stats()
					}
					err = m.Free(a)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if s := m.Stats(); s.AllocatedBytes != 0 || s.Counts.Allocations != 2400 || s.Counts.Frees != 2400 {
		t.Errorf("%+v", s)
	}
}

// A driver that breaks CUDA's promise of aligned memory gets it back, and the allocation is an error and no panic.
func TestMemoryOffItsAlignmentIsRefused(t *testing.T) {
	const off = 16
	s, err := sim.New(sim.Config{Devices: []sim.DeviceSpec{{TotalBytes: 2 * gib, NoVirtual: true}}})
	if err != nil {
		t.Fatal(err)
	}
	table := s.Table()
	alloc, free := table.MemAlloc, table.MemFree
	table.MemAlloc = func(p *driver.Ptr, bytes uint64) driver.Result {
		r := alloc(p, bytes+off)
		*p += off
		return r
	}
	table.MemFree = func(p driver.Ptr) driver.Result { return free(p - off) }
	d, err := driver.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	m := manager(t, d, Options{})
	for _, bytes := range []uint64{1, 3 * mib, 500 * mib} {
		var refused *AllocationError
		if _, err := m.Alloc(Request{Bytes: bytes}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "want a multiple of 256") {
			t.Errorf("%d bytes: %v, want an *AllocationError that says what an address should be", bytes, err)
		}
	}
	if stats := m.Stats(); stats.TakenBytes != 0 || stats.AllocatedBytes != 0 {
		t.Errorf("%d bytes are taken and %d allocated, want none", stats.TakenBytes, stats.AllocatedBytes)
	}
}
