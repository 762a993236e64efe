package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	time   time.Duration // that it works, without its rests
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
	pace   pace
}

// pace is how a child worked. What a pass takes is not the same after a rest, so times of one pace are compared with each other.
type pace string

const (
	withoutRests pace = "without rests"
	inBursts     pace = "in bursts"
	mixed        pace = "" // first so and then so
)

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
	orders, questions, hangUp, err := line(cmd)
	if err != nil {
		return outcome{ending: crashed, why: err.Error()}
	}
	defer hangUp()
	c, err := start(cmd)
	if err != nil {
		return outcome{ending: crashed, why: err.Error()}
	}
	for _, f := range cmd.ExtraFiles {
		f.Close()
	}
	c.bound(most.memory)
	if err := d.journal.began(c.pid); err != nil {
		d.tell(warnLevel, "", "the child could not be written into the journal", err.Error())
	}
	o := d.watchChild(ctx, c, most, orders, questions)
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

// line opens the pipes by which a child is told when to work, and by which it asks. hangUp closes the daemon's ends of them.
func line(cmd *exec.Cmd) (orders io.Writer, questions <-chan struct{}, hangUp func(), err error) {
	told, orderer, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	asker, ask, err := os.Pipe()
	if err != nil {
		told.Close()
		orderer.Close()
		return nil, nil, nil, err
	}
	cmd.ExtraFiles = []*os.File{told, ask} // toldBy, askBy
	asked := make(chan struct{}, 1)
	var reader sync.WaitGroup
	reader.Go(func() {
		for question := make([]byte, 64); ; { // more than one at once is of a child that is out of order
			if _, err := asker.Read(question); err != nil {
				return
			}
			select {
			case asked <- struct{}{}:
			default: // one is not yet answered
			}
		}
	})
	return orderer, asked, func() {
		for _, f := range []*os.File{told, orderer, asker, ask} {
			f.Close()
		}
		reader.Wait()
	}, nil
}

// watchChild waits for a child to exit, tells it when to work, and kills it where it must not go on.
func (d *Daemon) watchChild(ctx context.Context, c *child, most limits, orders io.Writer, questions <-chan struct{}) (o outcome) {
	s := &shift{d: d, most: most, tell: func(o order) { _, _ = orders.Write([]byte{byte(o)}) }} // one that has exited is noticed below
	s.begin(time.Now())
	defer func() {
		s.end(time.Now())
		o.pace = s.worksAt()
	}()
	timer := time.NewTimer(s.next(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-c.exited:
			return outcome{ending: finished}
		case <-ctx.Done():
			o = outcome{ending: cancelled, why: context.Cause(ctx).Error()}
		case <-questions:
			if !s.mayAsk() {
				continue // and the next look is not put off by it
			}
			cpu, _ := c.usage()
			s.asked(time.Now(), cpu)
		case <-timer.C:
			cpu, memory := c.usage()
			o = s.look(time.Now(), cpu, memory)
		}
		if o.ending != "" {
			c.kill()
			return o
		}
		timer.Reset(s.next(time.Now()))
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

// usage is the CPU time and the memory that the child has used so far. The clock is exact, where /proc/PID/stat counts ticks.
func (c *child) usage() (cpu time.Duration, memory uint64) {
	const scheduled = 2 // CPUCLOCK_SCHED: clock_getcpuclockid(3) makes a clock's number of a process's like this
	var used unix.Timespec
	if unix.ClockGettime(int32(^c.pid<<3|scheduled), &used) != nil {
		return 0, 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid))
	if f := statFields(stat); err == nil && len(f) > 21 {
		pages, _ := strconv.ParseUint(f[21], 10, 64)
		memory = pages * uint64(os.Getpagesize())
	}
	return time.Duration(used.Nano()), memory
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
