package tuner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Nothing here is about speed, and a directory syncs to a disk that may be busy.
func init() { fleetPatience = time.Minute }

// openFleet opens a fleet that is looked at often.
func openFleet(t *testing.T, url string) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Open(t.Context(), fleet.Options{URL: url, Contributor: t.Name(), Timeout: 20 * time.Second, Poll: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func newFleet(t *testing.T) *fleet.Fleet { return openFleet(t, "dir://"+t.TempDir()) }

// said are the warnings of a run that are about the fleet.
func said(cert *Certificate) []string {
	return slices.DeleteFunc(slices.Clone(cert.Warnings), func(w string) bool { return !strings.Contains(w, "fleet") })
}

// with is open with a fleet.
func (s *simulated) with(t *testing.T, f Fleet, store string) *Tuner {
	t.Helper()
	tuner := s.open(t, store, 1)
	tuner.opt.Fleet = f
	return tuner
}

// brief is a run that a gain of a half is proven in.
var brief = Budget{Time: 5 * time.Second, Objective: ObjectiveDecode, Strategy: "random"}

// taught puts what another host of this class proved into the fleet, chunks for decode, and returns it.
func taught(t *testing.T, f Fleet) Config {
	t.Helper()
	l := learnedOn(t, *fourCores())
	var c Certificate
	var config Config
	if err := errors.Join(json.Unmarshal(l.Certificate, &c), json.Unmarshal(l.Config, &config)); err != nil {
		t.Fatal(err)
	}
	c.Best.Config = config
	entry, err := c.shared(l)
	if err != nil {
		t.Fatal(err)
	}
	if outcome, err := f.Push(t.Context(), entry); err != nil || outcome != fleet.Stored {
		t.Fatalf("%s, %v: want it stored", outcome, err)
	}
	return config
}

// by is a surface on which chunked arms take so many times as long as the others.
func by(factor float64) func(target.Regime, target.Arm) time.Duration {
	return func(_ target.Regime, a target.Arm) time.Duration {
		if a.Blocking.ChunkRows > 0 {
			return time.Duration(float64(10*time.Millisecond) * factor)
		}
		return 10 * time.Millisecond
	}
}

// What comes from a fleet is the answer only once it was found right and no slower on this very host.
func TestAReceivedConfigIsCheckedBeforeItIsUsed(t *testing.T) {
	f := newFleet(t)
	config := taught(t, f)
	for name, c := range map[string]struct {
		cost   func(target.Regime, target.Arm) time.Duration
		err    error
		want   Outcome
		source Source
		reason string
	}{
		"faster here too": {by(0.5), nil, Confirmed, NearHost, "from the fleet: measured on"},
		"the same here":   {flat, nil, Confirmed, NearHost, "checked here on"},
		"slower here":     {by(1.5), nil, Failed, Heuristic, "refused here on"},
		"wrong here":      {by(0.5), fmt.Errorf("row 7: %w", target.ErrMismatch), Failed, Heuristic, "row 7: result differs"},
		"too large here":  {by(0.5), target.ErrOutOfMemory, Failed, Heuristic, "out of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := &simulated{host: measuretest.New(2, measuretest.Jitter(0.005)), cost: c.cost, err: func(_ target.Regime, a target.Arm) error {
				if a.Blocking.ChunkRows > 0 {
					return c.err
				}
				return nil
			}}
			got, err := s.with(t, f, dir).Receive(t.Context(), anyModel, time.Minute)
			if err != nil || len(got.Received) != 1 || got.Received[0].Verdict != c.want {
				t.Fatalf("%+v, %v: want one config, %s", got, err, c.want)
			}
			plan := planned(t, dir) // of a process that knows no fleet
			if plan.Source != c.source || !strings.Contains(plan.Reason, c.reason) {
				t.Errorf("plan %s because %q, want %s because … %s …", plan.Source, plan.Reason, c.source, c.reason)
			}
			if uses := plan.Config.Decode == config.Decode; uses != (c.want == Confirmed) {
				t.Errorf("the plan uses what was received: %v", uses)
			}
			clear(s.seen)
			again, err := s.with(t, f, dir).Receive(t.Context(), anyModel, time.Minute)
			if err != nil || len(s.seen) > 0 {
				t.Errorf("pulled again: %v, and %d arms prepared: want the first outcome remembered", err, len(s.seen))
			} else if diff := cmp.Diff(got.Received, again.Received, cmpopts.IgnoreUnexported(RegimeCheck{})); diff != "" {
				t.Errorf("pulled again (-first +second):\n%s", diff)
			}
			if _, err := s.with(t, f, dir).Share(t.Context(), ""); !errors.Is(err, ErrNothingLearned) {
				t.Errorf("sharing what was received: %v, want that nothing was learned here", err)
			}
		})
	}
}

