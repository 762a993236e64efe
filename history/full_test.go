package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk mounts a filesystem of a few MiB. That of "ext4" lies in a file.
func smallDisk(t *testing.T, kind string) string {
	t.Helper()
	dir := t.TempDir()
	var err error
	if kind == "tmpfs" {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
	} else {
		image := filepath.Join(t.TempDir(), "image")
		must(t, os.WriteFile(image, make([]byte, 12<<20), 0o600))
		var out []byte
		if out, err = exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err == nil {
			out, err = exec.Command("mount", "-o", "loop", image, dir).CombinedOutput()
		}
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		unavailable(t, "mount", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	t.Run("tmpfs", func(t *testing.T) { fullDisk(t, smallDisk(t, "tmpfs"), 500<<10) })
	t.Run("ext4", func(t *testing.T) { fullDisk(t, smallDisk(t, "ext4"), 8<<20) })
}

// fullDisk uses a store on a disk on which a file of that size is taken away at the end.
func fullDisk(t *testing.T, dir string, fill int) {
	ctx := context.Background()
	s, err := Open(dir, Options{})
	must(t, err)
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	filler := filepath.Join(dir, "filler")
	must(t, os.WriteFile(filler, make([]byte, fill), 0o600))

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
	if _, err := s.Backup(ctx, ""); err == nil {
		t.Error("Backup on a full disk succeeded")
	}
	if _, _, err := s.Compact(ctx); err == nil {
		t.Error("Compact on a full disk succeeded")
	}
	if err := s.spool(spooledSamples(samples(3, 0, 200))); err == nil {
		t.Error("a spool on a full disk succeeded")
	}

	must(t, os.Remove(filler))
	must(t, s.Append(ctx, samples(2, 0, 10)...))
	must(t, s.Publish(ctx, learned(modelB, "decode", 1)))
	openTest(t, filepath.Join(dir, "second"))
	checkSound(t, s)
	if _, err := s.Backup(ctx, ""); err != nil && !strings.Contains(err.Error(), "too few") {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*"+newSuffix)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	t.Logf("%d records acknowledged before the disk was full, all there", stored)
}

func TestUnwritableDirectory(t *testing.T) {
	dir := smallDisk(t, "tmpfs")
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
