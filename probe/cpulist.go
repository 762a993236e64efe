package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What is believed of a list: Linux is built for at most 8192 CPUs, every second of which is a list of 19 KiB.
const (
	maxCPU       = 8191
	maxListBytes = 32 << 10
)

// parseList parses a CPU or node list as the kernel prints it, such as "0-3,8,10-11", into ascending numbers.
// The empty list is no error. Numbers above maxCPU are, so that a list cannot ask for unbounded memory.
func parseList(s string) ([]int, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	if len(s) > maxListBytes {
		return nil, fmt.Errorf("a list of %d bytes is longer than %d", len(s), maxListBytes)
	}
	var member [maxCPU + 1]bool
	highest := 0
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, err := parseCPU(first)
		if err != nil {
			return nil, err
		}
		to, err := parseCPU(last)
		if err != nil {
			return nil, err
		}
		if to < from {
			return nil, fmt.Errorf("range %q runs backwards", tidy(part))
		}
		for cpu := from; cpu <= to; cpu++ {
			member[cpu] = true
		}
		highest = max(highest, to)
	}
	return members(member[:highest+1]), nil
}

// members returns the indexes of what is true.
func members(in []bool) []int {
	var cpus []int
	for cpu, is := range in {
		if is {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

func parseCPU(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n > maxCPU {
		return 0, fmt.Errorf("%q is not a CPU number from 0 to %d", tidy(s), maxCPU)
	}
	return int(n), nil
}

// formatList is the inverse of parseList: ascending numbers as ranges.
func formatList(cpus []int) string {
	cpus = slices.Compact(slices.Sorted(slices.Values(cpus)))
	var b strings.Builder
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(cpus[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(cpus[j]))
		}
		i = j + 1
	}
	return b.String()
}

// intersect returns the members of a that are in b, in a's order; b is ascending.
func intersect(a, b []int) []int {
	var both []int
	for _, cpu := range a {
		if _, in := slices.BinarySearch(b, cpu); in {
			both = append(both, cpu)
		}
	}
	return both
}
