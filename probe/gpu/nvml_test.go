//go:build cgo && linux

package gpu

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// server is go-nvml's mock of a server with 8 A100, with what the mock leaves out: each card has 12 links to a switch but
// the first two, which have 4 to each other.
func server() *dgxa100.Server {
	s := dgxa100.New()
	for i, device := range s.Devices {
		d := device.(*dgxa100.Device)
		d.UUID = fmt.Sprintf("GPU-%d", i)
		d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 40 << 30, Reserved: 1 << 30, Used: uint64(i) << 30, Free: uint64(39-i) << 30}, nvml.SUCCESS
		}
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
			return nvml.Utilization{Gpu: uint32(10 * i)}, nvml.SUCCESS
		}
		d.GetClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
			return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1200, nvml.CLOCK_MEM: 1000}[c], nvml.SUCCESS
		}
		d.GetMaxClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
			return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1410, nvml.CLOCK_MEM: 1215}[c], nvml.SUCCESS
		}
		d.GetMemoryBusWidthFunc = func() (uint32, nvml.Return) { return 5120, nvml.SUCCESS }
		d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 40, nvml.SUCCESS }
		d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 60500, nvml.SUCCESS }
		d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 400000, nvml.SUCCESS }
		d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
			return nvml.ClocksThrottleReasonGpuIdle | nvml.ClocksThrottleReasonSwPowerCap | nvml.ClocksThrottleReasonHwThermalSlowdown, nvml.SUCCESS
		}
		d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_DEFAULT, nvml.SUCCESS }
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return pciAt(i), nvml.SUCCESS }
		d.GetNvLinkStateFunc = func(n int) (nvml.EnableState, nvml.Return) {
			switch {
			case n >= 12:
				return 0, nvml.ERROR_INVALID_ARGUMENT
			case i < 2 && n >= 4:
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) {
			if i < 2 {
				return pciAt(1 - i), nvml.SUCCESS
			}
			return pciAt(0xc0), nvml.SUCCESS // the switch
		}
		d.GetP2PStatusFunc = func(other nvml.Device, _ nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
			if other.(*dgxa100.Device).Index/4 != i/4 {
				return nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED, nvml.SUCCESS
			}
			return nvml.P2P_STATUS_OK, nvml.SUCCESS
		}
		d.GetTopologyCommonAncestorFunc = func(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
			if other.(*dgxa100.Device).Index/4 != i/4 {
				return nvml.TOPOLOGY_SYSTEM, nvml.SUCCESS
			}
			return nvml.TOPOLOGY_NODE, nvml.SUCCESS
		}
	}
	return s
}

func pciAt(bus int) nvml.PciInfo {
	var pci nvml.PciInfo
	copy(pci.BusId[:], fmt.Sprintf("00000000:%02X:00.0", bus))
	return pci
}

func cardOf(s *dgxa100.Server, i int) *dgxa100.Device { return s.Devices[i].(*dgxa100.Device) }

func look(lib nvml.Interface) Survey {
	return local(context.Background(), Options{Timeout: time.Minute}, func() (session, error) { return connectTo(lib) })
}