// What this host would never try is not tried because somebody says so: it may be correct and still take all memory.
func TestAnAbsurdConfigOfTheFleetIsNotTried(t *testing.T) {
	for name, damage := range map[string]func(*Config){
		"a batch without end":    func(c *Config) { c.Prefill.Batch = 1 << 16 },
		"threads beyond reach":   func(c *Config) { c.Decode.Threads = 5 },
		"a kernel of no build":   func(c *Config) { c.Decode.Kernel = "mul/i2s/abacus" },
		"a prefetch without end": func(c *Config) { c.Decode.Blocking.PrefetchBytes = 1 << 40 },
	} {
		t.Run(name, func(t *testing.T) {
			f, dir := newFleet(t), t.TempDir()
			l := learnedOn(t, *fourCores())
			var config Config
			if err := json.Unmarshal(l.Config, &config); err != nil {
				t.Fatal(err)
			}
			damage(&config)
			l.Config, _ = json.Marshal(config)
			entry, err := Certificate{Verdict: measure.Adopt, Best: Rated{Config: config}}.shared(l)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Push(t.Context(), entry); err != nil {
				t.Fatal(err)
			}
			s := quiet(fastest)
			got, err := s.with(t, f, dir).Receive(t.Context(), anyModel, time.Minute)
			if err != nil || len(got.Received) != 1 || got.Received[0].Verdict != Failed || len(s.seen) > 0 {
				t.Errorf("%+v, %v, %d arms prepared: want it refused unseen", got, err, len(s.seen))
			}
			cert, err := s.with(t, f, dir).Tune(t.Context(), anyModel, brief)
			if err != nil || len(said(cert)) != 1 || !strings.HasPrefix(said(cert)[0], "fleet: a config was left out: ") {
				t.Errorf("tune: %q, %v: want a line about what was left out", cert.Warnings, err)
			}
		})
	}
}

// A changed limit, or a changed condition, is a reason to check again; what was refused before does not count for ever.
func TestAReceivedConfigIsCheckedAgainUnderOtherConditions(t *testing.T) {
	f, dir := newFleet(t), t.TempDir()
	taught(t, f)
	for i, governor := range []string{"powersave", "performance", "performance"} {
		s := quiet(by(1.5))
		tuner := s.with(t, f, dir)
		tuner.host.Governor = governor
		if _, err := tuner.Receive(t.Context(), anyModel, time.Minute); err != nil {
			t.Fatal(err)
		}
		if checked := len(s.seen) > 0; checked != (i < 2) {
			t.Errorf("pull %d under %s: checked %v", i, governor, checked)
		}
	}
}

// What was accepted, and refused when it was checked again, is not the answer any more; accepted once more, it is again.
func TestTheLastCheckOfAReceivedConfigCounts(t *testing.T) {
	f, dir := newFleet(t), t.TempDir()
	taught(t, f)
	factor := 0.5
	s := quiet(func(r target.Regime, a target.Arm) time.Duration { return by(factor)(r, a) })
	for i, c := range []struct {
		governor string
		factor   float64
		want     Source
	}{{"performance", 0.5, NearHost}, {"powersave", 1.5, Heuristic}, {"ondemand", 0.5, NearHost}} {
		factor = c.factor
		tuner := s.with(t, f, dir)
		tuner.host.Governor = c.governor
		got, err := tuner.Receive(t.Context(), anyModel, time.Minute)
		if err != nil || len(s.seen) == 0 {
			t.Fatalf("pull %d: %v, %d arms prepared: want it checked", i, err, len(s.seen))
		}
		if got.Plan.Source != c.want {
			t.Errorf("pull %d under %s: plan %s because %q, want %s", i, c.governor, got.Plan.Source, got.Plan.Reason, c.want)
		}
	}
}

