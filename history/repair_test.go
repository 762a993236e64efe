package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// twoFind makes a damaged database that two stores have opened, each as a process of its own would.
func twoFind(t *testing.T) (a, b *Store) {
	t.Helper()
	dir := t.TempDir()
	s := openBefore(t, dir)
	must(t, os.WriteFile(s.databasePath(), make([]byte, 1<<16), 0o600))
	for _, store := range []**Store{&a, &b} {
		var err error
		if *store, err = Open(dir, Options{}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("Open: %v, want ErrCorrupt", err)
		}
	}
	return a, b
}

// goOn lets a begin a new database and append to it, and expects that b leaves it alone.
func goOn(t *testing.T, a, b *Store, repairB func() (Repaired, error)) {
	t.Helper()
	ctx := context.Background()
	first, err := a.Repair(ctx)
	must(t, err)
	must(t, a.Append(ctx, samples(1, 0, 50)...))
	if second, err := repairB(); second.Path != first.Path || err != nil {
		t.Errorf("the second Repair: %+v, %v, want %q where the first put it", second, err, first.Path)
	}
	must(t, b.Append(ctx, sample(2, 1)))
	if got := len(collectRecords(t, a, Filter{})); got != 51 {
		t.Errorf("%d records, want the 50 of the first and the 1 of the second", got)
	}
	checkSound(t, b)
}

func TestRepairByAnotherProcess(t *testing.T) {
	t.Run("before it looks", func(t *testing.T) {
		a, b := twoFind(t)
		goOn(t, a, b, func() (Repaired, error) { return b.Repair(context.Background()) })
	})
	t.Run("after it has looked", func(t *testing.T) {
		a, b := twoFind(t)
		condemned, _, err := b.condemn(context.Background())
		must(t, err)
		defer condemned.Close()
		goOn(t, a, b, func() (Repaired, error) { return b.replace(context.Background(), condemned) })
	})
}

// A database that took the place of the damaged one is repaired when it is damaged in its turn, by whoever writes.
func TestRepairOfTheSecondDatabase(t *testing.T) {
	ctx := context.Background()
	a, b := twoFind(t)
	first, err := a.Repair(ctx)
	must(t, err)
	must(t, b.Append(ctx, sample(1, 1)))
	must(t, os.WriteFile(a.databasePath(), make([]byte, 1<<16), 0o600))
	if err := b.Append(ctx, sample(1, 2)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Append to a store that was damaged when it was opened: %v, want ErrCorrupt", err)
	}
	must(t, a.Append(ctx, sample(1, 2)))
	second, err := b.Repair(ctx)
	must(t, err)
	if second.Path == "" || second.Path == first.Path {
		t.Errorf("put aside as %q, the first as %q", second.Path, first.Path)
	}
}

// One damaged record does not keep the history damaged for ever.
func TestRepairOfOneRecord(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	must(t, s.Append(ctx, samples(1, 0, 100)...))
	must(t, s.PutRun(ctx, Run{ID: 1, Host: hostA, Model: modelA}))
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	must(t, s.Publish(ctx, learned(modelA, "decode", 2)))
	must(t, s.SetPin(ctx, Pin{Model: modelB, Config: json.RawMessage(`{}`)}))
	_, err := s.RemovePin(ctx, modelB)
	must(t, err)
	_, _, err = s.Compact(ctx) // so that no older page has the record
	must(t, err)
	flipSample(t, s.databasePath(), 40)
	report, err := s.Check(ctx)
	if err != nil || report.OK || report.Records != 99 {
		t.Fatalf("Check: %+v, %v, want one damaged record", report, err)
	}
	done, err := s.Repair(ctx)
	must(t, err)
	want := Repaired{Path: done.Path, Records: 99, Stored: 100, Lost: 1, Runs: 1, Learned: 1}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("repaired (-want +got)\n%s", diff)
	}
	if !strings.Contains(done.String(), "lost 1 of 100") {
		t.Errorf("it says %q", done)
	}
	checkSound(t, s)
	if got := len(collectRecords(t, s, Filter{})); got != 99 {
		t.Errorf("%d records, want 99", got)
	}
	must(t, s.Append(ctx, samples(1, 0, 100)...)) // whoever still has it brings it back
	if got := len(collectRecords(t, s, Filter{})); got != 100 {
		t.Errorf("%d records, want 100", got)
	}
}

