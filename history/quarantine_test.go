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
func goOn(t *testing.T, a, b *Store, quarantineB func() (string, error)) {
	t.Helper()
	ctx := context.Background()
	aside, err := a.Quarantine(ctx)
	must(t, err)
	must(t, a.Append(ctx, samples(1, 0, 50)...))
	if path, err := quarantineB(); path != aside || err != nil {
		t.Errorf("the second Quarantine: %q, %v, want %q where the first put it", path, err, aside)
	}
	must(t, b.Append(ctx, sample(2, 1)))
	if got := len(collectRecords(t, a, Filter{})); got != 51 {
		t.Errorf("%d records, want the 50 of the first and the 1 of the second", got)
	}
	checkSound(t, b)
}

func TestQuarantineByAnotherProcess(t *testing.T) {
	t.Run("before it looks", func(t *testing.T) {
		a, b := twoFind(t)
		goOn(t, a, b, func() (string, error) { return b.Quarantine(context.Background()) })
	})
	t.Run("after it has looked", func(t *testing.T) {
		a, b := twoFind(t)
		condemned, _, err := b.condemn(context.Background())
		must(t, err)
		defer condemned.Close()
		goOn(t, a, b, func() (string, error) { return b.replace(context.Background(), condemned) })
	})
}

// A database that took the place of the damaged one is put aside when it is damaged in its turn.
func TestQuarantineOfTheSecondDatabase(t *testing.T) {
	ctx := context.Background()
	a, b := twoFind(t)
	first, err := a.Quarantine(ctx)
	must(t, err)
	must(t, b.Append(ctx, sample(1, 1)))
	must(t, os.WriteFile(a.databasePath(), make([]byte, 1<<16), 0o600))
	if err := b.Append(ctx, sample(1, 2)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Append: %v, want ErrCorrupt", err)
	}
	second, err := b.Quarantine(ctx)
	must(t, err)
	if second == "" || second == first {
		t.Errorf("put aside as %q, the first as %q", second, first)
	}
}
