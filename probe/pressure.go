package probe

import (
	"strconv"
	"strings"
)

// Pressure is Linux's pressure stall information of this process's cgroup or, where that has none, of the machine.
type Pressure struct {
	Known  bool  `json:"known"` // false: the kernel does not tell, and all is 0
	CPU    Stall `json:"cpu"`
	Memory Stall `json:"memory"`
	IO     Stall `json:"io"`
}

// Stall is the share of the last 10 seconds, in percent, during which some task or all tasks waited for a resource.
type Stall struct {
	SomePercent float64 `json:"some_avg10_percent"`
	FullPercent float64 `json:"full_avg10_percent"`
}

func readPressure(t *tree, groupDir string) Pressure {
	p := Pressure{Known: true}
	for _, resource := range []struct {
		name  string
		stall *Stall
	}{{"cpu", &p.CPU}, {"memory", &p.Memory}, {"io", &p.IO}} {
		text, ok := "", false
		if groupDir != "" {
			text, ok = t.text(groupDir + "/" + resource.name + ".pressure")
		}
		if !ok {
			text, _ = t.text("proc/pressure/" + resource.name)
		}
		*resource.stall, ok = parseStall(text)
		p.Known = p.Known && ok
	}
	if !p.Known {
		t.warn("the pressure is unknown: neither the cgroup nor proc/pressure tells")
		return Pressure{}
	}
	return p
}

// parseStall parses a pressure file. Old kernels print no "full" line for the CPU; "some" is always there.
func parseStall(text string) (s Stall, ok bool) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		value, isAvg10 := strings.CutPrefix(fields[1], "avg10=")
		percent, err := strconv.ParseFloat(value, 64)
		if !isAvg10 || err != nil || !(percent >= 0 && percent <= 100) {
			continue
		}
		switch fields[0] {
		case "some":
			s.SomePercent, ok = percent, true
		case "full":
			s.FullPercent = percent
		}
	}
	return s, ok
}
