package sim

import (
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// machine returns a simulated machine that ends with the test, which fails if anything is left on it.
func machine(t *testing.T, config Config) *Machine {
	t.Helper()
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// open returns the driver of a machine; when the test ends, it is closed and nothing may be left.
func open(t *testing.T, m *Machine) *driver.Driver {
	t.Helper()
	d, err := driver.Open(m.Table())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !t.Failed() {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

// current makes the context of device 0 current on the thread of the test.
func current(t *testing.T, m *Machine) *driver.Table {
	t.Helper()
	table := m.Table()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	var ctx driver.ContextHandle
	want(t, "Init", driver.Success, table.Init(0))
	want(t, "DevicePrimaryCtxRetain", driver.Success, table.DevicePrimaryCtxRetain(&ctx, 0))
	want(t, "CtxSetCurrent", driver.Success, table.CtxSetCurrent(ctx))
	return &table
}

// ptr is the address of the first byte.
func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }

func want(t *testing.T, what string, want, got driver.Result) {
	t.Helper()
	if want != got {
		t.Errorf("%s: result %d, want %d", what, got, want)
	}
}

func TestTableIsComplete(t *testing.T) {
	table := reflect.ValueOf(machine(t, Config{}).Table())
	for i := range table.NumField() {
		if table.Field(i).IsNil() {
			t.Errorf("%s is missing", table.Type().Field(i).Name)
		}
	}
}

// A call checks its arguments as the driver does.
func TestWrongArguments(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 2)})
	raw := m.Table()
	var count int32
	want(t, "before Init", driver.NotInitialized, raw.DeviceGetCount(&count))
	c := current(t, m)
	var p driver.Ptr
	var free, total uint64
	var e driver.EventHandle
	var s driver.StreamHandle
	var ms float32
	want(t, "EventCreate", driver.Success, c.EventCreate(&e, 0))
	want(t, "StreamCreate", driver.Success, c.StreamCreate(&s, 0))
	for _, test := range []struct {
		name string
		want driver.Result
		got  driver.Result
	}{
		{"no such device", driver.InvalidDevice, c.DeviceTotalMem(&total, 2)},
		{"device -1", driver.InvalidDevice, c.DeviceTotalMem(&total, -1)},
		{"no such attribute", driver.InvalidValue, c.DeviceGetAttribute(&count, 9999, 0)},
		{"no room for a name", driver.InvalidValue, c.DeviceGetName(nil, 0, 0)},
		{"zero bytes", driver.InvalidValue, c.MemAlloc(&p, 0)},
		{"nowhere to put it", driver.InvalidValue, c.MemAlloc(nil, 1)},
		{"free of nothing", driver.Success, c.MemFree(0)},
		{"free of a foreign pointer", driver.InvalidValue, c.MemFree(12345)},
		{"no pointers", driver.InvalidValue, c.MemGetInfo(nil, &total)},
		{"all is well", driver.Success, c.MemGetInfo(&free, &total)},
		{"an event for a stream", driver.InvalidHandle, c.StreamSynchronize(driver.StreamHandle(e))},
		{"a stream for an event", driver.InvalidHandle, c.EventSynchronize(driver.EventHandle(s))},
		{"an event that was not recorded", driver.InvalidHandle, c.EventElapsedTime(&ms, e, e)},
		{"flags that there are not", driver.InvalidValue, c.StreamCreate(&s, 8)},
		{"capture of the default stream", driver.CaptureUnsupported, c.StreamBeginCapture(0, 0)},
		{"end of no capture", driver.InvalidValue, c.StreamEndCapture(s, new(driver.GraphHandle))},
		{"a reservation of half a page", driver.InvalidValue, c.MemAddressReserve(&p, page/2, 0, 0, 0)},
		{"physical memory nowhere", driver.InvalidValue, c.MemCreate(new(driver.MemHandle), page, &driver.MemProp{Type: 1}, 0)},
		{"copy to nowhere", driver.InvalidValue, c.MemcpyHtoD(4096, unsafe.Pointer(&count), 4)},
		{"no such context", driver.InvalidContext, c.CtxSetCurrent(77)},
	} {
		want(t, test.name, test.want, test.got)
	}
}

