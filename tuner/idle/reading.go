package idle

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Reading is what the machine's counters say at one moment.
type Reading struct {
	At         time.Time
	CPUs       int           // online; 0 = /proc/stat could not be read
	Busy       time.Duration // CPU time used by everything since boot, in sum over the CPUs
	Runnable   int           // tasks that run or wait for a CPU now
	CPUStall   time.Duration // since boot, during which some task waited for a CPU
	MemStall   time.Duration // the same for memory
	IOStall    time.Duration // the same for a disk
	Throttled  time.Duration // since its own cgroup began, for want of quota, of the group that is throttled most
	Battery    bool          // the machine runs on one
	PSI, Quota bool          // whether stalls and throttling are told at all
	Unknown    []string      // what could not be read
}

// Local reads the machine this runs on.
func Local(now time.Time) Reading { return Read(os.DirFS("/"), now) }

// Read reads a machine whose /proc and /sys are in fsys. What cannot be read is named in Unknown.
func Read(fsys fs.FS, now time.Time) Reading {
	r := Reading{At: now}
	r.readStat(fsys)
	r.readPressure(fsys)
	r.readQuota(fsys)
	r.Battery = onBattery(fsys)
	return r
}

// tick is the unit of /proc/stat and /proc/PID/stat: USER_HZ is 100 on amd64 and arm64, whatever the kernel's own is.
const tick = 10 * time.Millisecond

// readStat reads proc/stat (proc_stat(5)): "cpu user nice system idle iowait irq softirq steal guest guest_nice".
func (r *Reading) readStat(fsys fs.FS) {
	text, err := fs.ReadFile(fsys, "proc/stat")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 8 && f[0] == "cpu":
			for _, i := range []int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq; guests are in user
				n, bad := strconv.ParseUint(f[i], 10, 48)
				if bad != nil {
					err = bad
				}
				r.Busy += time.Duration(n) * tick
			}
		case len(f) > 1 && strings.HasPrefix(f[0], "cpu"):
			r.CPUs++
		case len(f) == 2 && f[0] == "procs_running":
			r.Runnable, _ = strconv.Atoi(f[1])
		}
	}
	if err != nil || r.CPUs == 0 {
		r.CPUs = 0
		r.Unknown = append(r.Unknown, "utilisation (proc/stat)")
	}
}

// readPressure reads the stalls of the machine, not of the own cgroup: it is others who must not be made to wait.
func (r *Reading) readPressure(fsys fs.FS) {
	r.PSI = true
	for name, stall := range map[string]*time.Duration{"cpu": &r.CPUStall, "memory": &r.MemStall, "io": &r.IOStall} {
		text, _ := fs.ReadFile(fsys, "proc/pressure/"+name)
		first, _, _ := strings.Cut(string(text), "\n")
		_, total, _ := strings.Cut(first, "total=")
		us, err := strconv.ParseUint(strings.TrimSpace(total), 10, 48)
		if err != nil || !strings.HasPrefix(first, "some ") {
			r.PSI = false
		}
		*stall = time.Duration(us) * time.Microsecond
	}
	if !r.PSI {
		r.CPUStall, r.MemStall, r.IOStall = 0, 0, 0
		r.Unknown = append(r.Unknown, "pressure (proc/pressure)")
	}
}

// readQuota reads how long the own cgroup and those above it were kept from running: throttled_usec of version 2,
// throttled_time (ns) of version 1.
func (r *Reading) readQuota(fsys fs.FS) {
	for _, dir := range cgroupDirs(fsys) {
		text, _ := fs.ReadFile(fsys, path.Join(dir, "cpu.stat"))
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			unit := map[string]time.Duration{"throttled_usec": time.Microsecond, "throttled_time": time.Nanosecond}
			if len(f) != 2 || unit[f[0]] == 0 {
				continue
			}
			if n, err := strconv.ParseUint(f[1], 10, 62); err == nil {
				r.Quota, r.Throttled = true, max(r.Throttled, time.Duration(n)*unit[f[0]])
			}
		}
	}
	if !r.Quota {
		r.Unknown = append(r.Unknown, "throttling (cpu.stat)")
	}
}

// cgroupDirs are the directories of the own CPU cgroup and of those above it, for version 1 and 2.
func cgroupDirs(fsys fs.FS) (dirs []string) {
	text, _ := fs.ReadFile(fsys, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		root := "sys/fs/cgroup"
		switch {
		case f[1] == "cpu" || strings.HasPrefix(f[1], "cpu,") || strings.HasSuffix(f[1], ",cpu"):
			root = path.Join(root, f[1])
		case f[0] != "0":
			continue
		}
		for group := path.Clean("/" + f[2]); ; group = path.Dir(group) {
			dirs = append(dirs, path.Join(root, group))
			if group == "/" {
				break
			}
		}
	}
	return dirs
}

// onBattery reports whether a battery of the machine itself discharges. A machine without one does not run on it.
func onBattery(fsys fs.FS) bool {
	const root = "sys/class/power_supply"
	supplies, _ := fs.ReadDir(fsys, root)
	for _, s := range supplies {
		value := func(name string) string {
			text, _ := fs.ReadFile(fsys, path.Join(root, s.Name(), name))
			return strings.TrimSpace(string(text))
		}
		if value("type") == "Battery" && value("scope") != "Device" && value("status") == "Discharging" { // Device: a mouse's
			return true
		}
	}
	return false
}

// LocalLoad reads only how much the CPUs of the machine this runs on are used: one file, often.
func LocalLoad(now time.Time) Reading {
	r := Reading{At: now}
	r.readStat(os.DirFS("/"))
	return r
}
