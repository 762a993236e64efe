package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim"
)

// fleet is that of the given devices, closed when the test ends.
func fleet(t testing.TB, d *driver.Driver, devices []int, budgets map[int]uint64) *Fleet {
	t.Helper()
	f, err := NewFleet(d, devices, Options{}, budgets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return f
}

func TestFleet(t *testing.T) {
	t.Run("R4.40 one manager per given device, found by its number", func(t *testing.T) {
		_, d := gpus(t, 2*gib, 8*gib, 24*gib, 80*gib)
		f := fleet(t, d, []int{3, 1}, nil)
		for device, want := range map[int]uint64{1: 8 * gib, 3: 80 * gib} {
			m, found := f.Manager(device)
			if !found || m.Device() != device || m.Usable() != Defaults.Usable(want) {
				t.Errorf("device %d: %v", device, m)
			}
		}
		for _, device := range []int{-1, 0, 2, 4} {
			if _, found := f.Manager(device); found {
				t.Errorf("device %d is not of the fleet", device)
			}
		}
		for _, wrong := range [][]int{nil, {0, 0}, {0, 4}} {
			if _, err := NewFleet(d, wrong, Options{}, nil); err == nil {
				t.Errorf("a fleet of %v", wrong)
			}
		}
	})
	t.Run("R4.41 the remembered device first, then the balancer's, which is remembered", func(t *testing.T) {
		_, d := gpus(t, 8*gib, 10*gib)
		f := fleet(t, d, []int{0, 1}, nil)
		alloc := func(tensor string, bytes uint64, want int) Allocation {
			t.Helper()
			a, err := f.Alloc(tensor, bytes)
			if home, known := f.Home(tensor); err != nil || a.Device != want || !known || home != want {
				t.Fatalf("%s: %+v, %v, want device %d", tensor, a, err, want)
			}
			return a
		}
		a := alloc("a", 3*gib, 1) // most is left there
		b := alloc("b", 3*gib, 0)
		if err := f.Free(a); err != nil {
			t.Fatal(err)
		}
		c := alloc("c", 2*gib, 1)
		a = alloc("a", gib, 1) // remembered
		x := alloc("x", 3*gib, 1)
		if err := f.Free(b); err != nil {
			t.Fatal(err)
		}
		y := alloc("x", 5*gib, 0) // spills: its home has no room, and the other is remembered
		z := alloc("x", mib, 0)
		for _, each := range []Allocation{a, c, x, y, z} {
			if err := f.Free(each); err != nil {
				t.Error(err)
			}
		}
		if err := f.Free(Allocation{Device: 7}); !errors.Is(err, ErrForeign) {
			t.Errorf("%v", err)
		}
	})
	t.Run("R4.42 most left, then least used, then lowest", func(t *testing.T) {
		_, d := gpus(t, 8*gib, 16*gib, 8*gib, 12*gib)
		f := fleet(t, d, []int{0, 1, 2, 3}, map[int]uint64{1: 4 * gib, 0: 5 * gib, 2: 5 * gib, 3: 6 * gib})
		m, _ := f.Manager(3)
		a := get(t, m, gib) // 5 GiB left, but used
		for _, test := range []struct {
			bytes uint64
			want  int
		}{{gib, 0}, {4 * gib, 0}} {
			if got, err := f.Balance(test.bytes); err != nil || got != test.want {
				t.Errorf("%d bytes: device %d, %v, want %d", test.bytes, got, err, test.want)
			}
		}
		_, err := f.Balance(6 * gib)
		var none *FleetError
		if !errors.As(err, &none) || len(none.Devices) != 4 || !strings.Contains(err.Error(), "device 3 has") {
			t.Errorf("%v", err)
		}
		_, err = f.Alloc("huge", 6*gib)
		if !errors.As(err, &none) || len(none.Devices) != 4 || !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("none fits: %v", err)
		}
		drop(t, m, a)
	})
	t.Run("a budget per device", func(t *testing.T) {
		_, d := gpus(t, 8*gib, 8*gib)
		f := fleet(t, d, []int{0, 1}, map[int]uint64{1: gib})
		if m, _ := f.Manager(1); m.Usable() != gib {
			t.Errorf("%d", m.Usable())
		}
		if m, _ := f.Manager(0); m.Usable() != Defaults.Usable(8*gib) {
			t.Errorf("%d", m.Usable())
		}
	})
	t.Run("R4.43 R1.50 one call for all, one record and one workspace each", func(t *testing.T) {
		_, d := gpus(t, 2*gib, 8*gib, 24*gib)
		f := fleet(t, d, []int{0, 1, 2}, nil)
		all := f.Stats()
		if len(all) != 3 || all[2].Device != 2 || all[0].Memory.TotalBytes != 2*gib || all[2].Memory.TotalBytes != 24*gib {
			t.Errorf("%+v", all)
		}
		spaces, err := f.Workspaces(Demand{InputFeatures: 2560, OutputFeatures: 6912, Quantization: I2S})
		if err != nil || len(spaces) != 3 || spaces[0].Batch != 64 || spaces[1].Batch != 256 || spaces[2].Batch != 512 {
			t.Errorf("%+v, %v", spaces, err)
		}
		huge := Demand{InputFeatures: 1 << 16, OutputFeatures: 1 << 16, Quantization: TL2}
		var none *FleetError
		if _, err := f.Workspaces(huge); !errors.As(err, &none) || len(none.Devices) != 3 || !errors.As(err, new(*InsufficientError)) {
			t.Errorf("%v", err)
		}
	})
	t.Run("R4.61 a ternary model of 7 billion parameters spreads where the same at 16 bits does not fit", func(t *testing.T) {
		_, d := gpus(t, 2*gib, 2*gib)
		f := fleet(t, d, []int{0, 1}, nil)
		place := func(layer uint64) (placed []Allocation, err error) {
			for i := range 32 {
				a, err := f.Alloc(fmt.Sprintf("layer %d", i), layer)
				if err != nil {
					return placed, err
				}
				placed = append(placed, a)
			}
			return placed, nil
		}
		for bytes, fits := range map[uint64]bool{7_000_000_000 / 4 / 32: true, 7_000_000_000 * 2 / 32: false} {
			placed, err := place(bytes)
			if (err == nil) != fits || err != nil && !errors.Is(err, driver.ErrOutOfMemory) {
				t.Errorf("layers of %d bytes: %v", bytes, err)
			}
			for _, a := range placed {
				if err := f.Free(a); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestTransfers(t *testing.T) {
	// R4.44: transfers between devices, and prefetch while a model is loaded.
	s, d := gpus(t, 8*gib, 8*gib)
	f := fleet(t, d, []int{0, 1}, nil)
	first, _ := f.Manager(0)
	second, _ := f.Manager(1)
	model := make([]byte, 20*mib+5)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(model)
	a, b := get(t, first, uint64(len(model))), get(t, second, uint64(len(model)))
	got := make([]byte, len(model))
	if err := errors.Join(
		first.Upload(a, iotest.HalfReader(bytes.NewReader(model)), uint64(len(model))),
		f.Copy(b, a, uint64(len(model))),
		driver.Download(d.Devices()[1], got, b.Ptr),
	); err != nil || !bytes.Equal(got, model) {
		t.Errorf("%v, equal %v", err, bytes.Equal(got, model))
	}
	if a.Owner != "medium" || s.Calls("MemcpyPeerAsync") != 1 {
		t.Errorf("%d copies by contexts of memory of the %s pool: pages of another device are not copied otherwise", s.Calls("MemcpyPeerAsync"), a.Owner)
	}
	if err := first.Upload(a, bytes.NewReader(nil), 0); err != nil {
		t.Errorf("an upload of nothing: %v", err)
	}
	for name, err := range map[string]error{
		"a file that ends too soon": first.Upload(a, bytes.NewReader(model[:9*mib]), uint64(len(model))),
		"more than the allocation":  first.Upload(a, bytes.NewReader(model), a.Bytes+1),
		"on another device":         second.Upload(a, bytes.NewReader(model), 1),
		"a copy beyond the end":     f.Copy(b, a, b.Bytes+1),
		"a copy to nobody":          f.Copy(Allocation{Device: 5}, a, 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := first.Upload(a, bytes.NewReader(model[:9*mib]), uint64(len(model))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
	drop(t, first, a)
	drop(t, second, b)
}

// Reading the next part while the last one is on its way takes hardly longer than the slower of the two.
func TestUploadOverlaps(t *testing.T) {
	s, d := gpus(t, 8*gib)
	m := manager(t, d, Options{})
	const bytes = 64 * mib
	a := get(t, m, bytes)
	const part = prefetch * time.Second / 25_000_000_000 // as long as the copy of a part takes
	slow := readerFunc(func(p []byte) (int, error) { s.Work(part * time.Duration(len(p)) / prefetch); return len(p), nil })
	start := s.Now()
	if err := m.Upload(a, slow, bytes); err != nil {
		t.Fatal(err)
	}
	took, alone := s.Now()-start, bytes/prefetch*part
	if took > alone*3/2 {
		t.Errorf("%v; reading alone takes %v, and so does copying", took, alone)
	}
	drop(t, m, a)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBalancer(t *testing.T) {
	var b Balancer
	if got := b.Split(10, []int{0, 1, 2}); !slices.Equal(got, []int{4, 3, 3}) {
		t.Errorf("nothing known: %v", got)
	}
	b.Observe(0, 10, 10*time.Millisecond)
	b.Observe(1, 10, 30*time.Millisecond)
	if got := b.Split(100, []int{0, 1}); !slices.Equal(got, []int{75, 25}) {
		t.Errorf("three times as fast: %v", got)
	}
	if got := b.Split(100, []int{0, 1, 2}); !slices.Equal(got, []int{50, 17, 33}) {
		t.Errorf("an unknown one counts as the mean: %v", got)
	}
	for range 40 {
		b.Observe(1, 1, time.Millisecond)
	}
	if got := b.Split(100, []int{0, 1}); !slices.Equal(got, []int{50, 50}) {
		t.Errorf("as fast by now: %v", got)
	}
	b.Observe(0, 0, time.Second)
	b.Observe(0, 1, 0)
	if got := b.Split(0, []int{0, 1}); !slices.Equal(got, []int{0, 0}) {
		t.Errorf("nothing to split: %v", got)
	}
	if got := b.Split(5, nil); len(got) != 0 {
		t.Errorf("nobody to split between: %v", got)
	}
}

// R4.54 R1.51: 1 to 16 devices of 2 to 141 GB that differ in speed by a factor of 20, in virtual time: all together take at
// most 5 % longer than the one that works longest, and the balancer, once it has seen what each takes, lets none wait.
func TestSeveralDevicesCostLittle(t *testing.T) {
	sizes := []uint64{2, 4, 6, 8, 11, 12, 16, 24, 32, 40, 48, 64, 80, 94, 96, 141}
	for _, n := range []int{1, 2, 4, 8, 16} {
		config := sim.Config{ReplayOnce: true}
		var ids []int
		for i := range n {
			config.Devices = append(config.Devices, sim.DeviceSpec{TotalBytes: sizes[i] * gib, BandwidthBytes: uint64(200+i*300) * 1e9})
			ids = append(ids, i)
		}
		s, d := simulated(t, config)
		f := fleet(t, d, ids, nil)
		workers := make([]*worker, n)
		for i := range workers {
			workers[i] = newWorker(t, f, i)
		}
		var b Balancer
		var took, longest, shortest time.Duration
		for range 6 {
			took, longest, shortest = round(t, s, workers, &b, 160*n)
		}
		overhead, wait := float64(took-longest)/float64(longest), float64(longest-shortest)/float64(longest)
		t.Logf("%d simulated devices of 2 to %d GiB: %.2f %% over the longest, the shortest waits for %.2f %%", n, sizes[n-1], 100*overhead, 100*wait)
		if overhead > 0.05 || wait > 0.05 {
			t.Errorf("%d devices: %.1f %% over the longest, the shortest waits for %.1f %%: want at most 5 %%", n, 100*overhead, 100*wait)
		}
		for _, w := range workers {
			if err := f.Free(w.a); err != nil {
				t.Error(err)
			}
		}
	}
}

// worker is a device at work: a unit of it is a graph that fills a megabyte 64 times.
type worker struct {
	a          Allocation
	stream     *driver.Stream
	unit       *driver.Graph
	start, end *driver.Event
}

func newWorker(t *testing.T, f *Fleet, device int) *worker {
	t.Helper()
	m, _ := f.Manager(device)
	w := &worker{a: get(t, m, mib)}
	var errs [4]error
	w.stream, errs[0] = m.device.NewStream()
	w.start, errs[1] = m.device.NewEvent()
	w.end, errs[2] = m.device.NewEvent()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	w.unit, errs[3] = w.stream.Capture(func() error {
		for range 64 {
			if err := w.stream.Fill8(w.a.Ptr, 1, mib); err != nil {
				return err
			}
		}
		return nil
	})
	if errs[3] != nil {
		t.Fatal(errs[3])
	}
	return w
}

// round lets the devices share units of work, and returns what that took and the times of the device that worked longest
// and of the one that worked shortest.
func round(t *testing.T, s *sim.Machine, workers []*worker, b *Balancer, units int) (took, longest, shortest time.Duration) {
	t.Helper()
	var ids []int
	for i := range workers {
		ids = append(ids, i)
	}
	shares := b.Split(units, ids)
	begin := s.Now()
	for _, w := range workers {
		if err := w.stream.Record(w.start); err != nil {
			t.Fatal(err)
		}
	}
	for left, n := units, 0; left > 0; n++ {
		for i, w := range workers {
			if n < shares[i] {
				if err := w.unit.Launch(w.stream); err != nil {
					t.Fatal(err)
				}
				left--
			}
		}
	}
	for _, w := range workers {
		if err := w.stream.Record(w.end); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range workers {
		if err := w.stream.Synchronize(); err != nil {
			t.Fatal(err)
		}
	}
	took = s.Now() - begin
	for i, w := range workers {
		worked, err := w.end.Since(w.start)
		if err != nil {
			t.Fatal(err)
		}
		b.Observe(i, shares[i], worked)
		if longest = max(longest, worked); i == 0 || worked < shortest {
			shortest = worked
		}
	}
	return took, longest, shortest
}
