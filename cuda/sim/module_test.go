package sim

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// addOne is: for i < n { p[i]++ }, with a store at an address that is step bytes away from where it belongs.
const addOne = `
.version 7.8
.target sm_61
.address_size 64
.visible .entry add_one(.param .u64 p, .param .u32 n, .param .u32 step)
.maxntid 256, 1, 1
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<7>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [step];
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, %tid.x;
	mad.lo.s32 %r6, %r3, %r4, %r5;
	setp.ge.u32 %p1, %r6, %r1;
	@%p1 bra DONE;
	cvta.to.global.u64 %rd2, %rd1;
	mul.wide.u32 %rd3, %r6, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.u32 %r7, [%rd4];
	add.s32 %r8, %r7, 1;
	cvt.u64.u32 %rd5, %r2;
	add.s64 %rd6, %rd4, %rd5;
	st.global.u32 [%rd6], %r8;
DONE:
	ret;
}
`

type addOneParams struct {
	P    driver.Ptr
	N    uint32
	Step uint32
}

func TestKernelsRun(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
	d := open(t, m).Devices()[0]
	f := load(t, d, addOne)
	const n = 1000
	host := make([]uint32, n)
	for i := range host {
		host[i] = uint32(i)
	}
	p, _ := d.Alloc(4 * n)
	s, _ := d.NewStream()
	start, _ := d.NewEvent()
	end, _ := d.NewEvent()
	launch := func(step uint32) error {
		return f.Launch(s, driver.Launch{Grid: [3]uint32{(n + 255) / 256}, Block: [3]uint32{256}}, driver.Params(&addOneParams{p, n, step}))
	}
	if err := errors.Join(driver.Upload(d, p, host), s.Record(start), launch(0), s.Record(end), s.Synchronize(), driver.Download(d, host, p)); err != nil {
		t.Fatal(err, m.Trouble())
	}
	for i, v := range host {
		if v != uint32(i+1) {
			t.Fatalf("p[%d] = %d, want %d", i, v, i+1)
		}
	}
	if took, err := end.Since(start); err != nil || took < kernelLatency || took > 10*kernelLatency {
		t.Errorf("a tiny kernel takes %v, %v", took, err)
	}
	g, err := s.Capture(func() error { return launch(0) })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Launch(s), g.Launch(s), s.Synchronize(), driver.Download(d, host, p)); err != nil || host[0] != 3 || m.Kernels() != 3 {
		t.Errorf("after two launches of a graph: %d, %v, %d kernels", host[0], err, m.Kernels())
	}
	if err := d.Free(p); err != nil {
		t.Error(err)
	}
}

