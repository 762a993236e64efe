//go:build linux && (amd64 || arm64)

package driver

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// R0.31: each way of not having a GPU is an error of its own kind that says what is wrong, and the process lives.
func TestNoGPU(t *testing.T) {
	for _, test := range []struct {
		name, plan string
		want       error
		says       string
	}{
		{"no device", "cuInit:1+=100", ErrNoDevice, "is the kernel module nvidia loaded"},
		{"stub of the toolkit", "cuInit:1+=34", ErrNoDriver, "stub"},
		{"not initialised", "cuInit:1+=3", ErrNoDriver, "cuInit"},
		{"library and module of two versions", "cuInit:1+=803", ErrNoDriver, "different versions"},
		{"unknown error", "cuInit:1+=999", ErrNoDriver, "(999)"},
		{"not permitted", "cuInit:1+=800", ErrNotPermitted, "(800)"},
		{"old driver", "version=11040", ErrDriverTooOld, "of CUDA 11.4: want 11.8"},
		{"version fails", "cuDriverGetVersion:1=999", nil, "cuDriverGetVersion"},
		{"count fails", "cuDeviceGetCount:1=999", nil, "cuDeviceGetCount"},
		{"no devices to count", "devices=0", ErrNoDevice, "CUDA_VISIBLE_DEVICES"},
		{"device fails", "cuDeviceGet:2=101", nil, "cuDeviceGet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Open(fakeLibrary(t, test.plan).table())
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, test.want) && test.want != nil {
				t.Fatalf("error %v (%T), want an *Error of the kind %q", err, err, test.want)
			}
			if !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line that says %q", err, test.says)
			}
		})
	}
}

func TestNoLibrary(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(text, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/nonexistent/libcuda.so.1", text} {
		_, err := Local(Options{Library: path})
		if !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "load "+path) {
			t.Errorf("error %v, want one that names %s", err, path)
		}
	}
}

// A library without a function that is needed is too old; without an optional one it serves, and the function is nil.
func TestMissingFunction(t *testing.T) {
	lib, err := open(compile(t, "libcuda-nolaunch.so", "testdata/libcuda.c", "-DcuLaunchKernel=other"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(lib.table())
	if !errors.Is(err, ErrDriverTooOld) || !strings.Contains(err.Error(), "cuLaunchKernel: the library lacks this function") {
		t.Errorf("error %v", err)
	}
	if d := openFake(t, ""); d.Table().MemCreate != nil || d.Table().MemAddressReserve == nil {
		t.Error("an optional function is bound that the library lacks, or not bound though it is there")
	}
}

// What a look at the machine adds to the error.
func TestExplained(t *testing.T) {
	node := &fstest.MapFile{}
	absent := &Error{Op: "load libcuda.so.1", Kind: ErrNoDriver, Text: "libcuda.so.1: cannot open shared object file: No such file or directory"}
	for _, test := range []struct {
		name string
		root fs.FS
		err  *Error
		want error
		says string
	}{
		{"nothing installed", fstest.MapFS{}, absent, ErrNoDriver, "driver: load libcuda.so.1: no NVIDIA driver is installed"},
		{"container for utilities only", fstest.MapFS{controlNode: node}, absent, ErrNoDriver, "NVIDIA_DRIVER_CAPABILITIES"},
		{"container without the GPUs", fstest.MapFS{moduleVersion: node}, absent, ErrNoDriver, "the kernel module is loaded"},
		{"library of another kind of machine", fstest.MapFS{}, &Error{Op: "load libcuda.so.1", Kind: ErrNoDriver, Text: "wrong ELF class"}, ErrNoDriver, "driver: load libcuda.so.1: wrong ELF class"},
		{"no permission", locked{fstest.MapFS{controlNode: node}}, &Error{Op: "cuInit", Code: NoDevice, Kind: ErrNoDevice}, ErrNotPermitted, "/dev/nvidiactl may not be opened"},
		{"no node for memory", fstest.MapFS{controlNode: node, "dev/nvidia0": node}, &Error{Op: "cuInit", Code: Unknown, Kind: ErrNoDriver}, ErrNoDriver, "/dev/nvidia-uvm is missing"},
		{"no node at all", fstest.MapFS{}, &Error{Op: "cuInit", Code: NoDevice, Kind: ErrNoDevice, Hint: "x"}, ErrNoDevice, "x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, explain := *test.err, explainDead
			if e.Op != "cuInit" {
				explain = func(root fs.FS, err error) error { return explainMissing(root, Options{}, err) }
			}
			err := explain(test.root, &e)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %q of the kind %q", err, test.says, test.want)
			}
		})
	}
}

