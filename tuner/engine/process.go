package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Command is a process to run.
type Command struct {
	Path string
	Args []string
	Env  []string // of the process; nil = this process's own
	Dir  string   // "" = this process's own
}

// String is the command line as a shell would take it.
func (c Command) String() string { return quote(c.Path) + " " + c.Words() }

// Words are the arguments as a shell would take them.
func (c Command) Words() string {
	var words []string
	for _, a := range c.Args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// quote is a word as a shell reads it.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Result is how a process ended.
type Result struct {
	Status  Status
	Note    string // why, with the last lines it wrote; "" if OK
	Stdout  []byte
	Elapsed time.Duration
}

// slot is held by the one process that runs: two at once would measure each other.
var slot = make(chan struct{}, 1)

// How much of a process's output is kept.
const (
	stdoutBytes  = 8 << 20 // llama-bench prints 1 KiB for a test
	tailBytes    = 2 << 10
	tailLines    = 6
	killPatience = 2 * time.Second // until the pipes of a killed group are given up
)

// Run runs c, kills its whole process group after limit or when ctx ends, and waits until it is gone. Only one process
// runs at a time in this program. A limit of 0 is none.
func Run(ctx context.Context, c Command, limit time.Duration) Result {
	select {
	case slot <- struct{}{}:
		defer func() { <-slot }()
	case <-ctx.Done():
		return Result{Status: Stopped, Note: ctx.Err().Error()}
	}
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		bounded, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	cmd := exec.CommandContext(bounded, c.Path, c.Args...)
	stdout, stderr := &head{limit: stdoutBytes}, &tail{}
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.Env, c.Dir, stdout, stderr, killPatience
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	started := time.Now()
	err := onOwnThread(cmd.Run)
	r := Result{Stdout: stdout.data, Elapsed: time.Since(started)}
	if errors.Is(err, exec.ErrWaitDelay) { // the leader is gone, others of its group hold its pipes: the group's id is still theirs
		_ = killGroup(cmd.Process.Pid)
		err = nil
	}
	switch {
	case ctx.Err() != nil:
		r.Status, r.Note = Stopped, ctx.Err().Error()
	case bounded.Err() != nil:
		r.Status, r.Note = Hang, stderr.note(fmt.Sprintf("killed after %v", limit))
	case err != nil:
		r.Status, r.Note = verdict(err, stderr)
	case stdout.cut:
		r.Status, r.Note = Garbage, fmt.Sprintf("more than %d bytes of output", stdoutBytes)
	default:
		r.Status = OK
	}
	return r
}

// onOwnThread runs f on a thread that ends with it: the kernel sends the death signal of a process when the very thread that
// started it ends, and Go ends threads as it likes.
func onOwnThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	return <-done
}

// killGroup kills a process that leads a group of its own, and all of that group.
func killGroup(leader int) error { return syscall.Kill(-leader, syscall.SIGKILL) }

// memoryWords are what engines of the llama.cpp family and their run times say when there is no memory.
var memoryWords = regexp.MustCompile(`(?i)out of memory|cannot allocate memory|failed to allocate|insufficient memory|unable to allocate|bad_alloc|not enough memory`)

// verdict says why a process failed.
func verdict(err error, stderr *tail) (Status, string) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return Crash, err.Error()
	}
	status, why := ExitStatus, exit.String()
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status = Crash
		if ws.Signal() == syscall.SIGKILL {
			status, why = OutOfMemory, "killed by another, as the kernel does when memory ends"
		}
	}
	if memoryWords.Match(stderr.data) {
		status = OutOfMemory
	}
	return status, stderr.note(why)
}

// head keeps the first bytes written to it.
type head struct {
	data  []byte
	limit int
	cut   bool
}

func (h *head) Write(p []byte) (int, error) {
	room := min(h.limit-len(h.data), len(p))
	h.data = append(h.data, p[:room]...)
	h.cut = h.cut || room < len(p)
	return len(p), nil
}

// tail keeps the last bytes written to it.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - tailBytes; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// note is why, with the last lines.
func (t *tail) note(why string) string {
	lines := bytes.Split(bytes.TrimSpace(t.data), []byte("\n"))
	last := string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
	if last == "" {
		return why
	}
	return why + ": " + strings.ToValidUTF8(last, "?")
}
