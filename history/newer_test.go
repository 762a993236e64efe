package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// newerSnapshot replaces the snapshot in dir by one of a later format, and returns its bytes.
func newerSnapshot(t *testing.T, dir string) []byte {
	t.Helper()
	content, err := (&Snapshot{Generation: 90, Learned: []Learned{learned(modelB, "decode", 1)}}).encode()
	must(t, err)
	binary.BigEndian.PutUint32(content[8:], 7)
	binary.BigEndian.PutUint32(content[12:], 7)
	header, payload := content[:snapshotHeaderBytes-4], content[snapshotHeaderBytes:]
	binary.BigEndian.PutUint32(content[snapshotHeaderBytes-4:], checksum(header, payload))
	must(t, os.WriteFile(filepath.Join(dir, snapshotName), content, 0o600))
	if _, err := ReadSnapshot(dir); !errors.Is(err, ErrNewer) {
		t.Fatalf("the snapshot: %v, want ErrNewer", err)
	}
	return content
}

// What a later version of this program has learned is lost if an earlier one replaces its snapshot.
func TestNewerSnapshotIsNotReplaced(t *testing.T) {
	ctx := context.Background()
	t.Run("without a database", func(t *testing.T) {
		dir := t.TempDir()
		open := openBefore(t, dir)
		must(t, os.Remove(open.databasePath()))
		want := newerSnapshot(t, dir)
		if s, err := Open(dir, Options{}); s != nil || !errors.Is(err, ErrNewer) {
			t.Errorf("Open: %v, %v, want no store and ErrNewer", s, err)
		}
		if err := open.Publish(ctx, learned(modelA, "decode", 1)); !errors.Is(err, ErrNewer) {
			t.Errorf("Publish: %v, want ErrNewer", err)
		}
		if _, err := os.Stat(open.databasePath()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a database was made: %v", err)
		}
		sameSnapshot(t, dir, want)
	})
	t.Run("beside a database that is older", func(t *testing.T) {
		dir := t.TempDir()
		open := openBefore(t, dir)
		want := newerSnapshot(t, dir)
		if s, err := Open(dir, Options{}); s == nil || !errors.Is(err, ErrNewer) {
			t.Errorf("Open: %v, %v, want a store for reading and ErrNewer", s, err)
		}
		if err := open.Publish(ctx, learned(modelA, "decode", 2)); !errors.Is(err, ErrNewer) {
			t.Errorf("Publish: %v, want ErrNewer", err)
		}
		sameSnapshot(t, dir, want)
	})
	t.Run("beside a database that is damaged", func(t *testing.T) {
		dir := t.TempDir()
		open := openBefore(t, dir)
		want := newerSnapshot(t, dir)
		must(t, os.WriteFile(open.databasePath(), nil, 0o600))
		if done, err := open.Repair(ctx); done.Path != "" || !errors.Is(err, ErrNewer) {
			t.Errorf("Repair: %+v, %v, want that nothing is moved and ErrNewer", done, err)
		}
		sameSnapshot(t, dir, want)
	})
}

// openBefore returns a store with one record, opened before something befell its directory.
func openBefore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{})
	must(t, err)
	must(t, s.Append(context.Background(), sample(1, 1)))
	return s
}

func sameSnapshot(t *testing.T, dir string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(dir, snapshotName)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the snapshot was replaced: %d bytes, %v", len(got), err)
	}
}

// A link to itself stands for every file that cannot be read at the moment.
func TestUnreadableSnapshotIsNotReplaced(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openBefore(t, dir)
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	path := filepath.Join(dir, snapshotName)
	must(t, os.Rename(path, path+".kept"))
	must(t, os.Symlink(snapshotName, path))
	if err := s.Publish(ctx, learned(modelA, "decode", 2)); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("Publish: %v, want ELOOP", err)
	}
	if again, err := Open(dir, Options{}); again != nil || !errors.Is(err, syscall.ELOOP) {
		t.Errorf("Open: %v, %v, want ELOOP", again, err)
	}
	reading, err := Open(dir, Options{ReadOnly: true})
	must(t, err)
	if got := collectRecords(t, reading, Filter{}); len(got) != 1 || len(reading.Warnings()) != 1 {
		t.Errorf("for reading: %d records, warnings %v", len(got), reading.Warnings())
	}
	must(t, os.Rename(path+".kept", path)) // what kept it from being read is over
	must(t, s.Publish(ctx, learned(modelA, "decode", 3)))
	if snap, err := ReadSnapshot(dir); err != nil || snap.Learned[0].Evaluations != 3 {
		t.Errorf("afterwards: %+v, %v", snap, err)
	}
}