// locked is a file system in which files are seen but not opened.
type locked struct{ fs.StatFS }

func (l locked) Open(name string) (fs.File, error) {
	if _, err := l.Stat(name); err != nil {
		return nil, err
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

// R0.3, R0.7, R4.3: what the driver tells of a device; what it does not tell is absent, and a 0 that it tells is a 0.
func TestDevices(t *testing.T) {
	d := openFake(t, "")
	type facts struct {
		UUID, PCI, Name, Text string
		Total                 uint64
		Major, Minor          int
		Multiprocessors       int
	}
	var got []facts
	for _, device := range d.Devices() {
		f := facts{UUID: device.UUID(), PCI: device.PCI(), Name: device.Name(), Text: device.String(), Total: device.TotalBytes()}
		f.Major, f.Minor, _ = device.Capability()
		f.Multiprocessors, _ = device.Attribute(MultiprocessorCount)
		got = append(got, f)
	}
	want := []facts{
		{"GPU-10101010-1010-1010-1010-101010101010", "0000:80:00.0", "Fake GPU A", "device 0 (Fake GPU A)", 1 << 30, 9, 0, 100},
		{"GPU-11111111-1111-1111-1111-111111111111", "0000:81:00.0", "Fake GPU B", "device 1 (Fake GPU B)", 2 << 30, 9, 0, 101},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("devices (-want +got):\n" + diff)
	}
	device := d.Devices()[0]
	for _, a := range []Attribute{MaxThreadsPerBlock, MaxThreadsPerMultiproc, MultiprocessorCount, MemoryClockRateKHz, MemoryBusWidthBits,
		TotalConstantMemory, MaxSharedMemoryPerBlock, CapabilityMajor} {
		if v, ok := device.Attribute(a); !ok || v <= 0 {
			t.Errorf("R4.3: %s is %d, %v", a, v, ok)
		}
	}
	if v, ok := device.Attribute(UnifiedAddressing); v != 0 || !ok {
		t.Errorf("R4.3: unified addressing is %d, %v: want a known 0", v, ok)
	}
	if v, ok := device.Attribute(MemoryPoolsSupported); ok {
		t.Errorf("R4.3: an attribute that the driver refuses is %d, want it absent", v)
	}
	doc, err := json.Marshal(device.Attributes())
	if err != nil || !strings.Contains(string(doc), `"multiprocessors":100`) || strings.Contains(string(doc), "memory_pools") {
		t.Errorf("JSON %s, %v", doc, err)
	}
}

func TestUnknownFacts(t *testing.T) {
	d := openFake(t, "cuDeviceGetName:1+=999;cuDeviceGetUuid_v2:1+=999;cuDeviceTotalMem_v2:1+=999;cuDeviceGetAttribute:1+=999;cuDeviceGetPCIBusId:1+=999")
	device := d.Devices()[1]
	if _, _, known := device.Capability(); known || device.UUID() != "" || device.Name() != "" || device.PCI() != "" || device.TotalBytes() != 0 || len(device.Attributes()) != 0 {
		t.Errorf("%+v: want all unknown", device)
	}
	if device.String() != "device 1" {
		t.Errorf("name %q", device)
	}
	if _, err := d.Device(""); !errors.Is(err, ErrNoDevice) {
		t.Errorf("a device without UUID was found by none: %v", err)
	}
}

func TestDeviceByUUID(t *testing.T) {
	d := openFake(t, "")
	for _, uuid := range []string{"GPU-11111111-1111-1111-1111-111111111111", "MIG-11111111-1111-1111-1111-111111111111"} {
		if device, err := d.Device(uuid); err != nil || device.Ordinal() != 1 {
			t.Errorf("%s is %v, %v", uuid, device, err)
		}
	}
	if _, err := d.Device("GPU-0"); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "GPU-1010") {
		t.Errorf("error %v, want one that lists the devices", err)
	}
}

// R1.1, R1.3, R4.2: total and free come from the driver, at run time, for the named device and not for the current one.
func TestMemoryInfo(t *testing.T) {
	d := openFake(t, "")
	for _, i := range []int{1, 0, 1} {
		got, err := d.Devices()[i].MemoryInfo()
		if err != nil {
			t.Fatal(err)
		}
		total := uint64(i+1) << 30
		if diff := cmp.Diff(MemoryInfo{FreeBytes: total / 2, TotalBytes: total}, got); diff != "" || got.UsedBytes() != total/2 {
			t.Errorf("device %d (-want +got):\n%s", i, diff)
		}
	}
}

// R1.4, R4.2: a query that fails is a typed error with the device, the driver's code and its text.
func TestFailedQuery(t *testing.T) {
	d := openFake(t, "cuMemGetInfo_v2:2=2")
	device := d.Devices()[1]
	if _, err := device.MemoryInfo(); err != nil {
		t.Fatal(err)
	}
	_, err := device.MemoryInfo()
	want := &Error{Op: "cuMemGetInfo", Code: OutOfMemory, Name: "CUDA_ERROR_OUT_OF_MEMORY", Text: "out of memory",
		Device: "device 1 (Fake GPU B)", Kind: ErrOutOfMemory}
	var got *Error
	if !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
		t.Fatalf("error %#v, want %#v", err, want)
	}
	if text := "driver: cuMemGetInfo on device 1 (Fake GPU B): CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"; err.Error() != text {
		t.Errorf("%q, want %q", err, text)
	}
	if _, err := device.MemoryInfo(); err != nil {
		t.Errorf("after a failure that is not sticky: %v", err)
	}
}

