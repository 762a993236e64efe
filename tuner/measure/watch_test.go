package measure

import (
	"errors"
	"testing"
	"time"
)

// script is a watcher that says what it is told, one entry a read.
type script []Counters

func (s *script) Read() (Counters, error) {
	if len(*s) == 0 {
		return Counters{}, errors.New("nothing left to read")
	}
	next := (*s)[0]
	*s = (*s)[1:]
	return next, nil
}

func TestGuardCensors(t *testing.T) {
	const ms = time.Millisecond
	at := func(when, steal time.Duration) Counters {
		return Counters{At: when * ms, Steal: steal * ms, StealTick: 10 * ms}
	}
	for _, c := range []struct {
		name  string
		reads script // the first is a mark, each other ends a sample
		want  []bool
	}{
		{"nothing happens", script{at(0, 0), at(1, 0), at(2, 0)}, []bool{false, false}},
		{"a period throttled", script{{}, {At: ms, Throttled: 1}, {At: 2 * ms, Throttled: 1}}, []bool{true, false}},
		{"throttled time alone", script{{}, {At: ms, ThrottledTime: 1}}, []bool{true}},
		{"the first tick proves nothing", script{at(0, 0), at(1, 10)}, []bool{false}},
		{"two ticks at once prove one", script{at(0, 0), at(20, 20)}, []bool{true}},
		{"a tick every 50 ms is a fifth", script{at(0, 0), at(1, 10), at(51, 20)}, []bool{false, true}},
		{"a tick every second is 1 %", script{at(0, 0), at(1, 10), at(1001, 20)}, []bool{false, false}},
		{"the second tick counts from before the first", script{at(0, 0), at(400, 10), at(401, 20), at(402, 20)}, []bool{false, false, false}},
		{"a tenth all along is usual", script{at(0, 0), at(1000, 100), at(1100, 110), at(1200, 160)}, []bool{true, false, true}},
		{"old totals are not growth", script{at(9000, 500), at(9001, 500)}, []bool{false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := guard{watcher: &c.reads, maxSteal: 0.05}
			g.mark()
			for i, want := range c.want {
				if got := g.disturbed(); got != want {
					t.Errorf("sample %d: disturbed = %v, want %v", i, got, want)
				}
			}
		})
	}
}

func TestGuardIgnoresWhatHappensBetweenRuns(t *testing.T) {
	reads := script{{}, {At: 1, Throttled: 0}, {At: 2, Throttled: 7}, {At: 3, Throttled: 7}}
	g := guard{watcher: &reads, maxSteal: 0.05}
	g.mark()
	g.disturbed()
	g.mark() // throttled in between
	if g.disturbed() {
		t.Error("a sample after the pause is censored for what happened in the pause")
	}
}

func TestGuardGivesUpOnAnError(t *testing.T) {
	reads := script{{}}
	g := guard{watcher: &reads, maxSteal: 0.05}
	g.mark()
	if g.disturbed() || g.err == nil {
		t.Errorf("disturbed after a failed read, or no error kept: %v", g.err)
	}
}