// R0.3, R0.7, R1.1: every fact of a server with 8 cards comes from the driver; available is not total.
func TestServer(t *testing.T) {
	survey := look(server())
	if survey.Note != "" || survey.Driver != "550.54.15" || survey.CUDA != "12.4" || len(survey.GPUs) != 8 {
		t.Fatalf("%d GPUs, note %q, driver %q, CUDA %q", len(survey.GPUs), survey.Note, survey.Driver, survey.CUDA)
	}
	peer := func(i int) Peer {
		p := Peer{UUID: fmt.Sprintf("GPU-%d", i), P2P: "ok", Distance: "node"}
		if i >= 4 {
			p.P2P, p.Distance = "chipset_not_supported", "system"
		}
		if i == 0 {
			p.NVLinks = 4
		}
		return p
	}
	want := GPU{Index: 1, UUID: "GPU-1", Name: "Mock NVIDIA A100-SXM4-40GB", PCI: "0000:01:00.0", ComputeCapability: Capability{8, 0},
		Memory: Memory{TotalBytes: 40 << 30, FreeBytes: 38 << 30, ReservedBytes: 1 << 30}, Utilization: 0.1,
		BandwidthBytes: 1_555_200_000_000, Clocks: Clocks{1200, 1000, 1410, 1215}, TemperatureCelsius: 40, PowerWatts: 60.5, PowerLimitWatts: 400,
		Throttled: []string{"sw_power_cap", "hw_thermal_slowdown"}, NVLinks: 4,
		Peers: []Peer{peer(0), peer(2), peer(3), peer(4), peer(5), peer(6), peer(7)}}
	if diff := cmp.Diff(want, survey.GPUs[1], cmpopts.IgnoreFields(Memory{}, "At")); diff != "" {
		t.Error("GPU 1 (-want +got):\n" + diff)
	}
	if g := survey.GPUs[5]; g.NVLinks != 12 || slices.ContainsFunc(g.Peers, func(p Peer) bool { return p.NVLinks != 0 }) {
		t.Errorf("GPU 5 has %d links and peers %v: want 12, all to the switch", g.NVLinks, g.Peers)
	}
	if survey.GPUs[1].At.IsZero() {
		t.Error("the memory does not say when it was read")
	}
}

// The names that the contract promises stand in the JSON, one level deep.
func TestJSON(t *testing.T) {
	text, err := json.Marshal(look(server()).GPUs[2])
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"index": 2.0, "uuid": "GPU-2", "name": "Mock NVIDIA A100-SXM4-40GB", "compute_capability": "8.0",
		"memory_total_bytes": 40.0 * (1 << 30), "memory_free_bytes": 37.0 * (1 << 30), "utilization": 0.2} {
		if doc[name] != want {
			t.Errorf("%s is %v, want %v", name, doc[name], want)
		}
	}
}

// R0.7: what the driver does not tell is unknown and listed, not taken from something else.
func TestUnknownFacts(t *testing.T) {
	s := server()
	d := cardOf(s, 0)
	not := nvml.ERROR_NOT_SUPPORTED
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{Free: 1}, not }
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{Free: 1}, not }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 1}, not }
	d.GetCudaComputeCapabilityFunc = func() (int, int, nvml.Return) { return 1, 1, not }
	d.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 1, not }
	d.GetMaxClockInfoFunc = d.GetClockInfoFunc
	d.GetMemoryBusWidthFunc = func() (uint32, nvml.Return) { return 1, not }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 1, not }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 1, not }
	d.GetEnforcedPowerLimitFunc = d.GetPowerUsageFunc
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 4, not }
	d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_PROHIBITED, not }
	d.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, not }
	d.GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		return nvml.P2P_STATUS_OK, not
	}
	d.GetTopologyCommonAncestorFunc = func(nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) { return nvml.TOPOLOGY_SINGLE, not }
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, 0, not }
	got := look(s).GPUs[0]
	if diff := cmp.Diff(Peer{UUID: "GPU-1"}, got.Peers[0]); diff != "" {
		t.Error("peer (-want +got):\n" + diff)
	}
	got.Peers = nil
	want := GPU{UUID: "GPU-0", Name: "Mock NVIDIA A100-SXM4-40GB", PCI: "0000:00:00.0", Unknown: []string{"compute_capability", "memory_total_bytes",
		"memory_free_bytes", "utilization", "sm_mhz", "memory_mhz", "max_sm_mhz", "max_memory_mhz", "memory_bandwidth_bytes_per_second",
		"temperature_celsius", "power_watts", "power_limit_watts", "throttled"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("GPU 0 (-want +got):\n" + diff)
	}
}

// A driver that does not know of reserved memory still tells total and free.
func TestMemoryOfAnOldDriver(t *testing.T) {
	s := server()
	d := cardOf(s, 0)
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, nvml.ERROR_FUNCTION_NOT_FOUND }
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 100, Free: 70}, nvml.SUCCESS }
	got := look(s).GPUs[0]
	if got.TotalBytes != 100 || got.FreeBytes != 70 || got.ReservedBytes != 0 || len(got.Unknown) != 0 {
		t.Errorf("%+v, unknown %v", got.Memory, got.Unknown)
	}
}

