package probe

import (
	"context"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/tools/txtar"
)

// machine returns a tree of testdata, which may be changed. The trees are written by hand after the files of real
// machines, cut down to what is read.
func machine(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	tree := make(fstest.MapFS)
	for _, f := range archive.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return tree
}

func read(t testing.TB, tree fs.FS, in Inputs) Host {
	t.Helper()
	h, err := Read(tree, in)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// span is first, first+1, …, last.
func span(first, last int) []int {
	var cpus []int
	for cpu := first; cpu <= last; cpu++ {
		cpus = append(cpus, cpu)
	}
	return cpus
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30

	westmere = SSE42
	haswell  = SSE42 | AVX | AVX2
	alder    = haswell | AVXVNNI
	icelake  = haswell | AVX512 | AVX512VNNI | AVX512VBMI
)

// archOf names the trees that are not amd64.
var archOf = map[string]string{"server-arm64": "arm64", "board-big-little": "arm64"}

func TestReadMachines(t *testing.T) {
	for name, want := range map[string]Host{
		"server-2-sockets-64-cores": {
			CPU: CPU{
				Model: "Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", Vendor: "GenuineIntel", Family: 6, ModelID: 106, Stepping: 6,
				PhysicalCores: 64, LogicalCores: 128, PresentCPUs: 128, ThreadsPerCore: 2, PerformanceCores: 64, NUMANodes: 2,
				UsableCores: 128, UsablePhysical: 64, CPUs: span(0, 127), Features: icelake,
				L1d: Cache{48 * kib, 2, 64}, L2: Cache{1280 * kib, 2, 64}, L3: Cache{48 * mib, 64, 2},
			},
			Memory: Memory{TotalBytes: 527986104 * kib, AvailableBytes: 498123456 * kib, LimitBytes: 527986104 * kib},
			Cgroup: Cgroup{Version: 2, Cpuset: span(0, 127), Path: "/user.slice/user-1000.slice/session-3.scope"},
			Load: Load{CPUUtilization: 3.2 / 128, MemoryUtilization: 1 - 498123456.0/527986104, Load1: 3.2,
				Pressure: Pressure{Known: true, CPU: Stall{SomePercent: 0.05}}},
			Virtualization: "none", Governor: "performance", SMT: "on", Microcode: "0xd0003d1", Kernel: "6.8.0-79-generic", HugePages: "madvise",
		},
		"container-quota-1.5": {
			CPU: CPU{
				Model: "AMD EPYC 7R13 Processor", Vendor: "AuthenticAMD", Family: 25, ModelID: 1, Stepping: 1,
				PhysicalCores: 4, LogicalCores: 8, PresentCPUs: 8, ThreadsPerCore: 2, PerformanceCores: 4, NUMANodes: 1,
				UsableCores: 1, UsablePhysical: 1, CPUs: []int{0, 2, 4, 6, 1, 3, 5, 7}, Features: haswell,
				L1d: Cache{32 * kib, 2, 4}, L2: Cache{512 * kib, 2, 4}, L3: Cache{16 * mib, 8, 1},
			},
			// Available: the limit less what is used and is not inactive page cache, 4 - (1.5 - 0.25) GiB.
			Memory: Memory{TotalBytes: 32391140 * kib, AvailableBytes: 4*gib - 1280*mib, LimitBytes: 4 * gib},
			Cgroup: Cgroup{Version: 2, QuotaCPUs: 1.5, Cpuset: span(0, 7), MemoryLimitBytes: 4 * gib, Path: "/"},
			Load: Load{CPUUtilization: 0.75, MemoryUtilization: 0.3125, Load1: 6,
				Pressure: Pressure{Known: true, CPU: Stall{SomePercent: 62.5}, Memory: Stall{1.25, 1.25}}},
			Virtualization: "kvm", SMT: "on", Microcode: "0xa0011db", Kernel: "6.1.112-122.189.amzn2023.x86_64", HugePages: "always",
			Warnings: []string{"unknown about the machine's condition: governor"},
		},
		"container-cgroup1": {
			CPU: CPU{
				Model: "Intel(R) Xeon(R) CPU E5-2630 v4 @ 2.20GHz", Vendor: "GenuineIntel", Family: 6, ModelID: 79, Stepping: 1,
				PhysicalCores: 10, LogicalCores: 20, PresentCPUs: 20, ThreadsPerCore: 2, PerformanceCores: 10, NUMANodes: 1,
				UsableCores: 2, UsablePhysical: 2, CPUs: []int{2, 3, 4, 5, 12, 13, 14, 15}, Features: haswell,
				L1d: Cache{32 * kib, 2, 10}, L2: Cache{256 * kib, 2, 10}, L3: Cache{25 * mib, 20, 1},
			},
			// The limit is the parent group's, which only memory.stat shows: 1 GiB, less 700 - 200 MiB.
			Memory: Memory{TotalBytes: 65690628 * kib, AvailableBytes: 524 * mib, LimitBytes: gib},
			Cgroup: Cgroup{Version: 1, QuotaCPUs: 2.5, Cpuset: []int{2, 3, 4, 5, 12, 13, 14, 15}, MemoryLimitBytes: gib, Path: "/docker/4f1c0a"},
			Load:   Load{CPUUtilization: 0.4 / 20, MemoryUtilization: 500.0 / 1024, Load1: 0.4},

			Virtualization: "none", Governor: "powersave", Microcode: "0xb000040", Kernel: "3.10.0-1160.119.1.el7.x86_64", HugePages: "always",
			Warnings: []string{
				"the pressure is unknown: neither the cgroup nor proc/pressure tells",
				"unknown about the machine's condition: smt",
			},
		},
		"laptop-hybrid": {
			CPU: CPU{
				Model: "13th Gen Intel(R) Core(TM) i7-1360P", Vendor: "GenuineIntel", Family: 6, ModelID: 186, Stepping: 2,
				PhysicalCores: 12, LogicalCores: 16, PresentCPUs: 16, ThreadsPerCore: 2, PerformanceCores: 4, EfficiencyCores: 8, NUMANodes: 1,
				UsableCores: 16, UsablePhysical: 12, CPUs: slices.Concat([]int{0, 2, 4, 6}, span(8, 15), []int{1, 3, 5, 7}), Features: alder,
				L1d: Cache{48 * kib, 2, 12}, L2: Cache{1280 * kib, 2, 6}, L3: Cache{18 * mib, 16, 1},
			},
			Memory: Memory{TotalBytes: 15962340 * kib, AvailableBytes: 9123456 * kib, LimitBytes: 15962340 * kib},
			Cgroup: Cgroup{Version: 2, Path: `/user.slice/user-1000.slice/user@1000.service/app.slice/app-terminal\x2d1.scope`},
			Load:   Load{CPUUtilization: 0.05, MemoryUtilization: 1 - 9123456.0/15962340, Load1: 0.8, Pressure: Pressure{Known: true}},

			Virtualization: "none", Governor: "powersave", SMT: "on", Microcode: "0x4129", Kernel: "6.17.4-arch2-1", HugePages: "always",
		},
		"server-arm64": {
			CPU: CPU{
				Model: "Neoverse-V1", Vendor: "ARM", Family: 8, ModelID: 0xd40, Stepping: 0x11,
				PhysicalCores: 16, LogicalCores: 16, PresentCPUs: 16, ThreadsPerCore: 1, PerformanceCores: 16, NUMANodes: 1,
				UsableCores: 9, UsablePhysical: 9, CPUs: span(0, 15), Features: NEON | DotProd | I8MM,
				L1d: Cache{64 * kib, 1, 16}, L2: Cache{mib, 1, 16}, L3: Cache{32 * mib, 16, 1},
			},
			// The slice's 16 GiB bind, of which 2 GiB are used.
			Memory: Memory{TotalBytes: 32138320 * kib, AvailableBytes: 14 * gib, LimitBytes: 16 * gib},
			Cgroup: Cgroup{Version: 2, QuotaCPUs: 9, MemoryLimitBytes: 16 * gib, Path: "/serving.slice/infer.service"},
			Load:   Load{MemoryUtilization: 0.125, Pressure: Pressure{Known: true}},

			Virtualization: "kvm", SMT: "notimplemented", Kernel: "5.15.0-1071-aws", HugePages: "madvise",
			Warnings: []string{"unknown about the machine's condition: governor, microcode"},
		},
		"vm-without-caches": {
			CPU: CPU{
				Model: "Westmere E56xx/L56xx/X56xx (Nehalem-C)", Vendor: "GenuineIntel", Family: 6, ModelID: 44, Stepping: 1,
				PhysicalCores: 4, LogicalCores: 4, PresentCPUs: 4, ThreadsPerCore: 1, PerformanceCores: 4, NUMANodes: 1,
				UsableCores: 3, UsablePhysical: 3, CPUs: []int{1, 2, 3}, Features: westmere,
			},
			Memory: Memory{TotalBytes: 2030560 * kib, AvailableBytes: 1523456 * kib, LimitBytes: 2030560 * kib},
			Cgroup: Cgroup{Version: 1, Cpuset: span(0, 3), Path: "/"},
			Load:   Load{CPUUtilization: 1, MemoryUtilization: 1 - 1523456.0/2030560, Load1: 9.75},

			Virtualization: "vm", Microcode: "0x1", Kernel: "4.19.0-27-amd64", HugePages: "never",
			Warnings: []string{
				"the cache sizes are unknown: sys/devices/system/cpu/cpu*/cache does not tell",
				"the pressure is unknown: neither the cgroup nor proc/pressure tells",
				"unknown about the machine's condition: governor, smt",
			},
		},
		"vm-zen4": {
			CPU: CPU{
				Model: "AMD EPYC", Vendor: "AuthenticAMD", Family: 25, ModelID: 17, Stepping: 1,
				PhysicalCores: 2, LogicalCores: 2, PresentCPUs: 2, ThreadsPerCore: 1, PerformanceCores: 2, NUMANodes: 1,
				UsableCores: 2, UsablePhysical: 2, CPUs: []int{0, 1}, Features: icelake,
				L1d: Cache{32 * kib, 1, 2}, L2: Cache{mib, 1, 2}, L3: Cache{32 * mib, 2, 1},
			},
			Memory: Memory{TotalBytes: 24684084 * kib, AvailableBytes: 24324824 * kib, LimitBytes: 24684084 * kib},
			Cgroup: Cgroup{Version: 1, Cpuset: []int{0, 1}, Path: "/"},
			Load:   Load{CPUUtilization: 0.04, MemoryUtilization: 1 - 24324824.0/24684084, Load1: 0.08, Pressure: Pressure{Known: true}},

			Virtualization: "vm", SMT: "notsupported", Microcode: "0x1000065", Kernel: "6.12.48+deb13-cloud-amd64", HugePages: "madvise",
			Warnings: []string{"unknown about the machine's condition: governor"},
		},
		"desktop-offline-cpus": {
			CPU: CPU{
				Model: "AMD Ryzen 9 5900X 12-Core Processor", Vendor: "AuthenticAMD", Family: 25, ModelID: 33, Stepping: 2,
				PhysicalCores: 9, LogicalCores: 17, PresentCPUs: 24, ThreadsPerCore: 2, PerformanceCores: 9, NUMANodes: 1,
				UsableCores: 17, UsablePhysical: 9, Features: haswell,
				CPUs: []int{0, 2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17, 20, 21, 22, 23},
				L1d:  Cache{32 * kib, 1, 9}, L2: Cache{512 * kib, 1, 9}, L3: Cache{32 * mib, 9, 2},
			},
			Memory: Memory{TotalBytes: 65776340 * kib, AvailableBytes: 60123456 * kib, LimitBytes: 65776340 * kib},
			Cgroup: Cgroup{Version: 2, Path: "/init.scope"},
			Load: Load{CPUUtilization: 1, MemoryUtilization: 1 - 60123456.0/65776340, Load1: 17,
				Pressure: Pressure{Known: true, CPU: Stall{SomePercent: 3.4}, IO: Stall{0.5, 0.5}}},
			Virtualization: "none", Governor: "schedutil", SMT: "on", Microcode: "0xa20120e", Kernel: "6.12.48+deb13-amd64", HugePages: "madvise",
		},
		"board-big-little": {
			CPU: CPU{
				Model: "Cortex-A76 + Cortex-A55", Vendor: "ARM", Family: 8, ModelID: 0xd0b, Stepping: 0x40,
				PhysicalCores: 8, LogicalCores: 8, PresentCPUs: 8, ThreadsPerCore: 1, PerformanceCores: 4, EfficiencyCores: 4, NUMANodes: 1,
				UsableCores: 8, UsablePhysical: 8, CPUs: []int{4, 5, 6, 7, 0, 1, 2, 3}, Features: NEON | DotProd,
				L1d: Cache{64 * kib, 1, 8}, L2: Cache{512 * kib, 1, 8}, L3: Cache{3 * mib, 8, 1},
			},
			Memory: Memory{TotalBytes: 16200112 * kib, AvailableBytes: 14123456 * kib, LimitBytes: 16200112 * kib},
			Load:   Load{CPUUtilization: 0.25, MemoryUtilization: 1 - 14123456.0/16200112, Load1: 2},

			Governor: "ondemand", Kernel: "6.1.99-rockchip", HugePages: "madvise",
			Warnings: []string{
				"no cgroup is mounted according to proc/self/mountinfo: quota, cpuset and memory limit are unknown",
				"the pressure is unknown: neither the cgroup nor proc/pressure tells",
				"unknown about the machine's condition: smt, microcode, virtualization",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want.OS, want.Arch = "linux", "amd64"
			if arch := archOf[name]; arch != "" {
				want.Arch = arch
			}
			got := read(t, machine(t, name), Inputs{Arch: want.Arch})
			if diff := cmp.Diff(want, got, closeEnough, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// closeEnough lets the last bits of a quotient differ.
var closeEnough = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })

func TestReadInputsOverrule(t *testing.T) {
	h := read(t, machine(t, "server-2-sockets-64-cores"), Inputs{
		Arch: "amd64", Features: alder, Disabled: AVX, Affinity: []int{70, 6, 40, 104}, Hypervisor: "xen",
	})
	if want := SSE42; h.CPU.Features != want {
		t.Errorf("features %v, want %v: what builds on AVX goes with it", h.CPU.Features, want)
	}
	if want := []int{6, 40, 70, 104}; !slices.Equal(h.CPU.CPUs, want) || h.CPU.UsableCores != 4 || h.CPU.UsablePhysical != 2 {
		t.Errorf("CPUs %v, usable %d, physical %d; want %v, 4, 2", h.CPU.CPUs, h.CPU.UsableCores, h.CPU.UsablePhysical, want)
	}
	if h.Virtualization != "xen" {
		t.Errorf("virtualization %q, want xen", h.Virtualization)
	}
}

// The affinity that allows only one of two SMT siblings, and the second one at that, still names a core.
func TestReadAffinityOnSecondThreads(t *testing.T) {
	h := read(t, machine(t, "laptop-hybrid"), Inputs{Arch: "amd64", Affinity: []int{15, 3, 1, 0}})
	if want := []int{0, 3, 15, 1}; !slices.Equal(h.CPU.CPUs, want) || h.CPU.UsablePhysical != 3 {
		t.Errorf("CPUs %v, %d physical; want %v, 3", h.CPU.CPUs, h.CPU.UsablePhysical, want)
	}
}

// Within each round, node 0 comes before node 1 even where CPU numbers alternate between the sockets.
func TestReadOrdersByNode(t *testing.T) {
	tree := fstest.MapFS{}
	for name, text := range map[string]string{
		"sys/devices/system/cpu/online":                       "0-7",
		"sys/devices/system/node/online":                      "0-2",
		"sys/devices/system/node/node0/cpulist":               "0,2,4,6",
		"sys/devices/system/node/node1/cpulist":               "1,3,5,7",
		"sys/devices/system/node/node2/cpulist":               "", // memory only
		"sys/devices/system/cpu/cpu0/topology/core_cpus_list": "0,4",
		"sys/devices/system/cpu/cpu1/topology/core_cpus_list": "1,5",
		"sys/devices/system/cpu/cpu2/topology/core_cpus_list": "2,6",
		"sys/devices/system/cpu/cpu3/topology/core_cpus_list": "3,7",
	} {
		tree[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	h := read(t, tree, Inputs{Arch: "amd64"})
	if want := []int{0, 2, 1, 3, 4, 6, 5, 7}; !slices.Equal(h.CPU.CPUs, want) || h.CPU.NUMANodes != 2 {
		t.Errorf("CPUs %v on %d nodes, want %v on 2", h.CPU.CPUs, h.CPU.NUMANodes, want)
	}
}

// Without sysfs, proc/cpuinfo tells the cores by package and core number.
func TestReadCoresFromCPUInfo(t *testing.T) {
	info := "processor: 0\nphysical id: 0\ncore id: 0\n\nprocessor: 1\nphysical id: 0\ncore id: 1\n\n" +
		"processor: 2\nphysical id: 1\ncore id: 0\n\nprocessor: 3\nphysical id: 0\ncore id: 0\n"
	h := read(t, fstest.MapFS{"proc/cpuinfo": {Data: []byte(info)}}, Inputs{Arch: "amd64"})
	if want := []int{0, 1, 2, 3}; h.CPU.PhysicalCores != 3 || h.CPU.LogicalCores != 4 || h.CPU.NUMANodes != 0 || !slices.Equal(h.CPU.CPUs, want) {
		t.Errorf("%d cores, %d CPUs, %d nodes, order %v; want 3, 4, 0 (unknown), %v",
			h.CPU.PhysicalCores, h.CPU.LogicalCores, h.CPU.NUMANodes, h.CPU.CPUs, want)
	}
}

func TestReadEmptyTree(t *testing.T) {
	h := read(t, fstest.MapFS{}, Inputs{Arch: "amd64"})
	want := Host{
		OS: "linux", Arch: "amd64",
		CPU: CPU{PhysicalCores: 1, LogicalCores: 1, PresentCPUs: 1, ThreadsPerCore: 1, PerformanceCores: 1, UsableCores: 1, UsablePhysical: 1, CPUs: []int{0}},
		Warnings: []string{
			"the cgroup is unknown: proc/self/cgroup cannot be read",
			"the CPU's name is unknown: proc/cpuinfo cannot be read",
			"the online CPUs are unknown: neither sys/devices/system/cpu/online nor proc/cpuinfo tells, 1 is taken",
			"which CPUs share a core is unknown for CPUs 0: each is taken for a core",
			"the NUMA nodes are unknown: sys/devices/system/node is missing",
			"the cache sizes are unknown: sys/devices/system/cpu/cpu*/cache does not tell",
			"the memory's size is unknown: proc/meminfo does not tell MemTotal and MemAvailable",
			"the load is unknown: proc/loadavg does not tell",
			"the pressure is unknown: neither the cgroup nor proc/pressure tells",
			"unknown about the machine's condition: governor, smt, microcode, kernel, huge_pages, virtualization",
		},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Each malformed file costs one fact and one warning; the rest of the machine stays known.
func TestReadMalformedFiles(t *testing.T) {
	for _, c := range []struct{ name, text, warning string }{
		{"sys/devices/system/cpu/online", "0-4294967295", `sys/devices/system/cpu/online is ignored: "4294967295" is not a CPU number`},
		{"sys/devices/system/cpu/present", "7-0", "runs backwards"},
		{"sys/devices/system/node/node0/cpulist", "a,b", "sys/devices/system/node/node0/cpulist is ignored"},
		{"sys/devices/system/cpu/cpu0/cache/index0/level", "one", "index0/level is ignored"},
		{"sys/fs/cgroup/cpu.max", "-150000 100000", "the CPU quota of sys/fs/cgroup is ignored"},
		{"sys/fs/cgroup/cpu.max", "150000 0", "its period"},
		{"sys/fs/cgroup/cpu.max", "\x00\xff", "the CPU quota of sys/fs/cgroup is ignored"},
		{"sys/fs/cgroup/memory.max", "-1", "the memory limit in sys/fs/cgroup/memory.max is ignored"},
		{"sys/fs/cgroup/memory.max", "99999999999999999999999", "the memory limit in sys/fs/cgroup/memory.max is ignored"},
		{"sys/fs/cgroup/cpuset.cpus.effective", "0-", "cpuset.cpus.effective is ignored"},
		{"sys/fs/cgroup/cpuset.cpus.effective", "99", "the CPU list 99 is ignored: none of it is among the CPUs 0-7"},
		{"proc/self/status", "Cpus_allowed_list:\t0-99999", "the affinity in proc/self/status is ignored"},
		{"proc/loadavg", "NaN 0 0", "the load is unknown"},
		{"proc/loadavg", "-3 0 0", "the load is unknown"},
		{"proc/meminfo", "MemTotal: -5 kB\nMemAvailable: x kB", "the memory's size is unknown"},
		{"sys/fs/cgroup/io.pressure", "some avg10=NaN", "the pressure is unknown"},
		{"proc/self/mountinfo", strings.Repeat("1 2 3 - cgroup2\n", 100), "no cgroup is mounted"},
	} {
		t.Run(c.name+"="+c.text[:min(12, len(c.text))], func(t *testing.T) {
			tree := machine(t, "container-quota-1.5")
			tree[c.name] = &fstest.MapFile{Data: []byte(c.text)}
			h := read(t, tree, Inputs{Arch: "amd64"})
			if !slices.ContainsFunc(h.Warnings, func(w string) bool { return strings.Contains(w, c.warning) }) {
				t.Errorf("no warning with %q in %q", c.warning, h.Warnings)
			}
			if h.CPU.LogicalCores < 2 || h.CPU.UsableCores < 1 || h.CPU.UsableCores > 8 || h.CPU.Model != "AMD EPYC 7R13 Processor" {
				t.Errorf("the rest is lost: %+v", h.CPU)
			}
		})
	}
}

// A container behind LXCFS sees its own share in proc; the machine stays visible in sysfs.
func TestReadBehindLXCFS(t *testing.T) {
	tree := machine(t, "server-2-sockets-64-cores")
	bare := read(t, tree, Inputs{Arch: "amd64"})
	tree["proc/meminfo"] = &fstest.MapFile{Data: []byte("MemTotal: 4194304 kB\nMemAvailable: 4000000 kB\n")}
	h := read(t, tree, Inputs{Arch: "amd64", Affinity: []int{0, 1}})
	if h.Fingerprint() != bare.Fingerprint() {
		t.Errorf("another machine:\n%s", cmp.Diff(bare.Identity(), h.Identity()))
	}
	if want := uint64(4000000 * kib); h.Memory.AvailableBytes != want {
		t.Errorf("available %d, want the container's %d", h.Memory.AvailableBytes, want)
	}
}

func TestReadMisuse(t *testing.T) {
	if _, err := Read(nil, Inputs{Arch: "amd64"}); err == nil {
		t.Error("no error without a file system")
	}
	if _, err := Read(fstest.MapFS{}, Inputs{}); err == nil || !strings.Contains(err.Error(), "GOARCH") {
		t.Errorf("error %v, want one that asks for a GOARCH", err)
	}
}

func TestLocalDisabled(t *testing.T) {
	bare, err := Local(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(disableVariable, "avx2, cuda,neon")
	h, err := Local(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if want := bare.CPU.Features.Without(AVX2 | NEON); h.CPU.Features != want {
		t.Errorf("features %v, want %v", h.CPU.Features, want)
	}
	t.Setenv(disableVariable, "avx2,avx3")
	if _, err = Local(context.Background()); err == nil || !strings.Contains(err.Error(), `"avx3" is none of sse42, avx,`) {
		t.Errorf("error %v, want one that lists the words", err)
	}
}

func TestLocalCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Local(ctx); !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("error %v", err)
	}
}
