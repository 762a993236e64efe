package sim

import (
	"errors"
	"math"
	"runtime"
	"testing"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// A copy from ordinary host memory is on its way still when it returns: a stream that does not wait for the default
// stream finds it only after somebody did.
func TestCopiesFromTheHostArriveLate(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
	c := current(t, m)
	var p, q driver.Ptr
	var free, waits driver.StreamHandle
	var pinned unsafe.Pointer
	want(t, "MemAlloc", driver.Success, c.MemAlloc(&p, 4))
	want(t, "MemAlloc", driver.Success, c.MemAlloc(&q, 4))
	want(t, "StreamCreate", driver.Success, c.StreamCreate(&free, 1))
	want(t, "StreamCreate", driver.Success, c.StreamCreate(&waits, 0))
	want(t, "MemAllocHost", driver.Success, c.MemAllocHost(&pinned, 4))
	host := []byte("abcd")
	seen := func(s driver.StreamHandle) string {
		got := make([]byte, 4)
		want(t, "fill", driver.Success, c.MemsetD8Async(q, '-', 4, s))
		want(t, "copy", driver.Success, c.MemcpyDtoDAsync(q, p, 4, s))
		want(t, "wait", driver.Success, c.StreamSynchronize(s))
		want(t, "read", driver.Success, c.MemcpyDtoHAsync(ptr(got), q, 4, free))
		return string(got)
	}
	upload := func(text string, from unsafe.Pointer) {
		t.Helper()
		want(t, "fill", driver.Success, c.MemsetD8Async(p, 'o', 4, free))
		copy(unsafe.Slice((*byte)(from), 4), text)
		want(t, "upload", driver.Success, c.MemcpyHtoD(p, from, 4))
		copy(unsafe.Slice((*byte)(from), 4), "host") // the driver has taken what it copies
	}
	upload("abcd", ptr(host))
	if got := seen(free); got != "oooo" {
		t.Errorf("a stream that waits for nobody finds %q", got)
	}
	want(t, "wait for the default stream", driver.Success, c.StreamSynchronize(0))
	if got := seen(free); got != "abcd" {
		t.Errorf("after the default stream: %q", got)
	}
	upload("efgh", ptr(host))
	if got := seen(waits); got != "efgh" {
		t.Errorf("a stream that waits for the default stream finds %q", got)
	}
	upload("ijkl", pinned)
	if got := seen(free); got != "ijkl" {
		t.Errorf("from pinned memory: %q", got)
	}
	upload("mnop", ptr(host))
	want(t, "wait for all", driver.Success, c.CtxSynchronize())
	if got := seen(free); got != "mnop" {
		t.Errorf("after everything: %q", got)
	}
	want(t, "MemFreeHost", driver.Success, c.MemFreeHost(pinned))
}

// What driver.Upload brought is there for every stream.
func TestUploadIsThere(t *testing.T) {
	d := open(t, machine(t, Config{Devices: make([]DeviceSpec, 1)})).Devices()[0]
	s, _ := d.NewStream()
	p, _ := d.Alloc(8)
	got := make([]byte, 4)
	if err := errors.Join(driver.Upload(d, p, []byte("abcd")), s.Copy(p+4, p, 4), s.Synchronize(), driver.Download(d, got, p+4)); err != nil || string(got) != "abcd" {
		t.Errorf("%q, %v", got, err)
	}
	if err := d.Free(p); err != nil {
		t.Error(err)
	}
}

// The thread that records must neither allocate nor ask or wait for anything, and must end the recording itself.
func TestRecordingForbids(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
	c := current(t, m)
	var p driver.Ptr
	var recorded, other, waits driver.StreamHandle
	var e driver.EventHandle
	var host unsafe.Pointer
	var g driver.GraphHandle
	want(t, "MemAlloc", driver.Success, c.MemAlloc(&p, 4))
	want(t, "EventCreate", driver.Success, c.EventCreate(&e, 0))
	for s, flags := range map[*driver.StreamHandle]uint32{&recorded: 1, &other: 1, &waits: 0} {
		want(t, "StreamCreate", driver.Success, c.StreamCreate(s, flags))
	}
	for name, call := range map[string]func() driver.Result{
		"MemAlloc":                   func() driver.Result { return c.MemAlloc(new(driver.Ptr), 4) },
		"MemFree":                    func() driver.Result { return c.MemFree(p) },
		"MemAllocHost":               func() driver.Result { return c.MemAllocHost(&host, 4) },
		"MemcpyHtoD":                 func() driver.Result { return c.MemcpyHtoD(p, ptr([]byte("abcd")), 4) },
		"CtxSynchronize":             func() driver.Result { return c.CtxSynchronize() },
		"EventQuery":                 func() driver.Result { return c.EventQuery(e) },
		"EventSynchronize":           func() driver.Result { return c.EventSynchronize(e) },
		"StreamQuery, recorded":      func() driver.Result { return c.StreamQuery(recorded) },
		"StreamQuery, another":       func() driver.Result { return c.StreamQuery(other) },
		"StreamSynchronize, another": func() driver.Result { return c.StreamSynchronize(other) },
	} {
		want(t, "begin", driver.Success, c.StreamBeginCapture(recorded, captureThreadLocal))
		want(t, name, driver.CaptureUnsupported, call())
		want(t, "end after "+name, captureInvalidated, c.StreamEndCapture(recorded, &g))
	}

	want(t, "begin", driver.Success, c.StreamBeginCapture(recorded, captureThreadLocal))
	var elsewhere, end driver.Result
	onAnother(func() {
		var ctx driver.ContextHandle
		_ = c.DevicePrimaryCtxRetain(&ctx, 0)
		_ = c.CtxSetCurrent(ctx)
		elsewhere = c.EventQuery(e)
		end = c.StreamEndCapture(recorded, &g)
		_ = c.DevicePrimaryCtxRelease(0)
	})
	want(t, "on another thread", driver.Success, elsewhere)
	want(t, "end on another thread", captureWrongThread, end)
	want(t, "end", driver.Success, c.StreamEndCapture(recorded, &g))

	want(t, "begin", driver.Success, c.StreamBeginCapture(waits, captureRelaxed))
	want(t, "the default stream, for which it would wait", captureImplicit, c.MemsetD8Async(p, 1, 4, 0))
	want(t, "end", captureInvalidated, c.StreamEndCapture(waits, &g))
	want(t, "the default stream afterwards", driver.Success, c.MemsetD8Async(p, 1, 4, 0))
}

// A graph does not keep the modules of its kernels.
func TestGraphsDoNotKeepModules(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
	d := open(t, m).Devices()[0]
	module, err := d.LoadModule([]byte(addOne), driver.JIT{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := module.Function("add_one")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream()
	p, _ := d.Alloc(4)
	g, err := s.Capture(func() error { return f.Launch(s, driver.Launch{}, driver.Params(&addOneParams{p, 1, 0})) })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Launch(s), s.Synchronize(), module.Close()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Launch(s), s.Synchronize()); !errors.Is(err, driver.ErrDeviceLost) || len(m.Trouble()) != 1 {
		t.Errorf("%v, %v: want the device lost", err, m.Trouble())
	}
	if err := d.Reset(); err != nil {
		t.Error(err)
	}
}

// onAnother runs f on an OS thread of its own.
func onAnother(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
	}()
	<-done
}

// Between devices, addresses alone do for allocations, and for mapped memory only where both devices may use it.
func TestMappedMemoryBetweenDevices(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 2)})
	d := open(t, m)
	table := m.Table()
	var at, mapped driver.Ptr
	var contexts [2]driver.ContextHandle
	var h driver.MemHandle
	for i, device := range d.Devices() {
		if err := device.Do(func() error { return device.Check("cuCtxGetCurrent", table.CtxGetCurrent(&contexts[i])) }); err != nil {
			t.Fatal(err)
		}
	}
	at, _ = d.Devices()[0].Alloc(4)
	access := func(device int32) driver.Result {
		return table.MemSetAccess(mapped, page, &driver.MemAccess{LocationType: 1, LocationID: device, Access: 3}, 1)
	}
	if err := d.Devices()[1].Do(func() error {
		want(t, "create", driver.Success, table.MemCreate(&h, page, &driver.MemProp{Type: 1, LocationType: 1, LocationID: 1}, 0))
		want(t, "reserve", driver.Success, table.MemAddressReserve(&mapped, page, page, 0, 0))
		want(t, "map", driver.Success, table.MemMap(mapped, page, 0, h, 0))
		want(t, "access", driver.Success, access(1))
		want(t, "by addresses", driver.InvalidValue, table.MemcpyDtoDAsync(at, mapped, 4, 0))
		want(t, "by addresses, back", driver.InvalidValue, table.MemcpyDtoD(mapped, at, 4))
		want(t, "by contexts", driver.Success, table.MemcpyPeerAsync(at, contexts[0], mapped, contexts[1], 4, 0))
		want(t, "access", driver.Success, access(0))
		want(t, "by addresses, where both may", driver.Success, table.MemcpyDtoDAsync(at, mapped, 4, 0))
		want(t, "unmap", driver.Success, table.MemUnmap(mapped, page))
		want(t, "free", driver.Success, table.MemAddressFree(mapped, page))
		want(t, "release", driver.Success, table.MemRelease(h))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Devices()[0].Free(at); err != nil {
		t.Error(err)
	}
}

// Places and handles that the driver refuses.
func TestWrongPlaces(t *testing.T) {
	m := machine(t, Config{Devices: []DeviceSpec{{Capability: [2]int32{10, 0}}}})
	c := current(t, m)
	var p driver.Ptr
	var h driver.MemHandle
	var timed, untimed driver.EventHandle
	var module driver.ModuleHandle
	var ms float32
	want(t, "reserve", driver.Success, c.MemAddressReserve(&p, 2*page, page, 0, 0))
	want(t, "create half a page", driver.InvalidValue, c.MemCreate(&h, page/2, &driver.MemProp{Type: 1, LocationType: 1}, 0))
	want(t, "create", driver.Success, c.MemCreate(&h, page, &driver.MemProp{Type: 1, LocationType: 1}, 0))
	want(t, "map between two pages", driver.InvalidValue, c.MemMap(p+page/2, page, 0, h, 0))
	want(t, "map beyond the end", driver.InvalidValue, c.MemMap(p+2*page, page, 0, h, 0))
	want(t, "map a part", driver.InvalidValue, c.MemMap(p, page/2, 0, h, 0))
	want(t, "access to what is not mapped", driver.InvalidValue, c.MemSetAccess(p, page, &driver.MemAccess{LocationType: 1, Access: 3}, 1))
	want(t, "release", driver.Success, c.MemRelease(h))
	want(t, "free a part", driver.InvalidValue, c.MemAddressFree(p, page))
	want(t, "free", driver.Success, c.MemAddressFree(p, 2*page))

	want(t, "event", driver.Success, c.EventCreate(&timed, 0))
	want(t, "event", driver.Success, c.EventCreate(&untimed, eventDisableTiming))
	want(t, "record", driver.Success, c.EventRecord(timed, 0))
	want(t, "record", driver.Success, c.EventRecord(untimed, 0))
	want(t, "the time of one that has none", driver.InvalidHandle, c.EventElapsedTime(&ms, timed, untimed))

	exact := append([]byte(".version 8.0\n.target sm_90a\n.address_size 64\n"), 0)
	want(t, "a module for sm_90a alone", driver.InvalidPTX, c.ModuleLoadDataEx(&module, ptr(exact), 0, nil, nil))
}

// Sizes that overflow are refused like any that are too large.
func TestSizesThatOverflow(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
	c := current(t, m)
	var p driver.Ptr
	want(t, "MemAlloc", driver.Success, c.MemAlloc(&p, 512))
	want(t, "words", driver.InvalidValue, c.MemsetD32Async(p, 1, 1<<62+1, 0))
	want(t, "bytes", driver.InvalidValue, c.MemsetD8Async(p+256, 1, math.MaxUint64, 0))
	want(t, "copy", driver.InvalidValue, c.MemcpyDtoD(p, p+256, math.MaxUint64-100))
	want(t, "alloc", driver.OutOfMemory, c.MemAlloc(&p, math.MaxUint64))
}