// One card in trouble does not hide the others, and the note says which it is.
func TestCardsInTrouble(t *testing.T) {
	s := server()
	cardOf(s, 3).GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_GPU_IS_LOST }
	cardOf(s, 4).GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_PROHIBITED, nvml.SUCCESS }
	handle := s.DeviceGetHandleByIndexFunc
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 2 {
			return nil, nvml.ERROR_NO_PERMISSION
		}
		return handle(i)
	}
	survey := look(s)
	if len(survey.GPUs) != 8 {
		t.Fatalf("%d GPUs, want 8", len(survey.GPUs))
	}
	for i, g := range survey.GPUs {
		if (g.Trouble != "") != (i >= 2 && i <= 4) || g.Index != i {
			t.Errorf("place %d: GPU %d, trouble %q", i, g.Index, g.Trouble)
		}
	}
	for _, says := range []string{"GPU 2: ", "(4)", "GPU 3: ", "(15)", "GPU 4: its compute mode is prohibited"} {
		if !strings.Contains(survey.Note, says) {
			t.Errorf("note %q does not say %q", survey.Note, says)
		}
	}
}

// A card that MIG splits is its instances; one without any cannot be used.
func TestMIG(t *testing.T) {
	s := server()
	for _, i := range []int{1, 2} {
		d := cardOf(s, i)
		d.MigMode = nvml.DEVICE_MIG_ENABLE
		d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
		d.GetMigDeviceHandleByIndexFunc = func(n int) (nvml.Device, nvml.Return) {
			if i == 2 || n%3 != 0 {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return &mock.Device{
				GetUUIDFunc: func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d", n), nvml.SUCCESS },
				GetNameFunc: func() (string, nvml.Return) { return "A100 MIG 1g.5gb", nvml.SUCCESS },
				GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) {
					return nvml.Memory_v2{Total: 5 << 30, Free: 4 << 30}, nvml.SUCCESS
				},
			}, nvml.SUCCESS
		}
	}
	survey := look(s)
	if len(survey.GPUs) != 10 {
		t.Fatalf("%d GPUs, want 7 cards and 3 instances", len(survey.GPUs))
	}
	want := GPU{Index: 1, UUID: "MIG-3", Name: "A100 MIG 1g.5gb", PCI: "0000:01:00.0", ComputeCapability: Capability{8, 0},
		Memory: Memory{TotalBytes: 5 << 30, FreeBytes: 4 << 30}, MIGParent: "GPU-1", Unknown: cardOnly}
	if diff := cmp.Diff(want, survey.GPUs[2], cmpopts.IgnoreFields(Memory{}, "At")); diff != "" {
		t.Error("second instance (-want +got):\n" + diff)
	}
	if got := survey.GPUs[4]; got.UUID != "GPU-2" || !strings.Contains(got.Trouble, "MIG is on") {
		t.Errorf("card without instances: %s, trouble %q", got.UUID, got.Trouble)
	}
}

// R0.31: whatever keeps NVML from starting is a note, and nothing else is called: this mock panics if it is.
func TestInitFails(t *testing.T) {
	for ret, says := range map[nvml.Return]string{
		nvml.ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver", nvml.ERROR_DRIVER_NOT_LOADED: "kernel module is not loaded",
		nvml.ERROR_NO_PERMISSION: "no permission", nvml.ERROR_LIB_RM_VERSION_MISMATCH: "different versions",
		nvml.ERROR_FUNCTION_NOT_FOUND: "too old", nvml.ERROR_UNKNOWN: "(999)",
	} {
		survey := look(&mock.Interface{InitFunc: func() nvml.Return { return ret }})
		if !strings.Contains(survey.Note, says) || survey.GPUs == nil || len(survey.GPUs) != 0 {
			t.Errorf("%v: note %q and GPUs %v, want a note that says %q and an empty list", ret, survey.Note, survey.GPUs, says)
		}
	}
}

