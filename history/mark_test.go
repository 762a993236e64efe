package history

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// markOf reads the mark in a directory.
func markOf(t *testing.T, dir string) mark {
	t.Helper()
	lock, err := os.Open(filepath.Join(dir, lockName))
	must(t, err)
	defer lock.Close()
	return readMark(lock)
}

func TestMark(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	must(t, s.Append(ctx, sample(1, 1)))
	closed := markOf(t, s.dir)
	if id, err := statFile(s.databasePath()); err != nil || closed.file != id || closed.generation != 1 {
		t.Errorf("mark %+v, want the file %+v and generation 1, %v", closed, id, err)
	}
	_, err := s.commit(ctx, task{verb: "test"}, func(w *writer) error {
		if m := markOf(t, s.dir); m.file != (fileID{}) || m.generation != 1 {
			t.Errorf("mark %+v while somebody writes, want no file and generation 1", m)
		}
		return nil
	})
	must(t, err)
	if m := markOf(t, s.dir); m != closed {
		t.Errorf("mark %+v after a commit that changed nothing, want %+v", m, closed)
	}

	path := s.path(lockName)
	good, err := os.ReadFile(path)
	must(t, err)
	for name, test := range map[string]struct {
		damage func(b []byte) []byte
		want   mark
	}{
		"of another start of the kernel": {func(b []byte) []byte {
			b[8] ^= 1
			binary.BigEndian.PutUint32(b[markBytes-4:], checksum(nil, b[:markBytes-4]))
			return b
		}, mark{generation: 1}},
		"one bit":   {func(b []byte) []byte { b[50] ^= 1; return b }, mark{}},
		"cut short": {func(b []byte) []byte { return b[:20] }, mark{}},
		"empty":     {func(b []byte) []byte { return nil }, mark{}},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.WriteFile(path, test.damage(append([]byte{}, good...)), 0o600))
			if m := markOf(t, s.dir); m != test.want {
				t.Errorf("mark %+v, want %+v", m, test.want)
			}
			again := openTest(t, s.dir)
			if len(again.Warnings()) > 0 {
				t.Errorf("Warnings: %v", again.Warnings())
			}
			if m := markOf(t, s.dir); m != closed {
				t.Errorf("mark %+v after the next use, want %+v", m, closed)
			}
		})
	}
}