// What a host refused is no advice of the site prior that it ships.
func TestAPriorWithARefusedConfigIsNoAnswer(t *testing.T) {
	f, dir := newFleet(t), t.TempDir()
	taught(t, f)
	if _, err := quiet(by(1.5)).with(t, f, dir).Receive(t.Context(), anyModel, time.Minute); err != nil {
		t.Fatal(err)
	}
	snapshot, err := history.ReadSnapshot(dir)
	if err != nil || len(snapshot.Learned) != 1 {
		t.Fatalf("%d learned configs, %v: want the refused one", len(snapshot.Learned), err)
	}
	p := problemOn(*fourCores())
	p.prior = prior{path: "prior.json", learned: snapshot.Learned}
	if plan := p.plan(nil); plan.Source != Heuristic || !strings.Contains(plan.Reason, "refused") {
		t.Errorf("plan %s because %q, want the heuristic, because it was refused", plan.Source, plan.Reason)
	}
}

// An interrupted pull ends with one line, and leaves no run behind.
func TestAnInterruptedPull(t *testing.T) {
	f, dir := newFleet(t), t.TempDir()
	taught(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	s := quiet(fastest)
	tuner := s.with(t, f, dir)
	tuner.opt.Progress = func(e Event) {
		if e.Phase == "verify" {
			cancel()
		}
	}
	s.err = func(target.Regime, target.Arm) error { return ctx.Err() }
	_, err := tuner.Receive(ctx, anyModel, time.Minute)
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v: want one line that says that it was interrupted", err)
	}
}

// What was measured here is above everything received, and is not lost to it.
func TestWhatWasMeasuredHereStaysAboveTheFleet(t *testing.T) {
	f, dir := newFleet(t), t.TempDir()
	taught(t, f)
	tuned(t, quiet(fastest), dir, brief)
	if _, err := quiet(flat).with(t, f, dir).Receive(t.Context(), anyModel, time.Minute); err != nil {
		t.Fatal(err)
	}
	if plan := planned(t, dir); plan.Source != Measured {
		t.Errorf("plan %s because %q, want measured", plan.Source, plan.Reason)
	}
	snapshot, err := history.ReadSnapshot(dir)
	if err != nil || len(snapshot.Learned) != 2 {
		t.Errorf("%d learned configs, %v: want the measured and the received one", len(snapshot.Learned), err)
	}
}

func TestAReceivedConfigUnderOtherLimitsIsRebound(t *testing.T) {
	f, dir := newFleet(t), t.TempDir()
	taught(t, f)
	if _, err := quiet(fastest).with(t, f, dir).Receive(t.Context(), anyModel, time.Minute); err != nil {
		t.Fatal(err)
	}
	tuner := quiet(fastest).with(t, f, dir)
	tuner.host.CPU.UsableCores, tuner.host.CPU.UsablePhysical = 2, 2
	plan, err := tuner.Plan(t.Context(), anyModel)
	if err != nil || plan.Source != NearHost || plan.Config.Decode.Threads > 2 || !strings.Contains(strings.Join(plan.Recheck, " "), "usable_cores") {
		t.Errorf("%+v, %v: want at most 2 threads, and a check asked for because of usable_cores", plan, err)
	}
	if _, err := tuner.Receive(t.Context(), anyModel, time.Minute); !errors.Is(err, ErrNothingShared) {
		t.Errorf("pull with two cores: %v, want nothing of what was learned with four", err)
	}
}

// broken is a fleet of which every part fails.
type broken struct{ err error }

func (b broken) Push(context.Context, fleet.Entry) (fleet.Outcome, error) { return "", b.err }
func (b broken) Pull(context.Context, fleet.Query) ([]fleet.Entry, fleet.Report, error) {
	return nil, fleet.Report{}, b.err
}
func (b broken) Claim(context.Context, fleet.Key, string, time.Duration) (*fleet.Claim, error) {
	return nil, b.err
}
func (b broken) Await(context.Context, fleet.Key) (fleet.Entry, error) { return fleet.Entry{}, b.err }

