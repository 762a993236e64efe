package idle

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Anybody may make a file in /run/lock. A pipe there must not keep the daemon waiting for a writer.
func TestLockDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.lock")
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		unlock, err := Lock(path)
		if err == nil {
			unlock()
		}
		done <- err
	}()
	select {
	case <-done: // a lock on a pipe is one as well
	case <-time.After(10 * time.Second):
		t.Error("it waits for somebody to open the other end")
	}
}
