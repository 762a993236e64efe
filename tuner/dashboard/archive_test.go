package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

func TestAValueIsMadeOnceForAll(t *testing.T) {
	now := time.Unix(1000, 0)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	var made atomic.Int32
	takes := time.Duration(0)
	remake := func(_ context.Context, last int32) (int32, error) {
		pass(takes)
		return made.Add(1), nil
	}
	k := newKept[int32](t.Context())
	get := func() int32 {
		v, err := k.get(t.Context(), clock, time.Second, remake)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { get() })
	}
	all.Wait()
	if made.Load() != 1 {
		t.Fatalf("made %d times for 100 at once", made.Load())
	}
	pass(time.Second - 1)
	if get() != 1 {
		t.Error("made anew though it is fresh")
	}
	pass(1)
	takes = time.Second
	if get() != 2 {
		t.Error("not made anew")
	}
	pass(20*time.Second - 1) // a value that takes a second is made anew after 20
	if get() != 2 {
		t.Error("dear to make, and made too often")
	}
	pass(1)
	if get() != 3 {
		t.Error("not made anew")
	}
	pass(-time.Hour)
	if get() != 4 {
		t.Error("a clock that was set back keeps it for ever")
	}
	pass(time.Hour)
	broken := errors.New("broken")
	for _, remake := range []func(context.Context, int32) (int32, error){func(context.Context, int32) (int32, error) { return 0, broken }, remake} {
		if _, err := k.get(t.Context(), clock, time.Second, remake); err != broken {
			t.Errorf("%v: an error is as dear as a value, and kept as long", err)
		}
	}
	pass(time.Second)
	if get() != 5 {
		t.Error("an error is kept for ever")
	}
	pass(time.Hour)
	busy := func(context.Context, int32) (int32, error) { pass(2 * time.Second); return 0, history.ErrBusy }
	if _, err := k.get(t.Context(), clock, time.Second, busy); !errors.Is(err, history.ErrBusy) {
		t.Errorf("busy: %v", err)
	}
	pass(time.Second)
	if takes = 0; get() != 6 {
		t.Error("that the store was busy is told long after")
	}
	pass(time.Hour)
	gone, leave := context.WithCancel(t.Context())
	if _, err := k.get(gone, clock, time.Second, func(ctx context.Context, last int32) (int32, error) {
		if leave(); ctx.Err() != nil {
			return last, ctx.Err()
		}
		return remake(ctx, last)
	}); err != nil {
		t.Errorf("what was begun ends with who asked first: %v", err)
	}
	if get() != 7 {
		t.Error("begun again, since who asked first has gone")
	}
	k.turn <- struct{}{} // somebody makes it
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.get(ctx, clock, 0, remake); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up while waiting: %v", err)
	}
	life, end := context.WithCancel(t.Context())
	end()
	if _, err := newKept[int32](life).get(t.Context(), clock, 0, remake); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// However often the page is loaded, the history is read when it has changed and not otherwise.
