package probe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Field is one part of a key: a fact under a persistent name.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"` // "" or "0" = unknown
}

// Identity lists what makes the machine another one to a tuner: what was measured under another identity is no
// evidence here. Neither names, serial numbers, load, limits nor revisions of software are in it. Online or not does
// not count for logical CPUs, so that SMT switched off at run time is the same machine in another condition. A feature
// that was switched off counts as not there.
func (h Host) Identity() []Field {
	c := h.CPU
	return []Field{
		{"os", h.OS},
		{"arch", h.Arch},
		{"cpu_vendor", c.Vendor},
		{"cpu_model", c.Model},
		{"cpu_family", strconv.Itoa(c.Family)},
		{"cpu_model_id", strconv.Itoa(c.ModelID)},
		{"cpu_stepping", strconv.Itoa(c.Stepping)},
		{"features", c.Features.String()},
		{"present_cpus", strconv.Itoa(c.PresentCPUs)},
		{"performance_cores", strconv.Itoa(c.PerformanceCores)},
		{"efficiency_cores", strconv.Itoa(c.EfficiencyCores)},
		{"numa_nodes", strconv.Itoa(c.NUMANodes)},
		{"l1d", c.L1d.String()},
		{"l2", c.L2.String()},
		{"l3", c.L3.String()},
		{"memory_class_bytes", strconv.FormatUint(sizeClass(h.Memory.TotalBytes), 10)},
	}
}

// Envelope lists what this process was given of the machine. Under another envelope, what was learned is clipped to
// the new bounds; it is not lost.
func (h Host) Envelope() []Field {
	return []Field{
		{"quota_cpus", strconv.FormatFloat(h.Cgroup.QuotaCPUs, 'g', -1, 64)},
		{"cpus", formatList(h.CPU.CPUs)},
		{"usable_cores", strconv.Itoa(h.CPU.UsableCores)},
		{"usable_physical_cores", strconv.Itoa(h.CPU.UsablePhysical)},
		{"memory_limit_bytes", strconv.FormatUint(h.Memory.LimitBytes, 10)},
	}
}

// Condition lists what can shift a measurement on the same machine: a change widens the doubt and is a reason to
// check again.
func (h Host) Condition() []Field {
	return []Field{
		{"governor", h.Governor},
		{"smt", h.SMT},
		{"microcode", h.Microcode},
		{"kernel", h.Kernel},
		{"huge_pages", h.HugePages},
		{"virtualization", h.Virtualization},
	}
}

// Fingerprint is that of Identity.
func (h Host) Fingerprint() string { return Fingerprint(h.Identity()) }

// Fingerprint is the first 128 bits of the SHA-256 of an identity, as 32 hexadecimal digits.
func Fingerprint(identity []Field) string {
	var b strings.Builder
	for _, f := range identity {
		fmt.Fprintf(&b, "%s=%q\n", f.Name, f.Value)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:16])
}
