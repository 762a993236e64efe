package history

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// aged returns records of one setting, one a day, the last of which was taken now.
func aged(run uint64, n int) []Record {
	recs := samples(run, 0, uint32(n))
	for i := range recs {
		recs[i].Time = time.Now().Add(time.Duration(i-n+1) * 24 * time.Hour)
		recs[i].Config = json.RawMessage(`{"threads":1}`)
	}
	return recs
}

func TestPrune(t *testing.T) {
	for _, test := range []struct {
		name      string
		records   int
		retention Retention
		kept      int
	}{
		{"few and young", 20, Retention{}, 20},
		{"too many", 28, Retention{PerCell: 10}, 10},
		{"too old", 60, Retention{}, 30},
		{"all too old", 20, Retention{MaxAge: time.Nanosecond}, keptPerCell},
		{"by age of ten days", 20, Retention{MaxAge: 10*24*time.Hour - time.Hour}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := context.Background()
			s := openTest(t, t.TempDir())
			recs := aged(1, test.records)
			must(t, s.Append(ctx, recs...))
			done, err := s.Prune(ctx, test.retention)
			must(t, err)
			gone := test.records - test.kept
			if diff := cmp.Diff(Pruned{Removed: gone, Kept: test.kept}, done); diff != "" {
				t.Errorf("pruned (-want +got)\n%s", diff)
			}
			got := bySeq(collectRecords(t, s, Filter{}))
			if len(got) != test.kept || got[len(got)-1].Seq != uint32(test.records-1) {
				t.Errorf("%d records, want the newest %d", len(got), test.kept)
			}
			sums, err := s.Aggregates(ctx, Filter{Host: hostA})
			must(t, err)
			checkSums(t, sums, recs[:gone])
		})
	}
}

// checkSums compares one aggregate with the records that it must sum up.
func checkSums(t *testing.T, sums []Aggregate, recs []Record) {
	t.Helper()
	if len(recs) == 0 {
		if len(sums) > 0 {
			t.Errorf("sums %+v of nothing", sums)
		}
		return
	}
	if len(sums) != 1 {
		t.Fatalf("%d sums, want 1", len(sums))
	}
	var costs []float64
	for _, r := range recs {
		costs = append(costs, r.Costs...)
	}
	slices.Sort(costs)
	var mean float64
	for _, c := range costs {
		mean += c / float64(len(costs))
	}
	m := sums[0].Costs
	if m.N != len(costs) || math.Abs(m.Mean-mean) > 1e-9 || m.Min != costs[0] || m.Max != costs[len(costs)-1] || sums[0].Statuses[StatusOK] != len(recs) {
		t.Errorf("sums %+v of %d records, want n %d, mean %v, %v to %v", m, len(recs), len(costs), mean, costs[0], costs[len(costs)-1])
	}
	if median := costs[(len(costs)-1)/2]; math.Abs(m.Quantile(0.5)/median-1) > 0.032 {
		t.Errorf("median %v, want %v within 3.2 %%", m.Quantile(0.5), median)
	}
	newest := slices.MaxFunc(recs, func(a, b Record) int { return a.Time.Compare(b.Time) })
	if last := recs[len(recs)-1]; sums[0].ThroughRun != last.Run || sums[0].ThroughSeq != last.Seq || !sums[0].Last.Equal(newest.Time) {
		t.Errorf("through run %d seq %d, last %s, want %d, %d and %s", sums[0].ThroughRun, sums[0].ThroughSeq, sums[0].Last, last.Run, last.Seq, newest.Time)
	}
}

// Pruning in several steps sums up as much as in one.
func TestPruneInSteps(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	var all []Record
	for run := range uint64(5) {
		recs := aged(run+1, 40)
		all = append(all, recs...)
		must(t, s.Append(ctx, recs...))
		_, err := s.Prune(ctx, Retention{PerCell: 25})
		must(t, err)
	}
	sums, err := s.Aggregates(ctx, Filter{})
	must(t, err)
	checkSums(t, sums, all[:len(all)-25])
}

// More records than one transaction removes, of many settings.
func TestPruneOfManyCompacts(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	const n = 14_000
	must(t, s.Append(ctx, samples(1, 0, n)...))
	done, err := s.Prune(ctx, Retention{PerCell: 100})
	must(t, err)
	want := Pruned{Removed: n - 700, Kept: 700, Compacted: true}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("pruned (-want +got)\n%s", diff)
	}
	if info, err := os.Stat(s.databasePath()); err != nil || info.Size() > 1<<20 {
		t.Errorf("%v bytes, %v", info.Size(), err)
	}
	if got := len(collectRecords(t, s, Filter{})); got != 700 {
		t.Errorf("%d records, want 700", got)
	}
}

func TestPruneStopsAtDamage(t *testing.T) {
	ctx := context.Background()
	s, err := Open(t.TempDir(), Options{})
	must(t, err)
	must(t, s.Append(ctx, aged(1, 40)...))
	_, _, err = s.Compact(ctx)
	must(t, err)
	flipSample(t, s.databasePath(), 10)
	done, err := s.Prune(ctx, Retention{PerCell: 10})
	must(t, err)
	if done.Damaged != 1 || done.Removed != 9 {
		t.Errorf("pruned %+v, want the 9 before the damaged record", done)
	}
}

func TestPruneRefuses(t *testing.T) {
	s := openTest(t, t.TempDir())
	for _, r := range []Retention{{PerCell: 1}, {PerCell: -1}, {MaxAge: -time.Hour}} {
		if _, err := s.Prune(context.Background(), r); err == nil {
			t.Errorf("%+v: no error", r)
		}
	}
}

func TestCompact(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, t.TempDir())
	must(t, s.Append(ctx, samples(1, 0, 5000)...))
	want := fmt.Sprint(collectRecords(t, s, Filter{}))
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	before, after, err := s.Compact(ctx)
	must(t, err)
	free, all, err := freePages(s.databasePath())
	must(t, err)
	if after > before || after == 0 || 20*free > all {
		t.Errorf("%d bytes before, %d after, with %d of %d pages free", before, after, free, all)
	}
	if fmt.Sprint(collectRecords(t, s, Filter{})) != want {
		t.Error("other records than before")
	}
	if len(openTest(t, s.dir).Warnings()) > 0 {
		t.Errorf("Warnings: %v", s.Warnings())
	}
}
