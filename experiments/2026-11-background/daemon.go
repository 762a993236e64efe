package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// daemon is a daemon that always has something to do.
type daemon struct {
	cmd   *exec.Cmd
	log   string
	last  map[int]time.Duration
	ended bool
}

func (s study) daemon(options ...string) (*daemon, error) {
	store := filepath.Join(s.dir, fmt.Sprintf("store%d", time.Now().UnixNano()))
	d := &daemon{log: store + ".log", last: map[int]time.Duration{}}
	file, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	args := append([]string{"--store", store, "--log-level", "debug", "daemon", "--model", s.tuned, "--host-lock", store + ".lock"}, options...)
	if s.share > 0 {
		args = append(args, "--burst-share", fmt.Sprint(s.share))
	}
	d.cmd = exec.Command(s.command, args...)
	d.cmd.Stderr = file
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return d, d.cmd.Start()
}

// children are the processes that the daemon has started.
func (d *daemon) children() (list []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", d.cmd.Process.Pid))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				list = append(list, pid)
			}
		}
	}
	return list
}

// let makes the daemon and its children go on, or stand still.
func (d *daemon) let(work bool) error {
	sig := syscall.SIGSTOP
	if work {
		sig = syscall.SIGCONT
	}
	err := syscall.Kill(d.cmd.Process.Pid, sig) // the daemon first, so that it starts no other child
	for _, pid := range d.children() {
		_ = syscall.Kill(pid, sig) // one may just have ended
	}
	return err
}

// used is the CPU time of the children and that of the daemon itself.
func (d *daemon) used() (children, own time.Duration) {
	for _, pid := range d.children() {
		d.last[pid] = max(d.last[pid], cpuTime(pid))
	}
	for _, used := range d.last {
		children += used
	}
	return children, cpuTime(d.cmd.Process.Pid)
}

// cpuTime is what a process has used, by the clock of clock_getcpuclockid(3).
func cpuTime(pid int) time.Duration {
	const scheduled = 2
	var used unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|scheduled), &used) != nil {
		return 0
	}
	return time.Duration(used.Nano())
}

// end asks the daemon to end.
func (d *daemon) end() error {
	if d.ended {
		return nil
	}
	d.ended = true
	if err := d.let(true); err != nil {
		return err
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	return d.cmd.Wait()
}

// kill is end where nobody minds what it says.
func (d *daemon) kill() { _ = d.end() }

// span is when a child worked, in microseconds since 1970.
type span struct{ from, to int64 }

// worked is when children worked, as the daemon's log says.
func (d *daemon) worked() (list []span, err error) {
	file, err := os.Open(d.log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var w span
		for _, field := range strings.Fields(lines.Text()) {
			key, value, _ := strings.Cut(field, "=")
			if at := map[string]*int64{"from_us": &w.from, "to_us": &w.to}[key]; at != nil {
				if *at, err = strconv.ParseInt(value, 10, 64); err != nil {
					return nil, fmt.Errorf("%s: %w", d.log, err)
				}
			}
		}
		if w.to > 0 {
			list = append(list, w)
		}
	}
	return list, nil
}