func TestNoGPUs(t *testing.T) {
	s := server()
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.SUCCESS }
	if got := look(s); len(got.GPUs) != 0 || !strings.Contains(got.Note, "sees no GPU") {
		t.Errorf("%+v", got)
	}
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 8, nvml.ERROR_UNKNOWN }
	if got := look(s); len(got.GPUs) != 0 || !strings.Contains(got.Note, "does not count") {
		t.Errorf("%+v", got)
	}
}

// R1.3, R1.4: a reader asks the named device, and a failure names it with the driver's code and text.
func TestMemoryByUUID(t *testing.T) {
	s := server()
	session, err := connectTo(s)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(session, ReaderOptions{Lifetime: time.Hour, Deadline: time.Minute})
	defer r.Close()
	if got, err := r.Memory("GPU-6"); err != nil || got.FreeBytes != 33<<30 || got.Stale {
		t.Errorf("GPU-6: %+v, %v", got, err)
	}
	cardOf(s, 5).GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 87}, nvml.SUCCESS }
	for range 2 { // the second time from the cache
		if got := r.Utilization(); got != 0.87 {
			t.Errorf("the most used card is used to %v, want 0.87", got)
		}
	}
	cardOf(s, 6).GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, nvml.ERROR_GPU_IS_LOST }
	cardOf(s, 6).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	r.Drop()
	_, err = r.Memory("GPU-6")
	var query *QueryError
	if !errors.As(err, &query) || query.UUID != "GPU-6" || query.Code != int(nvml.ERROR_GPU_IS_LOST) || query.Text == "" {
		t.Errorf("error %v", err)
	}
}

// No function of NVML is left to the dynamic linker: where it binds at the start, as some compilers have it by default, the
// program would not start on a host without the driver.
func TestLinking(t *testing.T) {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "nvml") {
			t.Errorf("%s is undefined in the program: add NVML(%s) to nvml_symbols.h", s.Name, s.Name)
		}
	}
}

// After a failed Init, and of a function that the driver lacks, go-nvml's calls are errors; the process lives.
func TestCallsWithoutDriver(t *testing.T) {
	lib := nvml.New(nvml.WithLibraryPath("/nonexistent/libnvidia-ml.so.1"))
	if ret := lib.Init(); ret != nvml.ERROR_LIBRARY_NOT_FOUND {
		t.Errorf("Init: %v", ret)
	}
	if _, ret := lib.DeviceGetCount(); ret != nvml.ERROR_FUNCTION_NOT_FOUND {
		t.Errorf("DeviceGetCount: %v", ret)
	}
}

// The real path, through go-nvml, to a library of a driver that lacks most functions.
func TestOldLibrary(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), "gcc") {
			t.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for gcc: %v", err)
		}
		t.Skipf("NOT TESTED: a library of NVML: %v", err)
	}
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", path, "testdata/libnvidia-ml.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	lib := nvml.New(nvml.WithLibraryPath(path))
	survey := look(lib)
	if len(survey.GPUs) != 1 || survey.Driver != "470.1" || survey.CUDA != "" {
		t.Fatalf("%+v", survey)
	}
	g := survey.GPUs[0]
	if g.UUID != "GPU-old" || g.Name != "Old GPU" || g.TotalBytes != 5<<32 || g.FreeBytes != 3<<32 || g.Trouble != "" {
		t.Errorf("%+v", g)
	}
	if len(g.Unknown) != 12 {
		t.Errorf("unknown: %v, want everything but UUID, name and memory", g.Unknown)
	}
	session, err := connectTo(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer session.close()
	var query *QueryError
	if _, _, err := session.memory("GPU-new"); !errors.As(err, &query) || query.Text != "a bad argument" {
		t.Errorf("error %v, want the library's words", err)
	}
}

func BenchmarkLocal(b *testing.B) {
	for b.Loop() {
		Local(context.Background(), Options{})
	}
}
