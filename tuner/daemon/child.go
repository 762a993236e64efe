package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
)

// ending is how a child ended.
type ending string

const (
	finished  ending = "finished"
	gaveWay   ending = "gave way to load"
	tooLong   ending = "did not end in its time"
	tooMuch   ending = "took more memory than it may"
	tooDear   ending = "used more CPU time than was reserved"
	crashed   ending = "crashed"
	cancelled ending = "was cancelled"
)

// limits bound a child.
type limits struct {
	time   time.Duration
	cpu    time.Duration
	memory uint64 // bytes
}

// outcome is what is left of a child.
type outcome struct {
	ending ending
	why    string // in words
	code   int    // exit code, where it finished
	out    []byte
	cpu    time.Duration
}

// watchEvery is how often to look for load while a child measures: five times in the 100 ms within which to stop.
const watchEvery = 20 * time.Millisecond

// runChild runs a command to its end, or until it has to end. It returns when the process is gone.
func (d *Daemon) runChild(ctx context.Context, args []string, most limits) outcome {
	var out, errs head
	out.most, errs.most = 16<<20, 8<<10
	cmd := exec.Command(program(args[0]), args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // for who has inherited the pipes
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c, err := start(cmd)
	if err != nil {
		return outcome{ending: crashed, why: err.Error()}
	}
	c.bound(most.memory)
	if err := d.journal.began(c.pid); err != nil {
		d.tell(warnLevel, "", "the child could not be written into the journal", err.Error())
	}
	o := d.watchChild(ctx, c, most)
	err = c.reap()
	if cmd.ProcessState != nil {
		o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		o.code = cmd.ProcessState.ExitCode()
	}
	o.out = out.data
	if o.ending == finished && o.code < 0 {
		o.ending, o.why = crashed, fmt.Sprintf("%v: %s", err, errs.firstLine())
	} else if o.ending == finished {
		o.why = errs.firstLine()
	}
	if err := d.journal.ended(); err != nil {
		d.tell(warnLevel, "", "the journal could not be cleared", err.Error())
	}
	return o
}

// program is what to run for a command. This very program stays the one that was started though its file is replaced by another
// build meanwhile: what that one learns, with other kernels, would be no answer here.
func program(name string) string {
	if self, err := os.Executable(); err == nil && self == name {
		return "/proc/self/exe"
	}
	return name
}

// watchChild waits for a child to exit, and kills it where it must not go on.
func (d *Daemon) watchChild(ctx context.Context, c *child, most limits) outcome {
	gate := idle.Gate{Rules: d.opt.Rules}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	end := time.Now().Add(most.time)
	for {
		var o outcome
		select {
		case <-c.exited:
			return outcome{ending: finished}
		case <-ctx.Done():
			o = outcome{ending: cancelled, why: context.Cause(ctx).Error()}
		case <-ticker.C:
			cpu, memory := c.usage()
			gate.Look(d.opt.Watch(), cpu)
			if why := gate.Yield(); why != "" {
				o = outcome{ending: gaveWay, why: why}
			} else if time.Now().After(end) {
				o = outcome{ending: tooLong, why: fmt.Sprintf("it runs for longer than %v", most.time)}
			} else if memory > most.memory {
				o = outcome{ending: tooMuch, why: fmt.Sprintf("%d MiB of %d", memory>>20, most.memory>>20)}
			} else if cpu > most.cpu {
				o = outcome{ending: tooDear, why: fmt.Sprintf("%v of %v", cpu, most.cpu)}
			}
		}
		if o.ending != "" {
			c.kill()
			return o
		}
	}
}

// child is a process of the lowest priority, in a process group of its own.
type child struct {
	pid    int
	exited chan struct{} // closed when it has exited; its id stays its own until reap
	let    chan struct{}
	ended  chan error
}

// start starts a child on a thread of its own: priority is inherited from the thread that forks, and the kernel sends the
// death signal when that very thread ends, so it stays until the child is reaped.
func start(cmd *exec.Cmd) (*child, error) {
	c := &child{exited: make(chan struct{}), let: make(chan struct{}), ended: make(chan error, 1)}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, which ends the thread with the goroutine
		lowestPriority()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		awaitExit(cmd.Process.Pid)
		close(c.exited)
		<-c.let
		c.ended <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.pid = cmd.Process.Pid
	return c, nil
}

// awaitExit returns when a child has exited, and leaves it to be waited for.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// lowestPriority makes the calling thread yield the CPU to everybody. What the kernel refuses, it refuses: nice 19 is always
// allowed.
func lowestPriority() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19)
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: 19}, 0)
	const whoProcess, classIdle = 1, 3 << 13 // ioprio_set(2)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, 0, classIdle)
}

// bound caps the memory, and offers the child first to the kernel when there is none left.
func (c *child) bound(memory uint64) {
	_ = unix.Prlimit(c.pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: memory, Max: memory}, nil)
	_ = unix.Prlimit(c.pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", c.pid), []byte("1000"), 0)
}

// kill ends the child and what it has started. Its id cannot be another's: it is not reaped yet.
func (c *child) kill() { _ = unix.Kill(-c.pid, unix.SIGKILL) }

// reap waits until the child is gone, with everything that it has started.
func (c *child) reap() error {
	<-c.exited
	c.kill()
	close(c.let)
	return <-c.ended
}

// usage is the CPU time and the memory that the child has used so far.
func (c *child) usage() (cpu time.Duration, memory uint64) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid))
	if err != nil {
		return 0, 0
	}
	f := statFields(stat)
	if len(f) < 22 {
		return 0, 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	pages, _ := strconv.ParseUint(f[21], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, pages * uint64(os.Getpagesize())
}

// statFields are those of /proc/PID/stat from the third on: the second is a name in parentheses, with whatever is in it.
func statFields(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

// head keeps the first bytes that are written to it.
type head struct {
	most int
	data []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.data = append(h.data, p[:min(len(p), h.most-len(h.data))]...)
	return len(p), nil
}

// firstLine is what a program says first: its error, or the panic before the stacks.
func (h *head) firstLine() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(h.data)), "\n")
	return strings.TrimSpace(line)
}