// worked is a fleet that fails only in some part.
type worked struct {
	Fleet
	push, claim error
}

func (w worked) Push(ctx context.Context, e fleet.Entry) (fleet.Outcome, error) {
	if w.push != nil {
		return "", w.push
	}
	return w.Fleet.Push(ctx, e)
}

func (w worked) Claim(ctx context.Context, k fleet.Key, holder string, ttl time.Duration) (*fleet.Claim, error) {
	if w.claim != nil {
		return nil, w.claim
	}
	return w.Fleet.Claim(ctx, k, holder, ttl)
}

// Whatever is wrong with the fleet, a run comes to the same certificate as without it, with one line more.
func TestATuneGoesOnWithoutTheFleet(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	want := tuned(t, quiet(fastest), t.TempDir(), brief)
	for name, f := range map[string]Fleet{
		"unavailable":       broken{fmt.Errorf("no answer: %w", fleet.ErrUnavailable)},
		"full":              broken{fleet.ErrFull},
		"denied":            broken{fleet.ErrDenied},
		"nonsense":          broken{fleet.ErrNonsense},
		"full for a push":   worked{Fleet: newFleet(t), push: fleet.ErrFull},
		"no claims to have": worked{Fleet: newFleet(t), claim: fleet.ErrNonsense},
		"a closed port":     openFleet(t, "etcd://"+closed),
		"no directory":      openFleet(t, "dir:///nowhere/at/all"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cert, err := quiet(fastest).with(t, f, dir).Tune(t.Context(), anyModel, brief)
			if err != nil {
				t.Fatal(err)
			}
			if len(said(cert)) != 1 || !strings.HasPrefix(said(cert)[0], "without the fleet: ") || strings.Contains(said(cert)[0], "\n") {
				t.Errorf("warnings %q: want one line about the fleet", cert.Warnings)
			}
			if diff := cmp.Diff(want, cert, cmpopts.IgnoreFields(Certificate{}, "Warnings", "Run", "Fleet")); diff != "" {
				t.Errorf("the certificate differs from that without a fleet (-want +got):\n%s", diff)
			}
			if plan := planned(t, dir); plan.Source != Measured {
				t.Errorf("plan %s: want what was measured", plan.Source)
			}
		})
	}
}

// A run begins with what the fleet knows, and does not have to believe it.
func TestATuneTakesTheFleetsConfigForARival(t *testing.T) {
	for name, c := range map[string]struct {
		cost func(target.Regime, target.Arm) time.Duration
		want measure.Verdict
	}{"fast here too": {fastest, measure.Adopt}, "slow here": {by(1.5), measure.Keep}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			arm := taught(t, f).Arm(target.Decode)
			s := quiet(c.cost)
			cert, err := s.with(t, f, t.TempDir()).Tune(t.Context(), anyModel, Budget{Time: 30 * time.Second, Objective: ObjectiveDecode, Strategy: "random"})
			if err != nil || cert.Verdict != c.want || len(said(cert)) > 0 {
				t.Fatalf("%s, %q, %v: want %s", cert.Verdict, cert.Warnings, err, c.want)
			}
			if want := "configs of this class to begin with: 1; the result was "; !strings.HasPrefix(cert.Fleet, want) {
				t.Errorf("%q, want %q and the outcome", cert.Fleet, want)
			}
			if s.seen[arm] < 2 {
				t.Errorf("the fleet's arm was prepared %d times: want it searched and in the duel", s.seen[arm])
			}
		})
	}
}

func TestAWrongConfigOfTheFleetIsNeverTheAnswer(t *testing.T) {
	f, dir := newFleet(t), t.TempDir()
	arm := taught(t, f).Arm(target.Decode)
	s := quiet(fastest)
	s.err = func(_ target.Regime, a target.Arm) error {
		if a == arm {
			return fmt.Errorf("row 7: %w", target.ErrMismatch)
		}
		return nil
	}
	cert, err := s.with(t, f, dir).Tune(t.Context(), anyModel, brief)
	if err != nil || cert.Failed == 0 || cert.Best.Config.Arm(target.Decode) == arm || planned(t, dir).Config.Arm(target.Decode) == arm {
		t.Errorf("%+v, %v: want the wrong arm found, and another one", cert.Best.Config.Decode, err)
	}
}

