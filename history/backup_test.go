package history

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBackupAndRestore(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	must(t, s.Append(ctx, samples(1, 0, 50)...))
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	path, err := s.Backup(ctx, "")
	must(t, err)
	first, err := statFile(path)
	must(t, err)
	if _, err := s.Backup(ctx, ""); err != nil {
		t.Error(err)
	}
	if again, err := statFile(path); err != nil || again != first {
		t.Errorf("a database that did not change was copied again: %v", err)
	}
	must(t, s.Append(ctx, samples(2, 0, 50)...))
	must(t, s.Publish(ctx, learned(modelB, "decode", 2)))
	_, err = s.Backup(ctx, "")
	must(t, err)
	if older, err := statFile(s.path(olderName)); err != nil || older.inode != first.inode {
		t.Errorf("the first backup is not the older one: %v", err)
	}
	named := filepath.Join(t.TempDir(), "copy.db")
	_, err = s.Backup(ctx, named)
	must(t, err)
	if _, err := s.Backup(ctx, named); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("a backup over a file: %v", err)
	}

	must(t, s.Append(ctx, samples(3, 0, 50)...))
	done, err := s.Restore(ctx, s.path(olderName))
	must(t, err)
	if done.Records != 50 || len(collectRecords(t, s, Filter{})) != 50 {
		t.Errorf("restored %+v, want the 50 records of the first backup", done)
	}
	if snap, err := ReadSnapshot(s.dir); err != nil || len(snap.Learned) != 1 {
		t.Errorf("snapshot: %+v, %v, want what the backup holds", snap, err)
	}
	if _, err := os.Stat(done.Aside); err != nil {
		t.Errorf("what was replaced: %v", err)
	}
	must(t, s.Append(ctx, samples(4, 0, 5)...))
	if again := openTest(t, s.dir); len(again.Warnings()) > 0 {
		t.Errorf("Warnings after a restore: %v", again.Warnings())
	}
	done, err = s.Restore(ctx, named)
	must(t, err)
	if done.Records != 100 {
		t.Errorf("restored %+v, want the 100 records of the named copy", done)
	}
}

func TestRestoreOfADamagedBackup(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	if _, err := s.Restore(ctx, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a backup: %v, want fs.ErrNotExist", err)
	}
	must(t, s.Append(ctx, samples(1, 0, 50)...))
	_, err := s.Backup(ctx, "")
	must(t, err)
	must(t, s.Append(ctx, samples(2, 0, 50)...))
	_, err = s.Backup(ctx, "")
	must(t, err)
	flipSample(t, s.path(backupName), 60)
	if _, err := s.Restore(ctx, s.path(backupName)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one bit of one record: %v, want ErrCorrupt", err)
	}
	done, err := s.Restore(ctx, "")
	must(t, err)
	if done.From != s.path(olderName) || done.Records != 50 {
		t.Errorf("restored %+v, want the older backup", done)
	}
}

// flipSample flips a bit in the n-th sample that stands on a page in use.
func flipSample(t *testing.T, path string, n int) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	inUse := victim{now: content}.reached()
	for at := 0; at < len(content); at++ {
		i := bytes.Index(content[at:], []byte("\x1000f1e2d3c4b5a697")) // with its length: an aggregate has it as JSON
		if i < 0 {
			break
		}
		if at += i; !inUse[at/pageSize] {
			continue
		}
		if n--; n == 0 {
			content[at+1] ^= 1
			must(t, os.WriteFile(path, content, 0o600))
			return
		}
	}
	t.Fatalf("%s: %d samples too few", path, n)
}

func TestBackupOnSchedule(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s, err := Open(dir, Options{BackupEvery: time.Hour})
	must(t, err)
	must(t, s.Append(ctx, sample(1, 1)))
	if _, err := os.Stat(s.path(backupName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup of a new database: %v", err)
	}
	setMeta(t, dir, func(st *state) { st.created = uint64(time.Now().Add(-2 * time.Hour).UnixNano()) })
	s = openTest(t, dir)
	must(t, s.Append(ctx, sample(1, 2)))
	first, err := statFile(s.path(backupName))
	must(t, err)
	must(t, s.Append(ctx, sample(1, 3)))
	if again, err := statFile(s.path(backupName)); err != nil || again != first {
		t.Errorf("a second backup within the hour: %v", err)
	}
	old := time.Now().Add(-2 * time.Hour)
	must(t, os.Chtimes(s.path(backupName), old, old))
	must(t, s.Append(ctx, sample(1, 4)))
	if again, err := statFile(s.path(backupName)); err != nil || again.inode == first.inode {
		t.Errorf("no second backup after two hours: %v", err)
	}
}

func TestUpkeep(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	must(t, s.Append(ctx, aged(1, 60)...))
	must(t, s.Upkeep(ctx))
	if got := len(collectRecords(t, s, Filter{})); got != 30 {
		t.Errorf("%d records, want those of 30 days", got)
	}
	done, err := s.Restore(ctx, "")
	must(t, err)
	if done.Records != 60 {
		t.Errorf("the backup has %d records, want all 60", done.Records)
	}
}
