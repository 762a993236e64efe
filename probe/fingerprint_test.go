package probe

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// set replaces files of a tree: name, text, name, text, …
func set(files ...string) func(fstest.MapFS, *Inputs) {
	return func(tree fstest.MapFS, _ *Inputs) {
		for i := 0; i < len(files); i += 2 {
			tree[files[i]] = &fstest.MapFile{Data: []byte(files[i+1] + "\n")}
		}
	}
}

// replace changes a text wherever it stands in a file.
func replace(name, from, to string) func(fstest.MapFS, *Inputs) {
	return func(tree fstest.MapFS, _ *Inputs) {
		before := string(tree[name].Data)
		after := strings.ReplaceAll(before, from, to)
		if after == before {
			panic("replace: nothing to replace in " + name)
		}
		tree[name] = &fstest.MapFile{Data: []byte(after)}
	}
}

const group = "sys/fs/cgroup/"

var sameMachine = map[string]func(fstest.MapFS, *Inputs){
	"nothing changed":  func(fstest.MapFS, *Inputs) {},
	"load":             set("proc/loadavg", "99.00 50.00 1.00 9/9 9"),
	"pressure":         set(group+"cpu.pressure", "some avg10=99.00 avg60=0.00 avg300=0.00 total=0"),
	"quota lifted":     set(group+"cpu.max", "max 100000"),
	"quota lowered":    set(group+"cpu.max", "50000 100000"),
	"cpuset":           set(group+"cpuset.cpus.effective", "2-3"),
	"memory limit":     set(group+"memory.max", "1073741824"),
	"available memory": replace("proc/meminfo", "MemAvailable:   21234567", "MemAvailable:   1"),
	"reserved memory": func(tree fstest.MapFS, in *Inputs) {
		replace("proc/meminfo", "32391140", "32291140")(tree, in)
		replace("sys/devices/system/node/node0/meminfo", "32391140", "32291140")(tree, in)
	},
	"hostname":     set("proc/sys/kernel/hostname", "other"),
	"serial":       set("sys/class/dmi/id/product_serial", "4711"),
	"container id": set("proc/self/cgroup", "0::/docker/4711"),
	"kernel":       set("proc/sys/kernel/osrelease", "7.0.0"),
	"microcode":    replace("proc/cpuinfo", "0xa0011db", "0xa0011dc"),
	"clock":        replace("proc/cpuinfo", "2649.998", "3599.001"),
	"governor":     set("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
	"huge pages":   set("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
	"affinity":     func(_ fstest.MapFS, in *Inputs) { in.Affinity = []int{5} },
	"hypervisor":   func(_ fstest.MapFS, in *Inputs) { in.Hypervisor = "xen" },
	"SMT off": func(tree fstest.MapFS, in *Inputs) {
		set("sys/devices/system/cpu/online", "0,2,4,6", "sys/devices/system/cpu/smt/control", "off")(tree, in)
		for name, file := range tree {
			if strings.HasSuffix(name, "core_cpus_list") || strings.HasSuffix(name, "shared_cpu_list") {
				core, _, _ := strings.Cut(string(file.Data), "-")
				if strings.Contains(name, "index3") {
					core = "0,2,4,6"
				}
				set(name, strings.TrimSpace(core))(tree, in)
			}
		}
	},
}

var otherMachine = map[string]func(fstest.MapFS, *Inputs){
	"model name":    replace("proc/cpuinfo", "7R13", "7R32"),
	"family":        replace("proc/cpuinfo", "cpu family\t: 25", "cpu family\t: 26"),
	"model number":  replace("proc/cpuinfo", "model\t: 1\n", "model\t: 17\n"),
	"stepping":      replace("proc/cpuinfo", "stepping\t: 1", "stepping\t: 2"),
	"fewer flags":   replace("proc/cpuinfo", " avx2 ", " "),
	"more flags":    replace("proc/cpuinfo", " avx2 ", " avx2 avx_vnni "),
	"feature off":   func(_ fstest.MapFS, in *Inputs) { in.Disabled = AVX },
	"feature given": func(_ fstest.MapFS, in *Inputs) { in.Features = icelake },
	"L1d size":      set("sys/devices/system/cpu/cpu0/cache/index0/size", "48K"),
	"L2 size":       set("sys/devices/system/cpu/cpu0/cache/index2/size", "1024K"),
	"L3 size":       set("sys/devices/system/cpu/cpu0/cache/index3/size", "32768K"),
	"L3 sharing":    set("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-3"),
	"more CPUs":     set("sys/devices/system/cpu/present", "0-15"),
	"core offline":  set("sys/devices/system/cpu/online", "0-5"),
	"P and E cores": set("sys/devices/cpu_core/cpus", "0-3", "sys/devices/cpu_atom/cpus", "4-7"),
	"NUMA":          set("sys/devices/system/node/online", "0-1", "sys/devices/system/node/node0/cpulist", "0-3", "sys/devices/system/node/node1/cpulist", "4-7"),
	"twice the RAM": func(tree fstest.MapFS, in *Inputs) {
		replace("proc/meminfo", "32391140", "64782280")(tree, in)
	},
	"architecture":     func(_ fstest.MapFS, in *Inputs) { in.Arch = "arm64" },
	"operating system": func(_ fstest.MapFS, in *Inputs) { in.OS = "android" },
}

func changed(t *testing.T, change func(fstest.MapFS, *Inputs)) Host {
	t.Helper()
	tree, in := machine(t, "container-quota-1.5"), Inputs{Arch: "amd64"}
	change(tree, &in)
	return read(t, tree, in)
}

func TestFingerprintOfTheSameMachine(t *testing.T) {
	want := changed(t, sameMachine["nothing changed"])
	for name, change := range sameMachine {
		if got := changed(t, change); got.Fingerprint() != want.Fingerprint() {
			t.Errorf("%s: another fingerprint\n%s", name, cmp.Diff(want.Identity(), got.Identity()))
		}
	}
}

func TestFingerprintOfAnotherMachine(t *testing.T) {
	seen := map[string]string{changed(t, sameMachine["nothing changed"]).Fingerprint(): "nothing changed"}
	for name, change := range otherMachine {
		got := changed(t, change).Fingerprint()
		if other, ok := seen[got]; ok {
			t.Errorf("%s: the same fingerprint as %s", name, other)
		}
		seen[got] = name
	}
}

// The text is pinned: a change of it forgets what every installation has learned.
func TestFingerprintGolden(t *testing.T) {
	got := changed(t, sameMachine["nothing changed"]).Fingerprint()
	if want := "c976459a2983a5779173c3202e577a92"; got != want || !regexp.MustCompile("^[0-9a-f]{32}$").MatchString(got) {
		t.Errorf("%s, want %s; if the identity was changed on purpose, say so in CHANGELOG.md", got, want)
	}
}

func TestEnvelopeAndCondition(t *testing.T) {
	h := changed(t, sameMachine["nothing changed"])
	want := []Field{{"quota_cpus", "1.5"}, {"cpus", "0-7"}, {"usable_cores", "1"}, {"usable_physical_cores", "1"}, {"memory_limit_bytes", "4294967296"}}
	if diff := cmp.Diff(want, h.Envelope()); diff != "" {
		t.Errorf("envelope (-want +got)\n%s", diff)
	}
	want = []Field{{"governor", ""}, {"smt", "on"}, {"microcode", "0xa0011db"}, {"kernel", "6.1.112-122.189.amzn2023.x86_64"},
		{"huge_pages", "always"}, {"virtualization", "kvm"}}
	if diff := cmp.Diff(want, h.Condition()); diff != "" {
		t.Errorf("condition (-want +got)\n%s", diff)
	}
}

// No serial number that a machine tells leaves this package.
func TestHostKeepsSerialsOut(t *testing.T) {
	tree := machine(t, "board-big-little")
	if !strings.Contains(string(tree["proc/cpuinfo"].Data), "0a1b2c3d4e5f6071") {
		t.Fatal("the tree has no serial number")
	}
	data, err := json.Marshal(read(t, tree, Inputs{Arch: "arm64"}))
	if err != nil || strings.Contains(string(data), "0a1b2c3d4e5f6071") {
		t.Errorf("%v: %s", err, data)
	}
}