func TestReloadingCostsTheStoreNothing(t *testing.T) {
	store := t.TempDir()
	learn(t, openSimulated(t, store))
	v := open(t, store, nil)
	first, err := v.server.archive(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now()
	v.server.opt.Now = func() time.Time { return later }
	for range 3 {
		later = later.Add(time.Hour) // nothing is fresh any more
		if again, err := v.server.archive(t.Context(), anyModel); again != first || err != nil {
			t.Fatalf("read again: %v", err)
		}
	}
	later = later.Add(time.Hour)
	appendRecords(t, store, record(first.model, first.runs[0].ID, 1000, nil))
	if again, err := v.server.archive(t.Context(), anyModel); again == first || err != nil {
		t.Errorf("a change was not seen: %v", err)
	}
	_, header, _ := v.ask("GET", modelPath+"/space", "")
	if status, _, body := v.ask("GET", modelPath+"/space", "", "If-None-Match", header.Get("Etag")); status != http.StatusNotModified || len(body) > 0 {
		t.Errorf("unchanged: %d with %d bytes", status, len(body))
	}
}

// record is one of a decode arm with another yardstick.
func record(of model.Model, run uint64, seq uint32, change func(*history.Record)) history.Record {
	arm, err := json.Marshal(target.Arm{Layout: "i2s", Kernel: "mul/i2s/generic", Threads: int(seq%4) + 1, Batch: 1})
	if err != nil {
		panic(err)
	}
	r := history.Record{
		Run: run, Seq: seq, Time: time.Now().UTC(), Host: simulatedHost.Fingerprint(), Model: of.Fingerprint(), Target: "cpu", Regime: "decode",
		Config: arm, Kernel: "mul/i2s/generic", Signature: "table/yardstick", Status: history.StatusOK, Costs: []float64{0.5, 0.5}, Samples: []float64{1e6, 1e6},
	}
	if change != nil {
		change(&r)
	}
	return r
}

func appendRecords(t *testing.T, dir string, records ...history.Record) {
	t.Helper()
	store, err := history.Open(dir, history.Options{})
	if err == nil {
		err = store.Append(t.Context(), records...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What cannot be compared is not shown side by side.
func TestSpaceHoldsWhatCanBeCompared(t *testing.T) {
	dir := t.TempDir()
	of, err := model.Load(anyModel)
	if err != nil {
		t.Fatal(err)
	}
	store, err := history.Open(dir, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-time.Hour).UTC()
	run := history.Run{ID: history.NewRunID(began), Started: began, Host: simulatedHost.Fingerprint(), Model: of.Fingerprint(), Target: "cpu", Objective: "mixed", Strategy: "auto"}
	elsewhere := run
	elsewhere.ID, elsewhere.Host = run.ID+1, "00000000000000000000000000000000"
	comparison := run
	comparison.ID, comparison.Strategy, comparison.Finished, comparison.Verdict = run.ID+2, compareStrategy, began.Add(time.Minute), "ADOPT"
	for _, r := range []history.Run{run, elsewhere, comparison} {
		if err := store.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	old := func(r *history.Record) { r.Signature, r.Time = "older/yardstick", began }
	appendRecords(t, dir,
		record(of, run.ID, 0, nil),
		record(of, run.ID, 1, func(r *history.Record) { r.Status, r.Costs, r.Samples = history.StatusCrash, nil, nil }),
		record(of, run.ID, 2, nil),
		record(of, run.ID, 3, old), record(of, run.ID, 4, old), record(of, run.ID, 5, old), record(of, run.ID, 6, old),
		record(of, comparison.ID, 7, func(r *history.Record) { r.Signature = "table/other" }),
		record(of, run.ID, 8, func(r *history.Record) { r.Regime = "online/decode/1/0" }),
		record(of, elsewhere.ID, 9, func(r *history.Record) { r.Host, r.Costs = elsewhere.Host, []float64{0.1} }),
		record(of, run.ID, 10, func(r *history.Record) { r.Config = json.RawMessage(`"no arm"`) }),
		record(of, run.ID, 11, func(r *history.Record) { // of a layout that this build does not know
			r.Config = json.RawMessage(`{"layout":"from-the-future","kernel":"mul/future/avx9","threads":2,"batch":1}`)
		}),
	)
	v := open(t, dir, nil)
	var s spaces
	v.get(modelPath+"/space", &s)
	if len(s.Regimes) != 1 || s.Regimes[0].Reference != toHeuristic {
		t.Fatalf("%+v", s)
	}
	got := map[int]measured{}
	for _, m := range s.Regimes[0].Cells {
		got[m.Threads] = m
		if m.Layout != "from-the-future" && m.Status == history.StatusOK && (m.Ratio != 2 || m.Rate != 1000 || m.Samples != 2) {
			t.Errorf("%+v, want 2 times the heuristic at 1000 tokens/s", m)
		}
	}
	if len(s.Regimes[0].Cells) != 4 || got[2].Ratio == 0 && got[2].Status == "" {
		t.Errorf("%+v: want three arms of the table and one of a layout nobody knows", s.Regimes[0].Cells)
	}
	var k table
	v.get(modelPath+"/kernels", &k)
	if i := slices.IndexFunc(k.Rows, func(r row) bool { return r.Layout == "from-the-future" }); i < 0 || k.Rows[i].Bytes != 0 || k.Rows[i].Ops == 0 {
		t.Errorf("%+v", k.Rows)
	}
	var c curves
	v.get(modelPath+"/convergence", &c)
	if len(c.Runs) != 1 || c.Runs[0].Running || !c.Runs[0].Finished.IsZero() {
		t.Errorf("%+v: want the one run of this host that searched, cut short", c)
	}
	var e entries
	v.get(modelPath+"/timeline", &e)
	if len(e.Entries) != 1 || e.Entries[0].Kind != kindCompare {
		t.Errorf("%+v", e)
	}
}

func TestLongCurvesKeepTheirBest(t *testing.T) {
	g := group{cpu, target.Decode}
	a := &archive{}
	r := &run{Run: history.Run{Started: time.Unix(0, 0)}}
	for i := range 3000 {
		arm := &seen{group: g, signature: "t/y", arm: target.Arm{Threads: i + 1}}
		cost := 2.0
		if i%1000 == 999 {
			cost = 1 / float64(i)
		}
		a.arms = append(a.arms, arm)
		r.trials = append(r.trials, trial{seq: uint32(i), at: time.Unix(int64(i), 0), arm: arm, cost: cost, status: history.StatusOK})
	}
	c := a.curve(r, g)
	last := c.Points[len(c.Points)-1]
	if len(c.Points) > mostPoints+3 || c.Left != 3000-len(c.Points) || last.Evaluation != 3000 || last.Best != 2999 || last.Seconds != 2999 {
		t.Errorf("%d points, %d left out, the last %+v", len(c.Points), c.Left, last)
	}
}

func TestDamageIsTold(t *testing.T) {
	store := t.TempDir()
	learn(t, openSimulated(t, store))
	v := open(t, store, nil)
	if status, _, body := v.ask("GET", "/readyz", ""); status != http.StatusOK {
		t.Errorf("ready: %d %s", status, body)
	}
	for _, name := range []string{"current.cfg", "history.db"} {
		path := filepath.Join(store, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := len(data) / 4; i < len(data)*3/4; i++ {
			data[i] ^= 0xa5
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range views { // an answer, or an error: no view is missing for the damage of another
		path := strings.Replace(w.path, "{model}", anyModel, 1)
		status, _, body := v.ask("GET", path, "")
		var doc map[string]any
		if err := json.Unmarshal(body, &doc); err != nil || status >= 400 && doc["error"] == nil {
			t.Errorf("%s: %d %v\n%s", path, status, err, body)
		}
	}
	status, _, body := v.ask("GET", "/readyz", "")
	if status != http.StatusServiceUnavailable || string(body) != `{"ready":false,"reason":"what was learned cannot be read"}`+"\n" {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := v.ask("GET", "/healthz", ""); status != http.StatusOK {
		t.Errorf("alive: %d", status)
	}
}

// A run is related to the yardstick that it was measured with, whatever came later.
func TestCurvesAreRelatedToTheirOwnYardstick(t *testing.T) {
	g, standard := group{cpu, target.Decode}, target.Arm{Kernel: "standard", Threads: 2}
	verdict := tuner.RegimeVerdict{Regime: target.Decode, Default: standard}
	a := &archive{}
	for i, cost := range []float64{2, 4} { // of the default to one heuristic, and to a better one
		signature := fmt.Sprintf("table/%d", i)
		arm := &seen{group: g, signature: signature, arm: target.Arm{Kernel: "other", Threads: 2}, costs: []float64{1}}
		was := &seen{group: g, signature: signature, arm: standard, costs: []float64{cost}}
		a.arms = append(a.arms, arm, was)
		r := &run{Run: history.Run{Target: cpu}, trials: []trial{{arm: was, cost: cost}, {arm: arm, cost: 1}}}
		r.proof.Regimes = []tuner.RegimeVerdict{verdict}
		a.runs = append(a.runs, r)
	}
	for i, want := range []float64{2, 4} {
		c := a.curve(a.runs[i], g)
		if len(c.Points) != 2 || c.Reference != toDefault || c.Points[0].Ratio != 1 || c.Points[1].Best != want {
			t.Errorf("run %d: %+v, want %v times the default in the end", i, c, want)
		}
	}
}

// A damaged database is said to be one, and hides nothing that others tell.
func TestADamagedHistoryLeavesTheRest(t *testing.T) {
	store := t.TempDir()
	cert := learn(t, openSimulated(t, store))
	for _, before := range []bool{false, true} {
		v := open(t, store, nil)
		if status, answer := v.order("pin", `{"by": "ada"}`); status != http.StatusOK {
			t.Fatalf("%d: %s", status, answer)
		}
		if before {
			v.get(modelPath+"/certificate", &cert)
		}
		path := filepath.Join(store, "history.db")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat("x", len(whole))), 0o600); err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(time.Hour)
		v.server.opt.Now = func() time.Time { return later } // nothing is fresh any more
		var e entries
		v.get(modelPath+"/timeline", &e)
		if !slices.ContainsFunc(e.Entries, func(x entry) bool { return x.Kind == kindPin }) || e.Damage == "" {
			t.Errorf("known before: %t: %+v", before, e)
		}
		if knows := slices.ContainsFunc(e.Entries, func(x entry) bool { return x.Run == cert.Run }); knows != before {
			t.Errorf("known before: %t, the tune is in the timeline: %t", before, knows)
		}
		var shown struct {
			tuner.Certificate
			nothing
		}
		v.get(modelPath+"/certificate", &shown)
		if (shown.Run == cert.Run) != before || (shown.None != "") == before || !before && shown.Damage == "" {
			t.Errorf("known before: %t: certificate of %q, %+v", before, shown.Run, shown.nothing)
		}
		if err := v.end(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
