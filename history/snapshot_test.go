package history

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSnapshotRoundTrip(t *testing.T) {
	want := &Snapshot{Generation: 1<<63 + 5, Learned: []Learned{learned(modelA, "decode", 3)}, Pins: []Pin{{Model: modelA, Config: []byte(`{"a":"<"}`), At: epoch}}}
	content, err := want.encode()
	must(t, err)
	got, err := decodeSnapshot(content)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadSnapshotOfNone(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadSnapshot(dir); !errors.Is(err, ErrNoSnapshot) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v, want ErrNoSnapshot", err)
	}
	openTest(t, dir)
	if _, err := ReadSnapshot(dir); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("a store in which nothing was published: %v, want ErrNoSnapshot", err)
	}
}

// Every single-byte change and every truncation of a snapshot is noticed.
func TestSnapshotDamage(t *testing.T) {
	content, err := (&Snapshot{Generation: 3, Learned: []Learned{learned(modelA, "decode", 1)}}).encode()
	must(t, err)
	for i := range content {
		damaged := append([]byte(nil), content...)
		damaged[i] ^= 1 << (i % 8)
		if _, err := decodeSnapshot(damaged); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d changed: %v, want ErrCorrupt", i, err)
		}
		if _, err := decodeSnapshot(content[:i]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v, want ErrCorrupt", i, err)
		}
	}
	if _, err := decodeSnapshot(append(content, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte more: %v, want ErrCorrupt", err)
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, snapshotName), 0o700))
	if _, err := ReadSnapshot(dir); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a directory: %v, want ErrCorrupt", err)
	}
}

func TestDamagedSnapshotIsWrittenAnew(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	must(t, s.Publish(context.Background(), learned(modelA, "decode", 1)))
	path := filepath.Join(dir, snapshotName)
	must(t, os.WriteFile(path, []byte("rubbish"), 0o600))
	if report, err := s.Check(context.Background()); err != nil || report.OK || !strings.HasPrefix(report.Problems[0], snapshotName) {
		t.Errorf("Check: %+v, %v", report, err)
	}
	openTest(t, dir)
	if snap, err := ReadSnapshot(dir); err != nil || len(snap.Learned) != 1 {
		t.Errorf("after Open: %+v, %v", snap, err)
	}
}

func TestReader(t *testing.T) {
	dir := t.TempDir()
	r := NewReader(dir)
	if snap, err := r.Load(); snap != nil || !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("%v, %v, want ErrNoSnapshot", snap, err)
	}
	s := openTest(t, dir)
	for i := 1; i <= 20; i++ { // faster than the ticks of a file's timestamp
		must(t, s.Publish(context.Background(), learned(modelA, "decode", i)))
		snap, err := r.Load()
		must(t, err)
		if snap.Learned[0].Evaluations != i {
			t.Fatalf("Load returned version %d after %d was published", snap.Learned[0].Evaluations, i)
		}
	}
	path := filepath.Join(dir, snapshotName)
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, old, old)) // now it is old enough for its identity to be trusted
	first, err := r.Load()
	must(t, err)
	if again, err := r.Load(); again != first || err != nil {
		t.Errorf("an unchanged file was read again: %v", err)
	}
	must(t, s.Publish(context.Background(), learned(modelA, "decode", 21)))
	if snap, err := r.Load(); err != nil || snap.Learned[0].Evaluations != 21 {
		t.Errorf("%+v, %v", snap, err)
	}
	must(t, os.WriteFile(path, []byte("rubbish"), 0o600))
	if snap, err := r.Load(); !errors.Is(err, ErrCorrupt) || snap == nil || snap.Learned[0].Evaluations != 21 {
		t.Errorf("a damaged file: %+v, %v; want the last good one and ErrCorrupt", snap, err)
	}
	must(t, s.Publish(context.Background(), learned(modelA, "decode", 22)))
	if snap, err := r.Load(); err != nil || snap.Learned[0].Evaluations != 22 {
		t.Errorf("after mending: %+v, %v", snap, err)
	}
}

func TestReaderEvery(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	must(t, s.Publish(context.Background(), learned(modelA, "decode", 1)))
	r := NewReader(dir)
	r.Every = time.Hour
	first, err := r.Load()
	must(t, err)
	must(t, s.Publish(context.Background(), learned(modelA, "decode", 2)))
	if snap, err := r.Load(); snap != first || err != nil {
		t.Errorf("the file was looked at again: %v", err)
	}
	if n := testing.AllocsPerRun(100, func() { r.Load() }); n > 0 {
		t.Errorf("%v allocations a call, want 0", n)
	}
}

func TestReaderIsSafeForConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	must(t, s.Publish(context.Background(), learned(modelA, "decode", 0)))
	r := NewReader(dir)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			seen := 0
			for {
				select {
				case <-done:
					return
				default:
				}
				snap, err := r.Load()
				if err != nil || snap.Learned[0].Evaluations < seen {
					t.Errorf("%v, or went back from %d", err, seen)
					return
				}
			}
		})
	}
	for i := 1; i <= 30; i++ {
		must(t, s.Publish(context.Background(), learned(modelA, "decode", i)))
	}
	close(done)
	wg.Wait()
}
