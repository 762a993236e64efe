package probe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CPU is the processor: what the machine has, and the part of it that this process may use.
type CPU struct {
	Model  string `json:"model"`
	Vendor string `json:"vendor"` // "GenuineIntel", "AuthenticAMD", "ARM", …

	// Family, ModelID and Stepping are what CPUID says. On ARM they are the architecture version, the part number and
	// 16 x variant + revision of the first CPU that is not an efficiency core's.
	Family   int `json:"family"`
	ModelID  int `json:"model_id"`
	Stepping int `json:"stepping"`

	PhysicalCores  int `json:"physical_cores"` // cores with an online CPU
	LogicalCores   int `json:"logical_cores"`  // online logical CPUs
	PresentCPUs    int `json:"present_cpus"`   // logical CPUs plugged in, online or not
	ThreadsPerCore int `json:"threads_per_core"`

	// PerformanceCores and EfficiencyCores add up to PhysicalCores; where the kernel does not tell them apart, all are
	// performance cores.
	PerformanceCores int `json:"performance_cores"`
	EfficiencyCores  int `json:"efficiency_cores"`
	NUMANodes        int `json:"numa_nodes"` // nodes that have CPUs

	// UsableCores is how many logical CPUs this process may keep busy at once: those that affinity and cpuset allow,
	// at most as many as the cgroup's quota rounded down, at least 1. UsablePhysical counts one per physical core.
	UsableCores    int `json:"usable_cores"`
	UsablePhysical int `json:"usable_physical_cores"`

	// CPUs lists the allowed logical CPUs in the order in which workers should be pinned: one of each physical core
	// first, performance cores before efficiency cores and node by node, then the SMT siblings in the same order. It
	// is not cut by the quota.
	CPUs []int `json:"cpus"`

	// Features is what the CPU has and the operating system has enabled, less what was switched off by
	// BITNET_AUTOTUNE_DISABLE.
	Features Feature `json:"features"`

	L1d Cache `json:"l1d"`
	L2  Cache `json:"l2"`
	L3  Cache `json:"l3"`
}

// MarshalJSON writes the fields under their tags and the sizes of the caches also flat, as l1d_bytes and so on.
func (c CPU) MarshalJSON() ([]byte, error) {
	type fields CPU
	return json.Marshal(struct {
		fields
		L1dBytes int64 `json:"l1d_bytes"`
		L2Bytes  int64 `json:"l2_bytes"`
		L3Bytes  int64 `json:"l3_bytes"`
	}{fields(c), c.L1d.Bytes, c.L2.Bytes, c.L3.Bytes})
}

func readCPU(t *tree, in Inputs, group Cgroup) (CPU, cpuinfo) {
	info := readCPUInfo(t)
	affinity := in.Affinity
	if affinity == nil {
		affinity = info.affinity(t)
	}
	top := readTopology(t, info, affinity)
	c := CPU{
		PhysicalCores:    top.cores(top.online),
		LogicalCores:     len(top.online),
		PresentCPUs:      top.present,
		ThreadsPerCore:   top.threadsPerCore(),
		PerformanceCores: top.performance(),
		NUMANodes:        top.nodes,
		CPUs:             top.order(allowed(t, top.online, affinity, group.Cpuset)),
		Features:         in.Features,
	}
	c.EfficiencyCores = c.PhysicalCores - c.PerformanceCores
	if c.Features == 0 {
		c.Features = info.features()
	}
	c.Features = c.Features.Without(in.Disabled)
	machine := top.order(top.online)
	info.identify(t, &c, machine[0])
	c.L1d, c.L2, c.L3 = readCaches(t, machine)
	c.UsableCores = cut(len(c.CPUs), group.QuotaCPUs)
	c.UsablePhysical = cut(top.cores(c.CPUs), group.QuotaCPUs)
	return c, info
}

// allowed returns the online CPUs that the affinity and the cpuset leave; where they contradict each other, the
// affinity alone, which is what the kernel enforces.
func allowed(t *tree, online, affinity, cpuset []int) []int {
	cpus := online
	for _, limit := range [][]int{affinity, cpuset} {
		if limit == nil {
			continue
		}
		both := intersect(cpus, slices.Sorted(slices.Values(limit)))
		if len(both) == 0 {
			t.warn("the CPU list %s is ignored: none of it is among the CPUs %s", formatList(limit), formatList(cpus))
			continue
		}
		cpus = both
	}
	return cpus
}

// cut returns n, at most the quota rounded down, at least 1; a quota of 0 is none.
func cut(n int, quota float64) int {
	if quota > 0 && quota < float64(n) {
		n = int(quota)
	}
	return max(1, n)
}

// cpuinfo is what is needed of proc/cpuinfo.
type cpuinfo struct {
	cpus  []int                     // ascending
	entry map[int]map[string]string // CPU -> key -> value
}

func readCPUInfo(t *tree) cpuinfo {
	info := cpuinfo{entry: make(map[int]map[string]string)}
	text, ok := t.text("proc/cpuinfo")
	if !ok {
		t.warn("the CPU's name is unknown: proc/cpuinfo cannot be read")
		return info
	}
	var entry map[string]string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if key == "processor" {
			entry = nil
			if cpu, err := parseCPU(value); err == nil {
				entry = make(map[string]string)
				info.entry[cpu] = entry
				info.cpus = append(info.cpus, cpu)
			}
		} else if entry != nil && key != "" {
			entry[key] = value
		}
	}
	slices.Sort(info.cpus)
	info.cpus = slices.Compact(info.cpus)
	return info
}