// One host of a class tunes, and who came later takes what it learned.
func TestATuneWaitsForTheHostThatHasTheTurn(t *testing.T) {
	f := newFleet(t)
	budget := Budget{Time: 6 * time.Second, Objective: ObjectiveDecode, FleetWait: time.Minute}
	first := quiet(fastest).with(t, f, t.TempDir())
	var second *Certificate
	waiting, done := make(chan bool), make(chan error, 1)
	s := quiet(fastest)
	later := s.with(t, f, t.TempDir())
	later.opt.Progress = func(e Event) {
		if e.Phase == "fleet" && strings.Contains(e.Text, "waiting") {
			close(waiting)
		}
	}
	var started atomic.Bool
	first.opt.Progress = func(e Event) {
		if e.Phase != "search" || !started.CompareAndSwap(false, true) {
			return
		}
		go func() {
			var err error
			second, err = later.Tune(t.Context(), anyModel, budget)
			done <- err
		}()
		select {
		case <-waiting:
		case err := <-done:
			t.Error("the second did not wait")
			done <- err
		}
	}
	cert, err := first.Tune(t.Context(), anyModel, budget)
	if err != nil || cert.Verdict != measure.Adopt {
		t.Fatalf("the first: %+v, %v", cert, err)
	}
	if err := <-done; err != nil || second.Verdict != measure.Adopt || len(said(second)) > 0 {
		t.Fatalf("the second: %+v, %v", second, err)
	}
	if s.seen[cert.Best.Config.Arm(target.Decode)] == 0 || second.Elapsed > budget.Time.Seconds()*resumeShare*1.1 {
		t.Errorf("the second took %.1f s: want it to begin with the first one's result and take half the budget", second.Elapsed)
	}
}