func TestContextsBelongToThreads(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
	c := current(t, m)
	var p driver.Ptr
	want(t, "on the thread with a context", driver.Success, c.MemAlloc(&p, 1))
	var elsewhere sync.WaitGroup
	elsewhere.Go(func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		var q driver.Ptr
		want(t, "on a thread without one", driver.InvalidContext, c.MemAlloc(&q, 1))
	})
	elsewhere.Wait()
	want(t, "CtxSetCurrent(0)", driver.Success, c.CtxSetCurrent(0))
	want(t, "without one any more", driver.InvalidContext, c.MemFree(p))
}

// A device of 141 GB takes no memory of the host for what is not touched, and refuses what does not fit.
func TestMemoryIsAccounted(t *testing.T) {
	m := machine(t, Config{Devices: []DeviceSpec{{TotalBytes: 141 * gib}}})
	d := open(t, m).Devices()[0]
	before, err := d.MemoryInfo()
	if err != nil || before.TotalBytes != 141*gib || before.FreeBytes != 141*gib-256*mib {
		t.Fatalf("%+v, %v", before, err)
	}
	p, err := d.Alloc(140 * gib)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Alloc(gib); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("a gibibyte more: %v, want out of memory", err)
	}
	src := []byte("at the very end")
	end := p + 140*gib - driver.Ptr(len(src))
	if err := driver.Upload(d, end, src); err != nil {
		t.Error(err)
	}
	got := make([]byte, len(src))
	if err := driver.Download(d, got, end); err != nil || string(got) != string(src) {
		t.Errorf("%q, %v", got, err)
	}
	if err := driver.Upload(d, end+1, src); err == nil {
		t.Error("a copy beyond the end is no error")
	}
	if err := d.Free(p); err != nil {
		t.Error(err)
	}
	if err := d.Free(p); err == nil {
		t.Error("a second free is no error")
	}
	m.Take(0, 100*gib)
	if after, err := d.MemoryInfo(); err != nil || after.FreeBytes != before.FreeBytes-100*gib {
		t.Errorf("%d free, %v; another process took 100 GiB of %d", after.FreeBytes, err, before.FreeBytes)
	}
}

func TestSmallAllocationsSharePages(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
	d := open(t, m).Devices()[0]
	before, _ := d.MemoryInfo()
	var all []driver.Ptr
	for range 100 {
		p, err := d.Alloc(1000)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	after, _ := d.MemoryInfo()
	if before.FreeBytes-after.FreeBytes != 2*mib {
		t.Errorf("100 allocations of 1000 bytes take %d, want one page of 2 MiB", before.FreeBytes-after.FreeBytes)
	}
	if leaks := m.Leaks(); len(leaks) != 101 || !strings.Contains(strings.Join(leaks, "\n"), "1000 bytes at 0x7f") {
		t.Errorf("%d leaks, want 100 and the context: %q", len(leaks), leaks[:2])
	}
	for _, p := range all {
		if err := d.Free(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil || len(m.Leaks()) != 0 {
		t.Errorf("%v, %q", err, m.Leaks())
	}
}

func TestVirtualMemory(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 2)})
	c := current(t, m)
	prop := driver.MemProp{Type: 1, LocationType: 1}
	access := driver.MemAccess{LocationType: 1, Access: 3}
	var step uint64
	var p driver.Ptr
	var pages [2]driver.MemHandle
	want(t, "granularity", driver.Success, c.MemGetAllocationGranularity(&step, &prop, 0))
	want(t, "reserve", driver.Success, c.MemAddressReserve(&p, 4*step, 0, 0, 0))
	host := []byte("across the border of two pages")
	border := p + driver.Ptr(step) - 10
	write := func() driver.Result { return c.MemcpyHtoD(border, unsafe.Pointer(&host[0]), uint64(len(host))) }
	want(t, "write to addresses alone", driver.InvalidValue, write())
	for i := range pages {
		want(t, "create", driver.Success, c.MemCreate(&pages[i], step, &prop, 0))
		want(t, "map", driver.Success, c.MemMap(p+driver.Ptr(uint64(i)*step), step, 0, pages[i], 0))
	}
	want(t, "map where something is", driver.InvalidValue, c.MemMap(p, step, 0, pages[0], 0))
	want(t, "write without access", driver.InvalidValue, write())
	want(t, "access to more than there is", driver.InvalidValue, c.MemSetAccess(p, 3*step, &access, 1))
	want(t, "access", driver.Success, c.MemSetAccess(p, 2*step, &access, 1))
	want(t, "write", driver.Success, write())
	got := make([]byte, len(host))
	want(t, "read", driver.Success, c.MemcpyDtoH(unsafe.Pointer(&got[0]), border, uint64(len(got))))
	if string(got) != string(host) {
		t.Errorf("%q came back", got)
	}
	used, _ := m.Used(0)
	want(t, "free mapped addresses", driver.InvalidValue, c.MemAddressFree(p, 4*step))
	for i := range pages {
		want(t, "release", driver.Success, c.MemRelease(pages[i]))
	}
	if now, _ := m.Used(0); now != used {
		t.Errorf("released while mapped: %d bytes used, want %d", now, used)
	}
	want(t, "unmap half a page", driver.InvalidValue, c.MemUnmap(p, step/2))
	want(t, "unmap", driver.Success, c.MemUnmap(p, 2*step))
	if now, _ := m.Used(0); now != used-2*step {
		t.Errorf("unmapped: %d bytes used, want %d", now, used-2*step)
	}
	want(t, "release again", driver.InvalidHandle, c.MemRelease(pages[0]))
	want(t, "free addresses", driver.Success, c.MemAddressFree(p, 4*step))
}

