package history

import (
	"context"
	"errors"
	"os"
	"testing"
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