// With nobody to wait for, or no time to, a host tunes itself.
func TestATuneDoesNotWaitInVain(t *testing.T) {
	for name, c := range map[string]struct {
		wait    time.Duration
		release bool
		warning string
	}{
		"does not wait":      {0, false, ""},
		"waits too short":    {20 * time.Millisecond, false, "had no result within 20ms"},
		"the other gives up": {time.Minute, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			s := quiet(fastest)
			tuner := s.with(t, f, t.TempDir())
			p, err := tuner.problem(t.Context(), anyModel)
			if err != nil {
				t.Fatal(err)
			}
			p.Objective = ObjectiveDecode
			claim, err := f.Claim(t.Context(), p.fleetKey(), "somebody", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			tuner.opt.Progress = func(e Event) {
				if c.release && strings.Contains(e.Text, "somebody tunes") {
					if err := claim.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
			cert, err := tuner.Tune(t.Context(), anyModel, Budget{Time: brief.Time, Objective: ObjectiveDecode, FleetWait: c.wait})
			if err != nil || cert.Verdict != measure.Adopt || !strings.Contains(strings.Join(said(cert), " "), c.warning) || (c.warning == "") != (len(said(cert)) == 0) {
				t.Errorf("%s, warnings %q, %v: want ADOPT and a warning that says %q", cert.Verdict, cert.Warnings, err, c.warning)
			}
			if status, err := f.Status(t.Context()); err != nil || c.release && len(status.Claims) > 0 {
				t.Errorf("claims left behind: %+v, %v", status.Claims, err)
			}
		})
	}
}

// between is a fleet to which somebody else's result comes between a pull and a claim.
type between struct {
	Fleet
	result func()
}

func (b between) Claim(ctx context.Context, k fleet.Key, holder string, ttl time.Duration) (*fleet.Claim, error) {
	b.result()
	return b.Fleet.Claim(ctx, k, holder, ttl)
}

func TestATuneLooksAgainOnceItHasTheTurn(t *testing.T) {
	f := newFleet(t)
	s := quiet(fastest)
	cert, err := s.with(t, between{f, func() { taught(t, f) }}, t.TempDir()).Tune(t.Context(), anyModel, brief)
	if err != nil || !strings.HasPrefix(cert.Fleet, "configs of this class to begin with: 1;") {
		t.Errorf("%q, %v: want the config that came in between", cert.Fleet, err)
	}
}

// A result that comes while this host searches is in its duel.
func TestATuneTakesALateResult(t *testing.T) {
	f := newFleet(t)
	s := quiet(fastest)
	tuner := s.with(t, f, t.TempDir())
	p, err := tuner.problem(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	p.Objective = ObjectiveDecode
	if _, err := f.Claim(t.Context(), p.fleetKey(), "somebody", time.Minute); err != nil {
		t.Fatal(err)
	}
	var dueled []string
	var late Config
	tuner.opt.Progress = func(e Event) {
		switch {
		case e.Phase == "search" && late.Layout == "":
			late = taught(t, f)
		case e.Phase == "duel":
			dueled = append(dueled, e.Text)
		}
	}
	b := brief
	b.Time = 10 * time.Second
	if _, err := tuner.Tune(t.Context(), anyModel, b); err != nil {
		t.Fatal(err)
	}
	if want := late.Arm(target.Decode).String(); !strings.Contains(strings.Join(dueled, "\n"), want) {
		t.Errorf("dueled with %q, want %s among them", dueled, want)
	}
}

// A run that may not use the whole host keeps its result to itself.
func TestABoundedRunIsNotShared(t *testing.T) {
	f := newFleet(t)
	s := quiet(func(r target.Regime, a target.Arm) time.Duration { return fastest(r, a) * 4 / time.Duration(a.Threads) })
	if _, err := s.with(t, f, t.TempDir()).Tune(t.Context(), anyModel, Budget{Time: brief.Time, Objective: ObjectiveDecode, MaxThreads: 1}); err != nil {
		t.Fatal(err)
	}
	if status, err := f.Status(t.Context()); err != nil || status.Entries != 0 {
		t.Errorf("%d entries, %v: want none", status.Entries, err)
	}
}

// Nothing that is shared tells who learned it, or where, or how fast each sample was.
func TestWhatIsSharedNamesNobody(t *testing.T) {
	f := newFleet(t)
	dir := t.TempDir()
	s := quiet(fastest)
	tuner := s.with(t, f, dir)
	tuner.host.Warnings = []string{"/proc/secret"}
	if _, err := tuner.Tune(t.Context(), anyModel, brief); err != nil {
		t.Fatal(err)
	}
	p, err := tuner.problem(t.Context(), anyModel)
	if err != nil {
		t.Fatal(err)
	}
	entries, _, err := f.Pull(t.Context(), fleet.Query{Class: p.class()})
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v: want one", len(entries), err)
	}
	document, err := json.Marshal(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`mul/\w+/`).ReplaceAllString(string(document), "") // the only paths are names of kernels
	for _, secret := range []string{name, dir, "/", "samples", "warnings", `"run"`, `"cpus"`, t.Name()} {
		if strings.Contains(text, secret) {
			t.Errorf("what is shared contains %q: %s", secret, document)
		}
	}
	if got := len(document); got > 8<<10 {
		t.Errorf("%d bytes shared, want a few thousand", got)
	}
}

// A plan is made of what is on this host alone.
func TestPlanNeverAsksTheFleet(t *testing.T) {
	tuner := quiet(flat).with(t, nil, t.TempDir())
	tuner.opt.Fleet = unasked{t}
	if _, err := tuner.Plan(t.Context(), anyModel); err != nil {
		t.Fatal(err)
	}
	if _, err := tuner.Explain(t.Context(), anyModel); err != nil {
		t.Fatal(err)
	}
}

// unasked is a fleet that must not be asked.
type unasked struct{ t *testing.T }

func (u unasked) Push(context.Context, fleet.Entry) (fleet.Outcome, error) {
	u.t.Error("asked")
	return "", nil
}
func (u unasked) Pull(context.Context, fleet.Query) ([]fleet.Entry, fleet.Report, error) {
	u.t.Error("asked")
	return nil, fleet.Report{}, nil
}
func (u unasked) Claim(context.Context, fleet.Key, string, time.Duration) (*fleet.Claim, error) {
	u.t.Error("asked")
	return nil, nil
}
func (u unasked) Await(context.Context, fleet.Key) (fleet.Entry, error) {
	u.t.Error("asked")
	return fleet.Entry{}, nil
}
