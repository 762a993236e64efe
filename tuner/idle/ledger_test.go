package idle

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ledger opens an account of 10 minutes a day whose clock the test moves.
func ledger(t *testing.T, path string, now *time.Time) *Ledger {
	t.Helper()
	l, note, err := OpenLedger(path, 10*time.Minute, func() time.Time { return *now })
	if err != nil || note != "" {
		t.Fatal(err, note)
	}
	return l
}

func TestBudgetIsKeptOverRestarts(t *testing.T) {
	now, path := noon, filepath.Join(t.TempDir(), "budget.json")
	settle, err := ledger(t, path, &now).Reserve(4 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := settle(time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := ledger(t, path, &now).Left(); got != 9*time.Minute {
		t.Errorf("left after a restart: %v, want 9m", got)
	}
	if _, err := ledger(t, path, &now).Reserve(4 * time.Minute); err != nil { // and killed before it settles
		t.Fatal(err)
	}
	l := ledger(t, path, &now)
	if got := l.Left(); got != 5*time.Minute {
		t.Errorf("left after a kill: %v, want 5m: what was reserved counts as spent", got)
	}
	if _, err := l.Reserve(6 * time.Minute); !errors.Is(err, ErrSpent) {
		t.Errorf("6 of 5 minutes: %v, want ErrSpent", err)
	}
	now = now.Add(25 * time.Hour)
	if got := l.Left(); got != 10*time.Minute {
		t.Errorf("left a day later: %v, want 10m", got)
	}
}

// In no 24 hours more is spent than the budget, however the charges fall.
func TestNoTwentyFourHoursSpendMoreThanTheBudget(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	now := noon
	l := ledger(t, "", &now)
	type spent struct {
		at time.Time
		d  time.Duration
	}
	var all []spent
	for range 5000 {
		now = now.Add(time.Duration(random.IntN(1200)) * time.Second)
		d := time.Duration(1+random.IntN(120)) * time.Second
		if settle, err := l.Reserve(d); err == nil {
			d = time.Duration(random.Int64N(int64(d)))
			if err := settle(d); err != nil {
				t.Fatal(err)
			}
			all = append(all, spent{now, d})
		}
	}
	var sum, most time.Duration
	from := 0
	for _, s := range all {
		for sum += s.d; s.at.Sub(all[from].at) >= 24*time.Hour; from++ {
			sum -= all[from].d
		}
		most = max(most, sum)
	}
	if most > 10*time.Minute || most < 8*time.Minute {
		t.Errorf("the most spent in 24 hours is %v, want close to 10m and not above it", most)
	}
}

func TestBudgetWhenTheClockJumps(t *testing.T) {
	now := noon
	l := ledger(t, "", &now)
	if _, err := l.Reserve(10 * time.Minute); err != nil {
		t.Fatal(err)
	}
	now = noon.AddDate(-10, 0, 0)
	if got := l.Left(); got != 0 {
		t.Errorf("left after the clock was set back: %v, want 0", got)
	}
	now = now.Add(25 * time.Hour)
	if got := l.Left(); got != 10*time.Minute {
		t.Errorf("left a day after the clock was set back: %v, want 10m", got)
	}
}

func TestDamagedAccountCountsAsSpent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budget.json")
	if err := os.WriteFile(path, []byte(`{"version":1,"charg`), 0o600); err != nil {
		t.Fatal(err)
	}
	l, note, err := OpenLedger(path, time.Minute, func() time.Time { return noon })
	if err != nil || note == "" || l.Left() != 0 {
		t.Errorf("left %v, note %q, error %v: want nothing left and a note", l.Left(), note, err)
	}
}

func TestNothingIsReservedThatCannotBeWritten(t *testing.T) {
	now := noon
	l := ledger(t, filepath.Join(t.TempDir(), "gone", "budget.json"), &now)
	if _, err := l.Reserve(time.Minute); err == nil || l.Spent() != 0 {
		t.Errorf("error %v, spent %v: want an error and nothing spent", err, l.Spent())
	}
}

func TestOneTunerToAHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.lock")
	unlock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrHeld) {
		t.Errorf("a second one: %v, want ErrHeld", err)
	}
	unlock()
	again, err := Lock(path)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	again()
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(link); err == nil {
		t.Error("a symbolic link was followed")
	}
}

// What a file says must not give more than a day's budget: a negative charge, or a sum that overflows, counts as all spent.
func TestAccountThatCannotBeIsSpent(t *testing.T) {
	now := noon
	for _, charges := range []string{
		`{"hour":"2026-03-01T12:00:00Z","cpu_ns":-1000000000000}`,
		`{"hour":"2026-03-01T12:00:00Z","cpu_ns":9223372036854775807},{"hour":"2026-03-01T11:00:00Z","cpu_ns":9223372036854775807}`,
	} {
		path := filepath.Join(t.TempDir(), "budget.json")
		if err := os.WriteFile(path, []byte(`{"version":1,"charges":[`+charges+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		l, note, err := OpenLedger(path, 10*time.Minute, func() time.Time { return now })
		if err != nil || note == "" || l.Left() != 0 {
			t.Errorf("%s: %v left, note %q, %v; want nothing left and a note", charges, l.Left(), note, err)
		}
	}
}
