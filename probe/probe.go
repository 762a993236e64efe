package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
)

// Host is what is known of a machine and of this process's share of it. A size or count of 0 and a text of "" are
// unknown, and Warnings says so. It marshals into the facts of the command's probe document.
type Host struct {
	OS     string `json:"os"`   // as GOOS
	Arch   string `json:"arch"` // as GOARCH
	CPU    CPU    `json:"cpu"`
	Memory Memory `json:"memory"`
	Cgroup Cgroup `json:"cgroup"`

	// Load is embedded so that Host.Pressure is Host.Load.Pressure; in JSON it is an object of its own.
	Load `json:"load"`

	Virtualization string `json:"virtualization"` // "kvm", "vmware", …; "vm" = of unknown kind, "none" = bare metal
	Governor       string `json:"governor"`       // of the CPU frequency, of the first usable CPU
	SMT            string `json:"smt"`            // "on", "off", "notsupported", …
	Microcode      string `json:"microcode"`
	Kernel         string `json:"kernel"`     // release
	HugePages      string `json:"huge_pages"` // mode of transparent huge pages: "always", "madvise" or "never"

	// Warnings says what could not be read and what was taken instead, a sentence each.
	Warnings []string `json:"warnings"`
}

// Inputs is what cannot be read from files, and what overrules them.
type Inputs struct {
	OS         string  // as GOOS; if "", "linux"
	Arch       string  // as GOARCH; never ""
	Features   Feature // if 0, what proc/cpuinfo says
	Disabled   Feature // taken off Features, with all that builds on them
	Affinity   []int   // logical CPUs that the process may run on; if nil, what proc/self/status says
	Hypervisor string  // as Host.Virtualization; if "", what the files say
}

// disableVariable names what of the machine is to be treated as not there, such as "avx512,cuda".
const disableVariable = "BITNET_AUTOTUNE_DISABLE"

// Local describes this machine. It only reads; it takes a few milliseconds and does not sleep. What cannot be read is
// a warning in the result. An error is a word in BITNET_AUTOTUNE_DISABLE that means nothing, or ctx being done.
func Local(ctx context.Context) (Host, error) {
	if err := ctx.Err(); err != nil {
		return Host{}, fmt.Errorf("probe: describe this machine: %w", err)
	}
	disabled, err := parseDisabled(os.Getenv(disableVariable))
	if err != nil {
		return Host{}, err
	}
	in := liveCPU()
	in.OS, in.Arch, in.Disabled, in.Affinity = runtime.GOOS, runtime.GOARCH, disabled, liveAffinity()
	h, err := Read(os.DirFS("/"), in)
	if err == nil && disabled != 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%s switches off %s", disableVariable, disabled))
	}
	return h, err
}

// Read describes the machine whose /proc and /sys are in fsys, live or captured. Files that are missing or malformed
// are warnings in the result; an error is misuse of the function itself.
func Read(fsys fs.FS, in Inputs) (Host, error) {
	if fsys == nil {
		return Host{}, errors.New("probe: read host: no file system: want one such as os.DirFS(\"/\")")
	}
	if in.Arch == "" {
		return Host{}, errors.New("probe: read host: Inputs.Arch is empty: want a GOARCH such as amd64")
	}
	if in.OS == "" {
		in.OS = "linux"
	}
	t := &tree{fsys: fsys, warnings: []string{}}
	b := readBranches(t)
	group, headroom := readCgroup(t, b)
	h := Host{OS: in.OS, Arch: in.Arch, Cgroup: group}
	cpu, info := readCPU(t, in, group)
	h.CPU = cpu
	h.Memory = readMemory(t, group, headroom)
	h.Load = readLoad(t, cpu.LogicalCores, h.Memory)
	h.Pressure = readPressure(t, b.unified.own())
	h.Virtualization = readVirtualization(t, in, info)
	readCondition(t, &h, info)
	h.Warnings = t.warnings
	return h, nil
}

// otherWords may stand in BITNET_AUTOTUNE_DISABLE beside the features; they are for other packages.
var otherWords = []string{"cuda"}

// Disabled reports whether BITNET_AUTOTUNE_DISABLE hides something that is no feature of the CPU: "cuda".
func Disabled(word string) bool {
	return slices.ContainsFunc(strings.Split(os.Getenv(disableVariable), ","), func(w string) bool { return strings.TrimSpace(w) == word })
}

func parseDisabled(words string) (Feature, error) {
	var disabled Feature
	for word := range strings.SplitSeq(words, ",") {
		word = strings.TrimSpace(word)
		if word == "" || slices.Contains(otherWords, word) {
			continue
		}
		feature, err := ParseFeature(word)
		if err != nil {
			return 0, fmt.Errorf("probe: %s: %q is none of %s", disableVariable, word,
				strings.Join(append(featureNames[:], otherWords...), ", "))
		}
		disabled |= feature
	}
	return disabled, nil
}