// load returns the kernel of a module.
func load(t *testing.T, d *driver.Device, text string) *driver.Function {
	t.Helper()
	module, err := d.LoadModule([]byte(text), driver.JIT{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := module.Function("add_one")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What a kernel does wrong loses its device, and the simulation says where it was.
func TestFaultsOfKernels(t *testing.T) {
	for _, test := range []struct {
		name string
		step uint32
		want driver.Result
		says string
	}{
		{"out of bounds", 4096, driver.IllegalAddress, "out of bounds"},
		{"misaligned", 2, driver.MisalignedAddress, "misaligned"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
			d := open(t, m).Devices()[0]
			f := load(t, d, addOne)
			p, _ := d.Alloc(4096)
			s, _ := d.NewStream()
			if err := f.Launch(s, driver.Launch{Block: [3]uint32{32}}, driver.Params(&addOneParams{p, 32, test.step})); err != nil {
				t.Errorf("the launch itself: %v", err)
			}
			err := s.Synchronize()
			var e *driver.Error
			if !errors.As(err, &e) || e.Code != test.want || !e.Sticky {
				t.Errorf("%v: want result %d", err, test.want)
			}
			if trouble := m.Trouble(); len(trouble) != 1 || !strings.Contains(trouble[0].Error(), test.says) || !strings.Contains(trouble[0].Error(), "st.global.u32") {
				t.Errorf("%v", trouble)
			}
			if err := d.Reset(); err != nil {
				t.Fatal(err)
			}
			if _, err := d.MemoryInfo(); err != nil {
				t.Errorf("after the reset: %v", err)
			}
		})
	}
}

func TestModulesThatDoNotLoad(t *testing.T) {
	m := machine(t, Config{Devices: []DeviceSpec{{Capability: [2]int32{7, 5}}}, DriverVersion: 11080})
	c := current(t, m)
	d := open(t, m).Devices()[0]
	for name, test := range map[string]struct {
		text string
		kind error
		says string
	}{
		"unknown opcode":   {strings.Replace(addOne, "add.s32", "ad.s32", 1), driver.ErrInvalidPTX, "ad.s32"},
		"newer target":     {strings.Replace(addOne, "sm_61", "sm_80", 1), driver.ErrInvalidPTX, "sm_80"},
		"newer PTX":        {strings.Replace(addOne, "7.8", "8.0", 1), driver.ErrDriverTooOld, ""},
		"not PTX, a cubin": {"\x7fELF", driver.ErrInvalidPTX, ""},
	} {
		_, err := d.LoadModule([]byte(test.text), driver.JIT{})
		var e *driver.Error
		if !errors.Is(err, test.kind) || !errors.As(err, &e) || !strings.Contains(e.JITLog, test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	image := append([]byte(strings.Replace(addOne, "7.8", "8.0", 1)), 0)
	var h driver.ModuleHandle
	want(t, "newer PTX, past the gate of the driver package", driver.UnsupportedPTX, c.ModuleLoadDataEx(&h, ptr(image), 0, nil, nil))
	want(t, "release", driver.Success, c.DevicePrimaryCtxRelease(0))
	module, err := d.LoadModule([]byte(addOne), driver.JIT{MaxRegisters: 32})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := module.Function("add_two"); err == nil || !strings.Contains(err.Error(), "add_two") {
		t.Errorf("%v", err)
	}
	f, err := module.Function("add_one")
	if err != nil {
		t.Fatal(err)
	}
	registers, _ := f.Attribute(driver.FuncRegisters)
	threads, _ := f.Attribute(driver.FuncMaxThreadsPerBlock)
	blocks, _ := f.MaxBlocks(256, 0)
	if registers != 32 || threads != 256 || blocks != 4 {
		t.Errorf("%d registers, %d threads, %d blocks; want 32, 256, and the 4 that 1024 threads of sm_75 make", registers, threads, blocks)
	}
	if f.SetAttribute(driver.FuncMaxDynamicShared, 64*kib) != nil || f.SetAttribute(driver.FuncMaxDynamicShared, 64*kib+1) == nil {
		t.Error("sm_75 gives a block 64 KiB of shared memory and no more")
	}
}

func TestLaunchesThatNoDeviceAccepts(t *testing.T) {
	m := machine(t, Config{Devices: make([]DeviceSpec, 1)})
	d := open(t, m).Devices()[0]
	f := load(t, d, addOne)
	s, _ := d.NewStream()
	params := driver.Params(&addOneParams{})
	for name, test := range map[string]struct {
		launch driver.Launch
		params []byte
		want   driver.Result
	}{
		"more threads than a block has":         {driver.Launch{Block: [3]uint32{2048}}, params, driver.InvalidValue},
		"more than the kernel was made for":     {driver.Launch{Block: [3]uint32{512}}, params, driver.LaunchOutOfResources},
		"more shared memory than was asked for": {driver.Launch{SharedBytes: 100 * kib}, params, driver.InvalidValue},
		"more rows of blocks than there are":    {driver.Launch{Grid: [3]uint32{1, 1 << 16}}, params, driver.InvalidValue},
		"more layers of blocks":                 {driver.Launch{Grid: [3]uint32{1, 1, 1 << 16}}, params, driver.InvalidValue},
		"a block that is too deep":              {driver.Launch{Block: [3]uint32{1, 1, 65}}, params, driver.InvalidValue},
		"other parameters":                      {driver.Launch{}, params[:8], driver.InvalidValue},
	} {
		err := f.Launch(s, test.launch, test.params)
		var e *driver.Error
		if !errors.As(err, &e) || e.Code != test.want {
			t.Errorf("%s: %v, want result %d", name, err, test.want)
		}
	}
	if m.Kernels() != 0 {
		t.Errorf("%d kernels ran", m.Kernels())
	}
}

func TestKernelTimeIsChosen(t *testing.T) {
	var seen []Launched
	m := machine(t, Config{Devices: make([]DeviceSpec, 1), ReplayOnce: true, KernelTime: func(l Launched) time.Duration {
		seen = append(seen, l)
		return time.Second
	}})
	d := open(t, m).Devices()[0]
	f := load(t, d, addOne)
	s, _ := d.NewStream()
	p, _ := d.Alloc(128)
	if err := driver.Upload(d, p, binary.LittleEndian.AppendUint32(nil, 7)); err != nil {
		t.Fatal(err)
	}
	g, err := s.Capture(func() error { return f.Launch(s, driver.Launch{}, driver.Params(&addOneParams{p, 1, 0})) })
	if err != nil {
		t.Fatal(err)
	}
	before := m.Now()
	for range 5 {
		if err := g.Launch(s); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 4)
	if err := errors.Join(s.Synchronize(), driver.Download(d, got, p), d.Free(p)); err != nil || !slices.Equal(got, []byte{8, 0, 0, 0}) {
		t.Errorf("%v, %v: five launches of a graph that computes once", got, err)
	}
	if took := m.Now() - before; took < 5*time.Second || took > 6*time.Second || len(seen) != 1 || seen[0].Kernel != "add_one" {
		t.Errorf("%v, %+v", took, seen)
	}
}
