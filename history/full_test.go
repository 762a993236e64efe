package history

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// smallDisk mounts a tmpfs of 1 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		unavailable(t, "mount", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	ctx := context.Background()
	dir := smallDisk(t)
	s, err := Open(dir, Options{})
	must(t, err)
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	filler := filepath.Join(dir, "filler")
	must(t, os.WriteFile(filler, make([]byte, 500<<10), 0o600))

	var stored uint32
	for ; stored < 1<<16; stored += 10 {
		if err = s.Append(ctx, samples(1, stored, stored+10)...); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Append on a full disk: %v, want ENOSPC", err)
	}
	file, err := os.OpenFile(filler, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	file.Close()
	if err := s.Publish(ctx, learned(modelB, "decode", 1)); err == nil {
		t.Error("Publish on a full disk succeeded")
	}
	if got := collectRecords(t, s, Filter{}); len(got) != int(stored) || stored == 0 {
		t.Errorf("%d records, want the %d that were acknowledged", len(got), stored)
	}
	if snap, err := ReadSnapshot(dir); err != nil || len(snap.Learned) != 1 {
		t.Errorf("the old snapshot: %+v, %v", snap, err)
	}
	if _, err := Open(filepath.Join(dir, "second"), Options{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new store on a full disk: %v, want ENOSPC", err)
	}

	must(t, os.Remove(filler))
	must(t, s.Append(ctx, samples(2, 0, 10)...))
	must(t, s.Publish(ctx, learned(modelB, "decode", 1)))
	openTest(t, filepath.Join(dir, "second"))
	checkSound(t, s)
	t.Logf("%d records acknowledged before the disk was full, all there", stored)
}

func TestUnwritableDirectory(t *testing.T) {
	dir := smallDisk(t)
	must(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700))
	writable, err := Open(dir, Options{})
	must(t, err)
	must(t, writable.Append(context.Background(), sample(1, 1)))
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for path, named := range map[string]string{dir: filepath.Join(dir, databaseName), filepath.Join(dir, "empty"): filepath.Join(dir, "empty", databaseName), filepath.Join(dir, "absent"): filepath.Join(dir, "absent")} {
		want := "history: open " + named + ": read-only file system: choose a directory that can be written"
		if _, err := Open(path, Options{}); !errors.Is(err, syscall.EROFS) || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	s, err := Open(dir, Options{ReadOnly: true})
	must(t, err)
	if got := collectRecords(t, s, Filter{}); len(got) != 1 {
		t.Errorf("%d records, want 1", len(got))
	}
	checkSound(t, s)
}