// Two devices work beside each other, two copies of one device after each other.
func TestTimeOfStreams(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 2)})
	devices := open(t, m).Devices()
	const bytes = 1_000_000_000
	run := func(devices ...*driver.Device) time.Duration {
		type copied struct {
			s *driver.Stream
			p driver.Ptr
			d *driver.Device
		}
		var all []copied
		for _, d := range devices {
			p, err := d.Alloc(bytes)
			if err != nil {
				t.Fatal(err)
			}
			s, err := d.NewStream()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, copied{s, p, d})
		}
		start := m.Now()
		for _, c := range all {
			if err := c.s.Copy(c.p, c.p+bytes/2, bytes/10); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range all {
			if err := c.s.Synchronize(); err != nil {
				t.Fatal(err)
			}
		}
		took := m.Now() - start
		for _, c := range all {
			if err := errors.Join(c.d.Free(c.p), c.s.Close()); err != nil {
				t.Fatal(err)
			}
		}
		return took
	}
	one, two := run(devices[0]), run(devices[0], devices[1])
	if two > one+one/10 {
		t.Errorf("two devices take %v, one takes %v", two, one)
	}
}

func TestEventsTellTime(t *testing.T) {
	m := machine(t, Config{Devices: []DeviceSpec{{BandwidthBytes: 1_000_000_000}}})
	d := open(t, m).Devices()[0]
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	start, _ := d.NewEvent()
	end, _ := d.NewEvent()
	p, _ := d.Alloc(mib)
	if err := errors.Join(s.Record(start), s.Fill8(p, 7, 1_000_000), s.Record(end)); err != nil {
		t.Fatal(err)
	}
	if done, err := end.Done(); done || err != nil {
		t.Errorf("done at once: %v, %v", done, err)
	}
	if _, err := end.Since(start); err == nil {
		t.Error("the time of an event that is not yet")
	}
	if err := end.Synchronize(); err != nil {
		t.Fatal(err)
	}
	if took, err := end.Since(start); err != nil || took < time.Millisecond || took > time.Millisecond+10*time.Microsecond {
		t.Errorf("a megabyte at 1 GB/s takes %v, %v", took, err)
	}
	if err := d.Free(p); err != nil {
		t.Error(err)
	}
}

