package sim

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

func TestMemoryPools(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
	c := current(t, m)
	var s driver.StreamHandle
	var pool driver.PoolHandle
	var p, q driver.Ptr
	want(t, "StreamCreate", driver.Success, c.StreamCreate(&s, 1))
	want(t, "DeviceGetDefaultMemPool", driver.Success, c.DeviceGetDefaultMemPool(&pool, 0))
	empty, _ := m.Used(0)
	held := func(what string, want uint64) {
		t.Helper()
		if now, _ := m.Used(0); now-empty != want {
			t.Errorf("%s: %d bytes held, want %d", what, now-empty, want)
		}
	}
	want(t, "MemAllocAsync", driver.Success, c.MemAllocAsync(&p, mib, s))
	want(t, "MemAllocAsync of what there is not", driver.OutOfMemory, c.MemAllocAsync(&q, 17*gib, s))
	held("in use", 32*mib)
	want(t, "a copy within it", driver.Success, c.MemcpyDtoD(p, p+512, 512))
	want(t, "MemFreeAsync", driver.Success, c.MemFreeAsync(p, s))
	want(t, "MemFreeAsync again", driver.InvalidValue, c.MemFreeAsync(p, s))
	held("freed", 32*mib)
	want(t, "StreamSynchronize", driver.Success, c.StreamSynchronize(s))
	held("synchronised, with a threshold of 0", 0)
	keep := uint64(64 * mib)
	want(t, "MemPoolSetAttribute", driver.Success, c.MemPoolSetAttribute(pool, poolReleaseThreshold, unsafe.Pointer(&keep)))
	want(t, "MemAllocAsync", driver.Success, c.MemAllocAsync(&p, mib, s))
	want(t, "MemFreeAsync", driver.Success, c.MemFreeAsync(p, s))
	want(t, "StreamSynchronize", driver.Success, c.StreamSynchronize(s))
	held("synchronised, with a threshold of 64 MiB", 32*mib)
	want(t, "MemPoolTrimTo", driver.Success, c.MemPoolTrimTo(pool, 0))
	held("trimmed", 0)
	want(t, "no such pool", driver.InvalidHandle, c.MemPoolTrimTo(1, 0))
}

func TestPeers(t *testing.T) {
	m := machine(t, Config{Devices: []DeviceSpec{{}, {}, {NoPeers: true}}})
	d := open(t, m)
	table := d.Table()
	for peer, wanted := range []int32{0, 1, 0} {
		var can int32
		want(t, "DeviceCanAccessPeer", driver.Success, table.DeviceCanAccessPeer(&can, 0, driver.DeviceHandle(peer)))
		if can != wanted {
			t.Errorf("device 0 and %d: %d, want %d", peer, can, wanted)
		}
	}
	var contexts [3]driver.ContextHandle
	var memory [3]driver.Ptr
	for i, device := range d.Devices() {
		var err error
		if memory[i], err = device.Alloc(8); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(driver.Upload(device, memory[i], []byte{byte(i), 7}), device.Do(func() error {
			return device.Check("cuCtxGetCurrent", table.CtxGetCurrent(&contexts[i]))
		})); err != nil {
			t.Fatal(err)
		}
	}
	first := d.Devices()[0]
	if err := first.Do(func() error {
		want(t, "with a peer", driver.Success, table.CtxEnablePeerAccess(contexts[1], 0))
		want(t, "a second time", peerAccessAlreadyEnabled, table.CtxEnablePeerAccess(contexts[1], 0))
		want(t, "with one that refuses", peerAccessUnsupported, table.CtxEnablePeerAccess(contexts[2], 0))
		want(t, "with itself", driver.InvalidContext, table.CtxEnablePeerAccess(contexts[0], 0))
		want(t, "copy", driver.Success, table.MemcpyPeerAsync(memory[0], contexts[0], memory[2], contexts[2], 2, 0))
		want(t, "copy from elsewhere", driver.InvalidValue, table.MemcpyPeerAsync(memory[0], contexts[0], memory[2], contexts[1], 2, 0))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2)
	if err := driver.Download(first, got, memory[0]); err != nil || got[0] != 2 {
		t.Errorf("%v, %v", got, err)
	}
	// Kernels reach the memory of a device with which access was enabled, and of no other.
	f := load(t, first, addOne)
	s, _ := first.NewStream()
	launch := func(p driver.Ptr) error {
		return errors.Join(f.Launch(s, driver.Launch{}, driver.Params(&addOneParams{p, 1, 0})), s.Synchronize())
	}
	if err := launch(memory[1]); err != nil {
		t.Error(err, m.Trouble())
	}
	if err := launch(memory[2]); !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("%v", err)
	}
	if err := errors.Join(first.Reset(), d.Devices()[1].Free(memory[1]), d.Devices()[2].Free(memory[2])); err != nil {
		t.Error(err)
	}
}

func TestStreamsWait(t *testing.T) {
	m := machine(t, Config{Devices: []DeviceSpec{{BandwidthBytes: 1_000_000_000}}})
	d := open(t, m).Devices()[0]
	a, _ := d.NewStream()
	b, _ := d.NewStream()
	middle, _ := d.NewEvent()
	end, _ := d.NewEvent()
	p, _ := d.Alloc(mib)
	if err := errors.Join(a.Fill8(p, 1, mib), a.Record(middle), b.Wait(middle), b.Record(end)); err != nil {
		t.Fatal(err)
	}
	if done, _ := b.Done(); done {
		t.Error("a stream that waits is done at once")
	}
	if err := b.Synchronize(); err != nil {
		t.Fatal(err)
	}
	if done, err := a.Done(); !done || err != nil {
		t.Errorf("the stream that was waited for: %v, %v", done, err)
	}
	if since, err := end.Since(middle); err != nil || since < 0 {
		t.Errorf("%v, %v", since, err)
	}
	if err := d.Free(p); err != nil {
		t.Error(err)
	}
}