// get returns a value of cpu's entry, or of the first entry that has one.
func (info cpuinfo) get(cpu int, key string) string {
	if value := info.entry[cpu][key]; value != "" {
		return tidy(value)
	}
	for _, other := range info.cpus {
		if value := info.entry[other][key]; value != "" {
			return tidy(value)
		}
	}
	return ""
}

func (info cpuinfo) number(cpu int, key string) int {
	n, err := strconv.ParseInt(info.get(cpu, key), 0, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int(n)
}

// words returns the flags of the first entry as a set; ARM calls them Features.
func (info cpuinfo) words() map[string]bool {
	words := make(map[string]bool)
	for _, cpu := range info.cpus {
		for _, key := range []string{"flags", "Features"} {
			for _, word := range strings.Fields(info.entry[cpu][key]) {
				words[word] = true
			}
		}
		if len(words) > 0 {
			break
		}
	}
	return words
}

// flagsOf lists the flags of proc/cpuinfo that each extension takes. The kernel clears the flags of what it has not
// enabled in XCR0.
var flagsOf = map[Feature][]string{
	SSE42:      {"sse4_2"},
	AVX:        {"avx"},
	AVX2:       {"avx2"},
	AVXVNNI:    {"avx_vnni"},
	AVX512:     {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
	AVX512VNNI: {"avx512_vnni"},
	AVX512VBMI: {"avx512vbmi"},
	NEON:       {"asimd"},
	DotProd:    {"asimddp"},
	I8MM:       {"i8mm"},
}

func (info cpuinfo) features() Feature {
	words := info.words()
	var have Feature
	for feature, flags := range flagsOf {
		if !slices.ContainsFunc(flags, func(flag string) bool { return !words[flag] }) {
			have |= feature
		}
	}
	return have.Without(^have)
}

// cores maps the CPUs of unknown to cores by package and core number, and reports whether all have those.
func (info cpuinfo) cores(core map[int]int, unknown []int) bool {
	first := make(map[[2]string]int)
	for _, cpu := range unknown {
		id := [2]string{info.entry[cpu]["physical id"], info.entry[cpu]["core id"]}
		if id[1] == "" {
			return false
		}
		if _, ok := first[id]; !ok {
			first[id] = cpu
		}
		core[cpu] = first[id]
	}
	return true
}

// affinity returns the CPUs that the kernel lets this process run on; nil = unknown.
func (info cpuinfo) affinity(t *tree) []int {
	status, _ := t.text("proc/self/status")
	for line := range strings.Lines(status) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			cpus, err := parseList(list)
			if err != nil {
				t.warn("the affinity in proc/self/status is ignored: %v", err)
			}
			return cpus
		}
	}
	return nil
}

// identify fills in the names and numbers of the CPU called cpu.
func (info cpuinfo) identify(t *tree, c *CPU, cpu int) {
	if info.get(cpu, "CPU implementer") != "" {
		info.identifyARM(c, cpu)
	} else {
		c.Model, c.Vendor = info.get(cpu, "model name"), info.get(cpu, "vendor_id")
		c.Family, c.ModelID, c.Stepping = info.number(cpu, "cpu family"), info.number(cpu, "model"), info.number(cpu, "stepping")
	}
	if c.Model == "" && len(info.cpus) > 0 {
		t.warn("the CPU's name is unknown: proc/cpuinfo does not tell")
	}
}

// identifyARM names the CPU after its part numbers: ARM kernels print no model name.
func (info cpuinfo) identifyARM(c *CPU, cpu int) {
	implementer := info.number(cpu, "CPU implementer")
	c.Vendor = armVendors[implementer]
	if c.Vendor == "" {
		c.Vendor = fmt.Sprintf("implementer %#x", implementer)
	}
	c.Family, c.ModelID = info.number(cpu, "CPU architecture"), info.number(cpu, "CPU part")
	c.Stepping = 16*info.number(cpu, "CPU variant") + info.number(cpu, "CPU revision")

	parts := []string{armPart(implementer, c.ModelID)}
	for _, other := range info.cpus {
		name := armPart(info.number(other, "CPU implementer"), info.number(other, "CPU part"))
		if !slices.Contains(parts, name) {
			parts = append(parts, name)
		}
	}
	c.Model = tidy(strings.Join(parts, " + "))
}

// armVendors and armParts name what users meet; the numbers are those of the MIDR_EL1 register, as listed in Linux,
// arch/arm64/include/asm/cputype.h.
var armVendors = map[int]string{0x41: "ARM", 0x48: "HiSilicon", 0x4e: "NVIDIA", 0x51: "Qualcomm", 0x61: "Apple", 0xc0: "Ampere"}

var armParts = map[[2]int]string{
	{0x41, 0xd03}: "Cortex-A53",
	{0x41, 0xd05}: "Cortex-A55",
	{0x41, 0xd08}: "Cortex-A72",
	{0x41, 0xd0b}: "Cortex-A76",
	{0x41, 0xd0c}: "Neoverse-N1",
	{0x41, 0xd40}: "Neoverse-V1",
	{0x41, 0xd41}: "Cortex-A78",
	{0x41, 0xd44}: "Cortex-X1",
	{0x41, 0xd49}: "Neoverse-N2",
	{0x41, 0xd4f}: "Neoverse-V2",
	{0x41, 0xd84}: "Neoverse-V3",
	{0x41, 0xd8e}: "Neoverse-N3",
	{0x48, 0xd01}: "Kunpeng-920",
	{0xc0, 0xac3}: "Ampere-1",
	{0xc0, 0xac4}: "Ampere-1A",
}

func armPart(implementer, part int) string {
	if name, ok := armParts[[2]int{implementer, part}]; ok {
		return name
	}
	return fmt.Sprintf("part %#x of %#x", part, implementer)
}
