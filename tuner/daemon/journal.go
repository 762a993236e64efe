package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
)

// journalName is the file of a store in which a running child is written down.
const journalName = "child.json"

// journal says which child runs, so that the next daemon can end one that a killed daemon has left behind.
type journal struct{ path string }

// process is one process of all that ever had its id.
type process struct {
	PID   int    `json:"pid"`
	Start string `json:"start_ticks"` // since boot, from /proc/PID/stat
	Boot  string `json:"boot_id"`
}

func newJournal(store string) journal { return journal{filepath.Join(store, journalName)} }

// identify tells a process from all others that had or will have its id.
func identify(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	f := statFields(stat)
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" { // of a process that has ended, nothing but its exit code is left
		return process{}, fmt.Errorf("/proc/%d/stat: no such process any more", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return process{PID: pid, Start: f[19], Boot: strings.TrimSpace(string(boot))}, err
}

// began writes down that a child runs.
func (j journal) began(pid int) error {
	p, err := identify(pid)
	if err != nil {
		return err
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic("daemon: a process always marshals")
	}
	return idle.WriteFile(j.path, data)
}

// ended writes down that none runs.
func (j journal) ended() error {
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// restore ends the child that an earlier daemon has left behind, and reports whether there was one. A file that does not
// parse names nobody.
func (j journal) restore() (ended bool, err error) {
	data, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var was process
	if err == nil && json.Unmarshal(data, &was) == nil && was.PID > 1 {
		if now, gone := identify(was.PID); gone == nil && now == was {
			ended = unix.Kill(was.PID, unix.SIGKILL) == nil
		}
	}
	return ended, errors.Join(err, j.ended())
}
