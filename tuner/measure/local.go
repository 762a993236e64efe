package measure

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Local watches this machine: throttling of this process's cgroup and the groups above it (cpu.stat, versions 1 and 2),
// and steal of all CPUs (/proc/stat). A cgroup without a quota counts no throttling. Where there is no /proc/stat,
// Read fails.
func Local() Watcher { return newLocal(os.DirFS("/")) }

// local reads the counters of the machine whose file system is root.
type local struct {
	root    fs.FS
	stats   []string // the cpu.stat files that exist
	cpus    int      // of the machine, when it was first read; more or fewer since is not noticed
	unknown error    // why cpus is not known
	begun   time.Time
}

// userHz is the unit of /proc/stat, fixed in Linux's interface whatever the kernel's own tick.
const userHz = 100

func newLocal(root fs.FS) *local {
	cpus, err := countCPUs(root)
	return &local{root, cpuStats(root), cpus, err, time.Now()}
}

// cpuStats finds the cpu.stat files of this process's cgroup and its ancestors. In a container the path in
// /proc/self/cgroup may be that of the host, of which only some tail or nothing is mounted: what is not there is left out.
func cpuStats(root fs.FS) []string {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(groups)) {
		mount, group, ok := cgroupOf(root, strings.TrimSpace(line))
		if !ok {
			continue
		}
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			file := path.Join(mount, dir, "cpu.stat")
			if _, err := fs.Stat(root, file); err == nil {
				found = append(found, file)
			}
			if dir == "/" {
				break
			}
		}
	}
	return found
}

// cgroupOf splits a line of /proc/self/cgroup, "ID:CONTROLLERS:PATH", into where its hierarchy is mounted and the path
// in it, if it can have a CPU quota: version 2 (no controllers) or the version 1 hierarchy of the cpu controller.
func cgroupOf(root fs.FS, line string) (mount, group string, ok bool) {
	fields := strings.SplitN(line, ":", 3)
	if len(fields) != 3 {
		return "", "", false
	}
	if fields[1] == "" {
		return "sys/fs/cgroup", fields[2], true
	}
	if !slices.Contains(strings.Split(fields[1], ","), "cpu") {
		return "", "", false
	}
	for _, name := range []string{fields[1], "cpu", "cpu,cpuacct"} { // the kernel may say cpuacct,cpu of the last
		mount = path.Join("sys/fs/cgroup", name)
		if _, err := fs.Stat(root, mount); err == nil {
			return mount, fields[2], true
		}
	}
	return "", "", false
}

// Read implements Watcher.
func (l *local) Read() (Counters, error) {
	c := Counters{At: time.Since(l.begun)}
	for _, file := range l.stats {
		if err := l.readThrottling(file, &c); err != nil {
			return Counters{}, fmt.Errorf("measure: read /%s: %w", file, err)
		}
	}
	if err := l.readSteal(&c); err != nil {
		return Counters{}, fmt.Errorf("measure: read /proc/stat: %w", err)
	}
	return c, nil
}

// readThrottling adds the counters of one cpu.stat file.
func (l *local) readThrottling(file string, c *Counters) error {
	text, err := fs.ReadFile(l.root, file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var unit time.Duration
		switch key {
		case "nr_throttled":
		case "throttled_usec": // version 2
			unit = time.Microsecond
		case "throttled_time": // version 1
			unit = time.Nanosecond
		default:
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if key == "nr_throttled" {
			c.Throttled += n
		}
		c.ThrottledTime += time.Duration(n) * unit
	}
	return nil
}

// stealField is the place of steal in the lines of /proc/stat, the name being 0.
const stealField = 8

// readSteal sets the steal counters from the first line of /proc/stat, the sum over the CPUs.
func (l *local) readSteal(c *Counters) error {
	if l.unknown != nil {
		return l.unknown
	}
	file, err := l.root.Open("proc/stat")
	if err != nil {
		return err
	}
	defer file.Close()
	line, err := bufio.NewReaderSize(file, lineBytes).ReadString('\n')
	if err != nil {
		return err
	}
	fields := strings.Fields(line)
	if len(fields) <= stealField {
		return nil // before Linux 2.6.11: it does not tell
	}
	ticks, err := strconv.ParseInt(fields[stealField], 10, 64)
	if err != nil {
		return fmt.Errorf("steal: %w", err)
	}
	c.StealTick = time.Second / userHz / time.Duration(l.cpus)
	c.Steal = time.Duration(ticks) * time.Second / userHz / time.Duration(l.cpus)
	return nil
}

// lineBytes has room for the first line of /proc/stat: ten numbers of up to 20 digits.
const lineBytes = 256

// countCPUs counts the lines "cpuN" of /proc/stat, which follow the sum over all CPUs.
func countCPUs(root fs.FS) (int, error) {
	text, err := fs.ReadFile(root, "proc/stat")
	if err != nil {
		return 0, err
	}
	cpus := 0
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(name, "cpu") {
			break
		}
		if name != "cpu" {
			cpus++
		}
	}
	if cpus == 0 {
		return 0, errors.New("no cpu lines")
	}
	return cpus, nil
}
