package probe

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The names of the probe document stand where users look for them, also where a command adds its own fields.
func TestHostJSON(t *testing.T) {
	h := read(t, machine(t, "container-quota-1.5"), Inputs{Arch: "amd64"})
	data, err := json.Marshal(struct {
		Fingerprint string `json:"fingerprint"`
		Host
	}{h.Fingerprint(), h})
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"fingerprint":                          h.Fingerprint(),
		"cpu model":                            "AMD EPYC 7R13 Processor",
		"cpu vendor":                           "AuthenticAMD",
		"cpu physical_cores":                   4.0,
		"cpu logical_cores":                    8.0,
		"cpu usable_cores":                     1.0,
		"cpu features":                         []any{"sse42", "avx", "avx2"},
		"cpu l1d_bytes":                        32768.0,
		"cpu l2_bytes":                         524288.0,
		"cpu l3_bytes":                         16777216.0,
		"cpu numa_nodes":                       1.0,
		"memory total_bytes":                   32391140.0 * kib,
		"memory limit_bytes":                   4.0 * gib,
		"load cpu_utilization":                 0.75,
		"load pressure cpu some_avg10_percent": 62.5,
		"cgroup quota_cpus":                    1.5,
	} {
		var got any = document
		for name := range strings.FieldsSeq(path) {
			got = got.(map[string]any)[name]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", path, diff)
		}
	}
	var back Host
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, back); diff != "" {
		t.Errorf("read back (-want +got)\n%s", diff)
	}
}

// What is not in the table still has a name that tells machines apart.
func TestUnknownARMPart(t *testing.T) {
	tree := machine(t, "server-arm64")
	text := strings.NewReplacer("0x41", "0x6d", "0xd40", "0xd49").Replace(string(tree["proc/cpuinfo"].Data))
	set("proc/cpuinfo", text)(tree, nil)
	h := read(t, tree, Inputs{Arch: "arm64"})
	if h.CPU.Vendor != "implementer 0x6d" || h.CPU.Model != "part 0xd49 of 0x6d" {
		t.Errorf("vendor %q, model %q", h.CPU.Vendor, h.CPU.Model)
	}
}

func TestParseCacheSize(t *testing.T) {
	for in, want := range map[string]int64{"48K": 48 * kib, "1280K": 1280 * kib, "32M": 32 * mib, "512": 512, "": 0, "K": 0, "-1K": 0, "x": 0, "99999999999999M": 0} {
		if got := parseCacheSize(in); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}