// The newest meta page is damaged: bbolt goes back to the commit before without a word.
func TestRepairBringsTheLastCommitBack(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	must(t, s.Append(ctx, samples(1, 0, 30)...))
	must(t, s.Append(ctx, samples(1, 30, 40)...))
	content, err := os.ReadFile(s.databasePath())
	must(t, err)
	newest := 0
	if binary.LittleEndian.Uint64(content[pageSize+pageHeaderBytes+48:]) > binary.LittleEndian.Uint64(content[pageHeaderBytes+48:]) {
		newest = pageSize
	}
	content[newest+pageHeaderBytes+20] ^= 1
	must(t, os.WriteFile(s.databasePath(), content, 0o600))
	again, err := Open(s.dir, Options{})
	must(t, err)
	if got := len(collectRecords(t, again, Filter{})); got != 30 {
		t.Errorf("%d records, want the 30 of the commit before", got)
	}
	if warnings := fmt.Sprint(again.Warnings()); !strings.Contains(warnings, "rolled back") {
		t.Errorf("Warnings: %v, want that it was rolled back", warnings)
	}
	report, err := again.Check(ctx)
	if err != nil || report.OK || !strings.Contains(fmt.Sprint(report.Problems), "generation") {
		t.Errorf("Check: %+v, %v", report, err)
	}
	done, err := again.Repair(ctx)
	must(t, err)
	if got := len(collectRecords(t, again, Filter{})); got != 40 {
		t.Errorf("%d records after %s, want all 40", got, done)
	}
}

// What only a backup has comes back, pruned records do not.
func TestRepairFromABackup(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	must(t, s.Append(ctx, samples(1, 0, 140)...)) // 20 of each of 7 settings
	_, err := s.Backup(ctx, "")
	must(t, err)
	_, err = s.Prune(ctx, Retention{PerCell: 10})
	must(t, err)
	must(t, s.Append(ctx, samples(2, 0, 7)...))
	must(t, os.WriteFile(s.databasePath(), bytes.Repeat([]byte{0xA5}, 1<<16), 0o600))
	done, err := s.Repair(ctx)
	must(t, err)
	if done.Records != 140 || done.Backup != 140 {
		t.Errorf("repaired %+v, want the 140 records of the backup: what was pruned since is not known any more", done)
	}

	_, err = s.Prune(ctx, Retention{PerCell: 10})
	must(t, err)
	flipSample(t, s.databasePath(), 5)
	done, err = s.Repair(ctx)
	must(t, err)
	sums, err := s.Aggregates(ctx, Filter{})
	must(t, err)
	n := 0
	for _, sum := range sums {
		n += sum.Statuses[StatusOK]
	}
	if done.Records != 70 || n != 70 {
		t.Errorf("repaired %+v with %d summed up, want 70 and 70: pruned records must not come back", done, n)
	}
}

func TestQuarantineKeepsThree(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	must(t, s.Append(ctx, sample(1, 1)))
	var last Repaired
	for range 5 {
		must(t, os.WriteFile(s.databasePath(), make([]byte, 1<<15), 0o600))
		must(t, s.Append(ctx, sample(1, 1)))
		must(t, os.WriteFile(s.databasePath(), make([]byte, 1<<15), 0o600))
		var err error
		last, err = s.Repair(ctx)
		must(t, err)
	}
	kept, err := filepath.Glob(filepath.Join(s.dir, quarantineName, "*"))
	must(t, err)
	if len(kept) != 3 || !slices.Contains(kept, last.Path) {
		t.Errorf("in quarantine: %v, want three with the newest, %s", kept, last.Path)
	}
}
