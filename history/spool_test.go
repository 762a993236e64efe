package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// whileLocked runs fn on a store that another one, s, keeps from the lock.
func whileLocked(t *testing.T, s *Store, fn func(kept *Store)) {
	t.Helper()
	kept, err := Open(s.dir, Options{Timeout: 10 * time.Millisecond})
	must(t, err)
	must(t, s.exclusive(context.Background(), func() error { fn(kept); return nil }))
}

func spoolFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, spoolName, "*"))
	must(t, err)
	return files
}

func TestSpoolOfALockedStore(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	run := Run{ID: 7, Started: epoch, Host: hostA, Model: modelA}
	ended := run
	ended.Finished, ended.Verdict = epoch.Add(time.Minute), "ADOPT"
	whileLocked(t, s, func(kept *Store) {
		must(t, kept.PutRun(ctx, run))
		must(t, kept.Append(ctx, samples(7, 0, 30)...))
		must(t, kept.Append(ctx, samples(7, 20, 40)...)) // overlaps: a caller that repeats
		must(t, kept.PutRun(ctx, ended))
		must(t, kept.Publish(ctx, learned(modelA, "decode", 40)))
		if warnings := kept.Warnings(); len(warnings) == 0 || !strings.Contains(warnings[0].Error(), spoolName) {
			t.Errorf("Warnings: %v", warnings)
		}
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		if err := kept.Append(ctx, sample(8, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("Append of a caller that gave up: %v", err)
		}
	})
	if n := len(spoolFiles(t, s.dir)); n != 5 {
		t.Errorf("%d files in the spool, want 5", n)
	}
	must(t, s.Append(ctx, sample(9, 1)))
	if got := collectRecords(t, s, Filter{Run: 7}); len(got) != 40 {
		t.Errorf("%d records, want 40", len(got))
	}
	runs, err := s.Runs(ctx)
	must(t, err)
	if diff := cmp.Diff([]Run{ended}, runs); diff != "" {
		t.Errorf("runs (-want +got)\n%s", diff)
	}
	if snap, err := ReadSnapshot(s.dir); err != nil || len(snap.Learned) != 1 {
		t.Errorf("snapshot: %+v, %v, want what was in the spool", snap, err)
	}
	if files := spoolFiles(t, s.dir); len(files) > 0 {
		t.Errorf("still in the spool: %v", files)
	}
}

// A drain that was killed after its commit happens again. Nothing that was stored meanwhile goes back.
func TestSpoolIsDrainedAnyNumberOfTimes(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	old := learned(modelA, "decode", 1)
	whileLocked(t, s, func(kept *Store) {
		must(t, kept.Append(ctx, samples(1, 0, 10)...))
		must(t, kept.Publish(ctx, old))
	})
	again := map[string][]byte{}
	for _, path := range spoolFiles(t, s.dir) {
		content, err := os.ReadFile(path)
		must(t, err)
		again[path] = content
	}
	newer := learned(modelA, "decode", 2)
	newer.MeasuredAt = epoch.Add(time.Hour)
	for range 3 {
		for path, content := range again {
			must(t, os.WriteFile(path, content, 0o600))
		}
		must(t, s.Publish(ctx, newer))
	}
	if got := collectRecords(t, s, Filter{}); len(got) != 10 {
		t.Errorf("%d records, want 10", len(got))
	}
	if snap, err := ReadSnapshot(s.dir); err != nil || snap.Learned[0].Evaluations != 2 {
		t.Errorf("snapshot: %+v, %v, want the newer config", snap, err)
	}
	if was := previous(t, s, old); was.Evaluations != 1 {
		t.Errorf("previous version: %+v", was)
	}
}

func TestDamagedSpool(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	for name, damage := range map[string]func([]byte) []byte{
		"an entry cut short": func(b []byte) []byte { return b[:len(b)-5] },
		"one bit":            func(b []byte) []byte { b[len(b)-40] ^= 4; return b },
		"rubbish":            func(b []byte) []byte { return bytes.Repeat([]byte{0xA5}, len(b)) },
		"empty":              func(b []byte) []byte { return nil },
		"a huge length":      func(b []byte) []byte { binary.BigEndian.PutUint32(b[spoolHeaderBytes+3:], 1<<31); return b },
	} {
		t.Run(name, func(t *testing.T) {
			whileLocked(t, s, func(kept *Store) { must(t, kept.Append(ctx, samples(5, 0, 3)...)) })
			path := spoolFiles(t, s.dir)[0]
			content, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, damage(content), 0o600))
			must(t, s.Append(ctx, sample(6, 1)))
			if _, err := os.Stat(filepath.Join(s.dir, quarantineName, filepath.Base(path))); err != nil || len(spoolFiles(t, s.dir)) > 0 {
				t.Errorf("the damaged file is not in quarantine: %v", err)
			}
		})
	}
	if got := collectRecords(t, s, Filter{Run: 5}); len(got) != 2 {
		t.Errorf("%d records, want the two that are before damage", len(got))
	}
}

// What differs from what was stored meanwhile does not replace it, and what a later version spooled is left for it.
func TestSpoolKeepsWhatIsStored(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	whileLocked(t, s, func(kept *Store) { must(t, kept.Append(ctx, samples(1, 0, 3)...)) })
	path := spoolFiles(t, s.dir)[0]
	content, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Remove(path))
	other := sample(1, 1)
	other.Note = "another"
	must(t, s.Append(ctx, other))
	must(t, os.WriteFile(path, content, 0o600))
	binary.BigEndian.PutUint32(content[8:], 9)
	future := filepath.Join(filepath.Dir(path), "z"+spoolSuffix)
	must(t, os.WriteFile(future, content, 0o600))
	must(t, s.Append(ctx, sample(2, 1)))
	if got := bySeq(collectRecords(t, s, Filter{Run: 1})); len(got) != 3 || got[1].Note != "another" {
		t.Errorf("%d records, the second: %+v", len(got), got[1])
	}
	if files := spoolFiles(t, s.dir); len(files) != 1 || files[0] != future {
		t.Errorf("in the spool: %v, want what a later version left", files)
	}
}

func TestSpoolIsBounded(t *testing.T) {
	s, err := Open(t.TempDir(), Options{MaxBytes: 8 << 10, BackupEvery: -1})
	must(t, err)
	list := []spooled{}
	for _, r := range samples(1, 0, 20) {
		key, value, err := r.encode()
		must(t, err)
		list = append(list, spooled{bucketSample, pair{key, value}})
	}
	must(t, s.spool(list))
	if err := s.spool(list); err == nil || !strings.Contains(err.Error(), "wait there already") {
		t.Errorf("a second one: %v, want that it is too much", err)
	}
}

func FuzzDecodeSpool(f *testing.F) {
	key, value, err := sample(1, 1).encode()
	must(f, err)
	f.Add(encodeSpool([]spooled{{bucketSample, pair{key, value}}}))
	f.Add([]byte(spoolMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeSpool(b)
		if err != nil {
			return
		}
		if again := encodeSpool(list); len(again) != len(b) || !bytes.Equal(again[spoolHeaderBytes:], b[spoolHeaderBytes:]) {
			t.Errorf("%x is written again as %x", b, again)
		}
	})
}
