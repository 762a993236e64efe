package probe

import (
	"fmt"
	"strings"
)

// readCondition fills in the facts that can shift a measurement.
func readCondition(t *tree, h *Host, info cpuinfo) {
	cpu := h.CPU.CPUs[0]
	h.Governor = t.value(fmt.Sprintf("%s/cpu%d/cpufreq/scaling_governor", cpuDir, cpu))
	h.SMT = t.value(cpuDir + "/smt/control")
	h.Microcode = info.get(cpu, "microcode")
	h.Kernel = t.value("proc/sys/kernel/osrelease")
	h.HugePages = bracketed(t.value("sys/kernel/mm/transparent_hugepage/enabled"))

	var unknown []string
	for _, f := range h.Condition() {
		if f.Value == "" {
			unknown = append(unknown, f.Name)
		}
	}
	if len(unknown) > 0 {
		t.warn("unknown about the machine's condition: %s", strings.Join(unknown, ", "))
	}
}

// bracketed returns the word in brackets, which is how sysfs marks the choice in force: "always [madvise] never".
func bracketed(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, ok := strings.Cut(s, "]")
	if !ok {
		return ""
	}
	return s
}