// The context belongs to the thread: goroutines that use two devices at once always reach the one they mean.
func TestContextsOfManyGoroutines(t *testing.T) {
	d := openFake(t, "")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			device, want := d.Devices()[i%2], uint64(i%2+1)<<30
			for range 300 {
				err := device.Do(func() error {
					var before, after, total uint64
					if err := device.Check("cuMemGetInfo", d.Table().MemGetInfo(&before, &total)); err != nil {
						return err
					}
					for spin := 0; spin < 1000; spin++ { // room for the scheduler to move a goroutine that is not locked
						before += uint64(spin)
					}
					if err := device.Check("cuMemGetInfo", d.Table().MemGetInfo(&after, &total)); err != nil {
						return err
					}
					if total != want {
						t.Errorf("device %d has %d bytes, want %d: the thread has another context", i%2, total, want)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestOutOfMemoryOnTheThirdAllocation(t *testing.T) {
	device := openFake(t, "cuMemAlloc_v2:3=2").Devices()[0]
	for n := 1; n <= 4; n++ {
		p, err := device.Alloc(1 << 10)
		if n == 3 {
			if !errors.Is(err, ErrOutOfMemory) || device.Lost() != nil {
				t.Errorf("allocation 3: %v, lost: %v; want out of memory, which is not sticky", err, device.Lost())
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := device.Free(p); err != nil {
			t.Error(err)
		}
	}
}

// After a sticky error the device refuses everything, the other device goes on, and Reset recovers.
func TestStickyError(t *testing.T) {
	d := openFake(t, "cuStreamSynchronize:1=700")
	bad, good := d.Devices()[0], d.Devices()[1]
	stream, err := bad.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Synchronize()
	var first *Error
	if !errors.As(err, &first) || !first.Sticky || !errors.Is(err, ErrDeviceLost) {
		t.Fatalf("error %v, want a sticky one", err)
	}
	if _, err := bad.MemoryInfo(); !errors.Is(err, ErrDeviceLost) || !strings.Contains(err.Error(), "cuStreamSynchronize") {
		t.Errorf("a lost device answers %v, want what it was lost by", err)
	}
	if err := stream.Close(); err != nil {
		t.Errorf("closing a stream of a lost device: %v", err)
	}
	if _, err := good.MemoryInfo(); err != nil {
		t.Errorf("the other device: %v", err)
	}
	if err := bad.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.MemoryInfo(); err != nil {
		t.Errorf("after Reset: %v", err)
	}
	if err := stream.Synchronize(); !errors.Is(err, ErrClosed) {
		t.Errorf("a stream of the old context: %v, want %v", err, ErrClosed)
	}
}

// Some errors end only with the process: Reset tells.
func TestResetThatDoesNotHelp(t *testing.T) {
	device := openFake(t, "cuCtxSynchronize:1+=719").Devices()[0]
	for range 2 {
		if err := device.Synchronize(); !errors.Is(err, ErrDeviceLost) {
			t.Fatalf("error %v, want the device lost", err)
		}
		if err := device.Reset(); !errors.Is(err, ErrDeviceLost) || device.Lost() == nil {
			t.Errorf("Reset: %v, want that the device stays lost", err)
		}
	}
}

const ptx = ".version 7.8\n.target sm_80\n.visible .entry add_one(.param .u64 p, .param .u32 n) { ret; }\n"

func TestCodeThatIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, plan, ptx string
		want            error
		says            string
	}{
		{"bad PTX", "", ptx + "bogus", ErrInvalidPTX, "Unknown symbol 'bogus'"},
		{"no compiler", "cuModuleLoadDataEx:1=221", ptx, ErrNoCompiler, "libnvidia-ptxjitcompiler.so.1"},
		{"PTX that the driver calls too new", "cuModuleLoadDataEx:1=222", ptx, ErrDriverTooOld, "a newer driver"},
		{"PTX that is too new", "version=11080", strings.Replace(ptx, "7.8", "8.0", 1), ErrDriverTooOld, "needs a driver of CUDA 12.0: the driver is of 11.8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := openFake(t, test.plan).Devices()[0].LoadModule([]byte(test.ptx), JIT{})
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q, want one line of the kind %q that says %q", err, test.want, test.says)
			}
			var e *Error
			if errors.As(err, &e); test.name == "bad PTX" && !strings.Contains(e.JITLog, "ptxas fatal") {
				t.Errorf("log %q, want all that the compiler said", e.JITLog)
			}
		})
	}
}

func TestRequiredVersion(t *testing.T) {
	for text, want := range map[string]int{
		".version 7.8\n.target sm_80": 11080, "// made by clang\n\n.version 8.0": 12000, ".version 6.3": 0, ".version 8.5": 12050,
		".version 8.7": 12080, ".version 9.0\n": 13000, "\x7fELF": 0, "": 0, ".target sm_80\n.version 9.0": 0,
	} {
		if got := requiredVersion([]byte(text)); got != want {
			t.Errorf("%q needs %d, want %d", text, got, want)
		}
	}
}

// The parameters of add_one.
type addOne struct {
	data Ptr
	n    uint32
}

var addOneShape = Launch{Grid: [3]uint32{0, 2, 3}, Block: [3]uint32{4, 5, 6}, SharedBytes: 7} // as the fake wants it

// Work of all kinds, through every function that the methods call: launched, captured, timed, copied.
func TestWork(t *testing.T) {
	device := openFake(t, "").Devices()[1]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	module, err := device.LoadModule([]byte(ptx), JIT{MaxRegisters: 64, Optimization: 3})
	must(err)
	kernel, err := module.Function("add_one")
	must(err)
	stream, err := device.NewStream()
	must(err)
	start, err := device.NewEvent()
	must(err)
	end, err := device.NewEvent()
	must(err)
	memory, err := device.Alloc(64)
	must(err)
	defer device.Free(memory)

	must(Upload(device, memory, []uint32{1, 2, 3, 4}))
	params := addOne{memory, 4}
	must(stream.Record(start))
	must(kernel.Launch(stream, addOneShape, Params(&params)))
	graph, err := stream.Capture(func() error {
		return errors.Join(kernel.Launch(stream, addOneShape, Params(&params)), kernel.Launch(stream, addOneShape, Params(&params)))
	})
	must(err)
	must(graph.Launch(stream))
	must(stream.Record(end))
	must(stream.Wait(end))
	must(end.Synchronize())
	got := make([]uint32, 4)
	must(Download(device, got, memory))
	if diff := cmp.Diff([]uint32{4, 5, 6, 7}, got); diff != "" {
		t.Error("after three launches (-want +got):\n" + diff)
	}
	if took, err := end.Since(start); err != nil || took.Round(time.Nanosecond*10) != 6*time.Microsecond {
		t.Errorf("three launches took %v, %v", took, err)
	}
	must(stream.Fill32(memory, 7, 2))
	must(stream.Fill8(memory+8, 1, 4))
	must(stream.Copy(memory+12, memory+8, 4))
	must(Download(device, got, memory))
	if diff := cmp.Diff([]uint32{7, 7, 0x01010101, 0x01010101}, got); diff != "" {
		t.Error("after fills and a copy (-want +got):\n" + diff)
	}
	if done, err := end.Done(); !done || err != nil {
		t.Errorf("event: %v, %v", done, err)
	}
	if registers, err := kernel.Attribute(FuncRegisters); registers != 32 || err != nil {
		t.Errorf("registers %d, %v", registers, err)
	}
	must(kernel.SetAttribute(FuncMaxDynamicShared, 65536))
	if blocks, err := kernel.MaxBlocks(256, 0); blocks != 8 || err != nil {
		t.Errorf("blocks %d, %v", blocks, err)
	}
	if _, err := module.Function("absent"); err == nil || !strings.Contains(err.Error(), `no kernel "absent"`) {
		t.Errorf("a kernel that is not there: %v", err)
	}
	if err := stream.Fill32(memory+1, 0, 1); err == nil {
		t.Error("words at an odd address were filled")
	}
	must(module.Close())
	must(module.Close())
	if err := kernel.Launch(stream, addOneShape, Params(&params)); !errors.Is(err, ErrClosed) {
		t.Errorf("launch of an unloaded kernel: %v", err)
	}
	if _, err := stream.Capture(func() error { return kernel.Launch(stream, addOneShape, nil) }); !errors.Is(err, ErrClosed) {
		t.Errorf("a capture that fails: %v, want the error of its work", err)
	}
}

// Work that names a stream or an event which is closed, or was lost with a context, is refused before the driver sees the old
// handle, which is nobody's or somebody else's by then.
func TestClosedCompanions(t *testing.T) {
	for name, end := range map[string]func(*Device, *Stream, *Event) error{
		"closed": func(_ *Device, s *Stream, e *Event) error { return errors.Join(s.Close(), e.Close()) },
		"reset":  func(d *Device, _ *Stream, _ *Event) error { return d.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			device := openFake(t, "").Devices()[0]
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			oldStream, err := device.NewStream()
			must(err)
			oldEvent, err := device.NewEvent()
			must(err)
			must(end(device, oldStream, oldEvent))
			module, err := device.LoadModule([]byte(ptx), JIT{})
			must(err)
			kernel, err := module.Function("add_one")
			must(err)
			stream, err := device.NewStream()
			must(err)
			event, err := device.NewEvent()
			must(err)
			graph, err := stream.Capture(func() error { return nil })
			must(err)
			must(stream.Record(event))
			_, since := event.Since(oldEvent)
			for op, err := range map[string]error{
				"launch": kernel.Launch(oldStream, addOneShape, nil), "graph": graph.Launch(oldStream), "record": stream.Record(oldEvent),
				"wait": stream.Wait(oldEvent), "since": since,
			} {
				if !errors.Is(err, ErrClosed) {
					t.Errorf("%s: %v, want %v", op, err, ErrClosed)
				}
			}
		})
	}
}

// An event or stream that is not done yet is no error.
func TestNotReady(t *testing.T) {
	device := openFake(t, "cuStreamQuery:1=600;cuStreamQuery:3=719").Devices()[0]
	stream, err := device.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		if done, err := stream.Done(); done != want || err != nil {
			t.Errorf("done %v, %v, want %v", done, err, want)
		}
	}
	if done, err := stream.Done(); done || !errors.Is(err, ErrDeviceLost) {
		t.Errorf("done %v, %v, want a lost device", done, err)
	}
	if err := device.Reset(); err != nil {
		t.Error(err)
	}
}

// Optional functions are called with their arguments in order and in full width.
func TestOptionalFunctions(t *testing.T) {
	d := openFake(t, "")
	err := d.Devices()[0].Do(func() error {
		var p Ptr
		if r := d.Table().MemAddressReserve(&p, 1<<40, 2, 3, 4); r != Success || p != 1<<40+20+300+4000 {
			t.Errorf("reserve: %d, %#x", r, uint64(p))
		}
		if r := d.Table().MemcpyPeerAsync(1, 2, 3, 4, 5, 0); r != Success {
			t.Errorf("copy between devices: %d", r)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What is left open is closed in the reverse order of its making: a graph before the module of its kernels, the context last.
func TestCloseOrder(t *testing.T) {
	lib := fakeLibrary(t, "")
	table := lib.table()
	var order []string
	module, stream, graph, release := table.ModuleUnload, table.StreamDestroy, table.GraphExecDestroy, table.DevicePrimaryCtxRelease
	table.ModuleUnload = func(m ModuleHandle) Result { order = append(order, "module"); return module(m) }
	table.StreamDestroy = func(s StreamHandle) Result { order = append(order, "stream"); return stream(s) }
	table.GraphExecDestroy = func(g GraphExecHandle) Result { order = append(order, "graph"); return graph(g) }
	table.DevicePrimaryCtxRelease = func(d DeviceHandle) Result { order = append(order, "context"); return release(d) }
	d, err := Open(table)
	if err != nil {
		t.Fatal(err)
	}
	device := d.Devices()[0]
	m, err := device.LoadModule([]byte(ptx), JIT{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function("add_one")
	if err != nil {
		t.Fatal(err)
	}
	s, err := device.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	word := []uint32{0}
	if _, err := s.Capture(func() error {
		return f.Launch(s, addOneShape, Params(&addOne{Ptr(uintptr(unsafe.Pointer(&word[0]))), 1}))
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"graph", "stream", "module", "context"}, order); diff != "" {
		t.Error("order (-want +got):\n" + diff)
	}
	if live := call(lib.symbol("fake_live")); live != 0 {
		t.Errorf("%d objects outlive Close", live)
	}
}

// A launch allocates nothing of its own.
func TestLaunchDoesNotAllocate(t *testing.T) {
	d, err := Open(fakeLibrary(t, "").table())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.table.LaunchKernel = func(FunctionHandle, uint32, uint32, uint32, uint32, uint32, uint32, uint32, StreamHandle, *unsafe.Pointer, *LaunchExtra) Result {
		return Success
	}
	d.table.CtxSetCurrent = func(ContextHandle) Result { return Success }
	device := d.Devices()[0]
	s := &Stream{object: device.hold("", func() Result { return Success })}
	f := &Function{module: &Module{object: s.object}}
	if n := testing.AllocsPerRun(1000, func() {
		params := addOne{1, 4}
		if f.Launch(s, addOneShape, Params(&params)) != nil {
			t.Error("launch failed")
		}
	}); n > 0.5 && !raceEnabled {
		t.Errorf("%.1f allocations a launch, want none", n)
	}
}

// Every function of the table is bound if the library has all that are looked for.
func TestEveryFunctionIsBound(t *testing.T) {
	source, err := os.ReadFile("load_linux.go")
	if err != nil {
		t.Fatal(err)
	}
	var c strings.Builder
	for _, symbol := range regexp.MustCompile(`"(cu[A-Z]\w*)"`).FindAllStringSubmatch(string(source), -1) {
		c.WriteString("int " + symbol[1] + "(void) { return 0; }\n")
	}
	file := filepath.Join(t.TempDir(), "all.c")
	if err := os.WriteFile(file, []byte(c.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lib, err := open(compile(t, "liball.so", file))
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(lib.table())
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			t.Errorf("the loader binds nothing to %s", v.Type().Field(i).Name)
		}
	}
}

func BenchmarkDo(b *testing.B) {
	device := openFake(b, "").Devices()[0]
	b.ReportAllocs()
	for b.Loop() {
		if err := device.Synchronize(); err != nil {
			b.Fatal(err)
		}
	}
}
