package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// readVictim makes a victim and returns its file.
func readVictim(t *testing.T) victim {
	t.Helper()
	dir := t.TempDir()
	makeVictim(t, dir)
	now, err := os.ReadFile(filepath.Join(dir, databaseName))
	must(t, err)
	return victim{now: now}
}

// preflightOf checks the content of a database.
func preflightOf(t *testing.T, content []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), databaseName)
	must(t, os.WriteFile(path, content, 0o600))
	_, err := preflight(path)
	return err
}

// bbolt follows each of these for ever, or takes memory without a bound, so preflight must not let one pass.
func TestPreflightRefusesWhatBboltFollowsForEver(t *testing.T) {
	v := readVictim(t)
	must(t, preflightOf(t, v.now))
	refused := func(t *testing.T, what string, at int, change func(at []byte)) {
		t.Helper()
		was := append([]byte(nil), v.now[at:at+pageHeaderBytes]...)
		change(v.now[at:])
		if err := preflightOf(t, v.now); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s, byte %d: %v, want ErrCorrupt", what, at, err)
		}
		copy(v.now[at:], was)
	}
	for _, kind := range []uint16{flagFreelist, flagBranch} {
		branches, targets := v.misled(kind)
		if len(branches) == 0 || len(targets) == 0 {
			t.Fatalf("kind %#x: %d branches, %d pages to point at", kind, len(branches), len(targets))
		}
		for _, id := range branches {
			count := int(binary.LittleEndian.Uint16(v.now[id*pageSize+10:]))
			for _, element := range []int{0, count / 2, count - 1} {
				for _, target := range targets {
					refused(t, "a branch to a page that is no leaf", id*pageSize+16+16*element+8, func(at []byte) { binary.LittleEndian.PutUint64(at, uint64(target)) })
				}
			}
		}
	}
	for id, reached := range v.reached() {
		if reached {
			refused(t, "a page with 4 billion continuations", id*pageSize+12, func(at []byte) { binary.LittleEndian.PutUint32(at, 1<<32-1) })
		}
	}
	for _, at := range inlineBuckets(t, v) {
		refused(t, "a small bucket that is no leaf", at+bucketBytes+8, func(at []byte) { binary.LittleEndian.PutUint16(at, 0) })
		refused(t, "a small bucket of many elements", at+bucketBytes+10, func(at []byte) { binary.LittleEndian.PutUint16(at, 0xFFFF) })
	}
}

// inlineBuckets returns the offsets of the buckets of which the leaf at the root holds all.
func inlineBuckets(t *testing.T, v victim) (offsets []int) {
	t.Helper()
	m, _, err := readMetas(bytes.NewReader(v.now))
	must(t, err)
	root := int(m.root) * pageSize
	for i := range int(binary.LittleEndian.Uint16(v.now[root+10:])) {
		at := root + pageHeaderBytes + i*elementBytes
		value := at + int(binary.LittleEndian.Uint32(v.now[at+4:])) + int(binary.LittleEndian.Uint32(v.now[at+8:]))
		if binary.LittleEndian.Uint64(v.now[value:]) == 0 {
			offsets = append(offsets, value)
		}
	}
	if len(offsets) == 0 {
		t.Fatal("no bucket lies inline")
	}
	return offsets
}

func TestGuardGivesUp(t *testing.T) {
	s := openTest(t, t.TempDir())
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		want error
	}{{"the limit", context.Background(), ErrCorrupt}, {"the context", ended, context.Canceled}} {
		t.Run(test.name, func(t *testing.T) {
			release, done := make(chan struct{}), make(chan struct{})
			err := guard{s.databasePath(), true, 1 << 20, 20 * time.Millisecond}.run(test.ctx, func(*bolt.DB) error {
				defer close(done)
				<-release
				return nil
			})
			if !errors.Is(err, test.want) || !errors.Is(err, errStuck) {
				t.Errorf("error %v, want %v and that it is stuck", err, test.want)
			}
			close(release)
			<-done
		})
	}
}

// A commit that is under way when its context ends is waited for, so that its outcome is known.
func TestGuardWaitsForACommitUnderWay(t *testing.T) {
	s := openTest(t, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	must(t, guard{s.databasePath(), true, 1 << 20, time.Minute}.run(ctx, func(*bolt.DB) error {
		cancel()
		time.Sleep(20 * time.Millisecond)
		return nil
	}))
}

// What a store has vetted it looks at again once another has written it.
func TestDamageUnderAnOpenStore(t *testing.T) {
	v := readVictim(t)
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	must(t, err)
	must(t, os.WriteFile(s.databasePath(), v.now, 0o600))
	if got := len(collectRecords(t, s, Filter{})); got != victimRecords {
		t.Fatalf("%d records, want %d", got, victimRecords)
	}
	must(t, s.Append(context.Background(), sample(9, 1)))
	branches, targets := v.misled(flagFreelist)
	for _, id := range branches {
		binary.LittleEndian.PutUint64(v.now[id*pageSize+16+8:], uint64(targets[0]))
	}
	must(t, os.WriteFile(s.databasePath(), v.now, 0o600))
	later := time.Now().Add(time.Second)
	must(t, os.Chtimes(s.databasePath(), later, later))
	must(t, s.Append(context.Background(), sample(9, 2)))
	if warnings := s.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "lost 0 of 600") {
		t.Errorf("Warnings: %v, want one of the repair", warnings)
	}
	if got := len(collectRecords(t, s, Filter{Run: 1})); got != victimRecords {
		t.Errorf("%d records, want all %d: only branches were damaged", got, victimRecords)
	}
	checkSound(t, s)
}

func TestCommitErrorAndErrorOfReopeningAreBothTold(t *testing.T) {
	s, err := Open(t.TempDir(), Options{MaxBytes: 256 << 10})
	must(t, err)
	_, err = s.transact(context.Background(), func(w *writer) error {
		must(t, os.Remove(s.databasePath()))
		return w.put(bucketRun, []byte("key"), make([]byte, 512<<10))
	})
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, berrors.ErrMaxSizeReached) {
		t.Errorf("error %v, want the one of the commit and that of reopening", err)
	}
}