func TestGraphs(t *testing.T) {
	for _, once := range []bool{false, true} {
		m := machine(t, Config{Devices: make([]DeviceSpec, 1), ReplayOnce: once})
		d := open(t, m).Devices()[0]
		s, _ := d.NewStream()
		p, _ := d.Alloc(8)
		if err := driver.Upload(d, p, []byte("12345678")); err != nil {
			t.Fatal(err)
		}
		g, err := s.Capture(func() error { return s.Fill8(p, 'x', 4) })
		if err != nil {
			t.Fatal(err)
		}
		read := func() string {
			got := make([]byte, 8)
			if err := errors.Join(s.Synchronize(), driver.Download(d, got, p)); err != nil {
				t.Fatal(err)
			}
			return string(got)
		}
		if got := read(); got != "12345678" {
			t.Errorf("recorded work ran: %q", got)
		}
		if err := g.Launch(s); err != nil || read() != "xxxx5678" {
			t.Errorf("%v, %q", err, read())
		}
		if err := driver.Upload(d, p, []byte("abcd")); err != nil {
			t.Fatal(err)
		}
		start := m.Now()
		again := map[bool]string{false: "xxxx5678", true: "abcd5678"}[once]
		if err := g.Launch(s); err != nil || read() != again {
			t.Errorf("launched again, once %v: %v, %q, want %q", once, err, read(), again)
		}
		if m.Now()-start < nodeLatency {
			t.Error("the second launch takes no time")
		}
		if _, err := s.Capture(func() error { _, err := d.Alloc(8); return err }); err == nil {
			t.Error("an allocation was recorded")
		}
		if err := errors.Join(s.Fill8(p, 'y', 1), d.Free(p)); err != nil {
			t.Errorf("after a spoilt recording: %v", err)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Run("the third allocation fails and no other", func(t *testing.T) {
		m := machine(t, Config{Devices: make([]DeviceSpec, 1), Faults: "MemAlloc:3=2, MemGetInfo:2+=999"})
		d := open(t, m).Devices()[0]
		for i := 1; i <= 4; i++ {
			if _, err := d.Alloc(8); errors.Is(err, driver.ErrOutOfMemory) != (i == 3) {
				t.Errorf("allocation %d: %v", i, err)
			}
			if _, err := d.MemoryInfo(); (err != nil) != (i >= 2) {
				t.Errorf("query %d: %v", i, err)
			}
		}
		m.Heal()
		if _, err := d.MemoryInfo(); err != nil {
			t.Errorf("healed: %v", err)
		}
		if got := m.Calls("MemAlloc"); got != 4 {
			t.Errorf("%d calls of MemAlloc, want 4", got)
		}
	})
	t.Run("a sticky one loses its device until it is reset", func(t *testing.T) {
		m := machine(t, Config{Devices: make([]DeviceSpec, 2), Faults: "MemGetInfo@1:2=700"})
		devices := open(t, m).Devices()
		info := func(i int) error { _, err := devices[i].MemoryInfo(); return err }
		if err := errors.Join(info(0), info(0), info(1)); err != nil {
			t.Fatal(err)
		}
		if err := info(1); !errors.Is(err, driver.ErrDeviceLost) {
			t.Fatalf("%v: want the device lost", err)
		}
		table := m.Table()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var ctx driver.ContextHandle
		want(t, "retain", driver.Success, table.DevicePrimaryCtxRetain(&ctx, 1))
		want(t, "current", driver.Success, table.CtxSetCurrent(ctx))
		want(t, "anything else on it", driver.IllegalAddress, table.CtxSynchronize())
		want(t, "release", driver.Success, table.DevicePrimaryCtxRelease(1))
		if err := info(0); err != nil {
			t.Errorf("the other device: %v", err)
		}
		if err := devices[1].Reset(); err != nil {
			t.Fatal(err)
		}
		if err := info(1); err != nil {
			t.Errorf("after the reset: %v", err)
		}
	})
	t.Run("plans that make no sense", func(t *testing.T) {
		for _, plan := range []string{"MemAlloc", "MemAlloc:3", "MemAlloc:0=2", "MemAloc:1=2", "MemAlloc@x:1=2", "MemAlloc:1=two"} {
			if _, err := New(Config{Faults: plan}); err == nil || !strings.Contains(err.Error(), plan) {
				t.Errorf("%s: %v", plan, err)
			}
		}
	})
}

func TestFreshMemoryIsNotZero(t *testing.T) {
	d := open(t, machine(t, Config{Devices: make([]DeviceSpec, 1)})).Devices()[0]
	p, _ := d.Alloc(100)
	got := make([]byte, 100)
	if err := errors.Join(driver.Download(d, got, p), d.Free(p)); err != nil || slices.Contains(got, 0) {
		t.Errorf("%v, %v: a program that relies on zeros would pass", got, err)
	}
}

func TestConcurrentUse(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 4)})
	devices := open(t, m).Devices()
	var all sync.WaitGroup
	for i := range 8 {
		d := devices[i%4]
		all.Go(func() {
			for range 50 {
				p, err := d.Alloc(uint64(1 + i))
				if err == nil {
					err = errors.Join(driver.Upload(d, p, []byte{byte(i)}), d.Free(p))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i, d := range devices {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if now, peak := m.Used(i); now != 0 || peak == 0 {
			t.Errorf("device %d: %d bytes used, at most %d", i, now, peak)
		}
	}
	if leaks := m.Leaks(); len(leaks) != 0 {
		t.Errorf("%q", leaks)
	}
}
