package tuner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// site is a spec of a command that takes as long as its knob says and leaves a line behind each time it runs.
type site struct {
	t          *testing.T
	spec, runs string
	fleet      *fleet.Fleet
}

const siteSpec = `{
  "command": ["sh", "-c", "echo $* >>%s; %s", "sh", ["--pace={pace}"]],
  "knobs": [{"name": "pace", "kind": "categorical", "values": ["slow", "fast"]}],
  "figure": {"regexp": "took (\\d+) ms", "unit": "ms", "better": "lower"}
}`

// newSite is a host with a command that does as the shell says where its argument is --pace=fast.
func newSite(t *testing.T, f *fleet.Fleet, shell string) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t, filepath.Join(dir, "spec.json"), filepath.Join(dir, "runs"), f}
	if err := os.WriteFile(s.spec, fmt.Appendf(nil, siteSpec, s.runs, shell), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) ran() int {
	data, err := os.ReadFile(s.runs)
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "\n")
}

func (s *site) open(store string) *Tuner {
	s.t.Helper()
	tuner, err := Open(Options{Store: store, Host: fourCores(), Fleet: s.fleet})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { tuner.Close() })
	return tuner
}

func (s *site) receive(store string) (*EngineReception, error) {
	return s.open(store).ReceiveEngine(s.t.Context(), s.spec, EngineBudget{Time: time.Minute, Engine: Exec})
}

// entry is what another host of this class would share of an engine with a file.
func entryOf(t *testing.T, name, model, program, objective, config string) fleet.Entry {
	t.Helper()
	m, err := readEngineModel(model)
	if err != nil {
		t.Fatal(err)
	}
	host := *fourCores()
	e, err := fleet.FromLearned(history.Learned{
		Host: host.Fingerprint(), Model: m.fingerprint, Target: EngineTarget + name, Objective: objective, Signature: program,
		Identity: classFields(fields(host.Identity()), fields(host.Envelope())), Config: []byte(config),
		Certificate: []byte(`{"verdict":"ADOPT","ratio":{"estimate":1.5,"low":1.4,"high":1.6},"regimes":[{"regime":"figure","verdict":"ADOPT","duel_blocks":9}]}`),
		MeasuredAt:  time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), Evaluations: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// teach puts a config of the site's command into the fleet.
func (s *site) teach(config string) {
	s.t.Helper()
	if _, err := s.fleet.Push(s.t.Context(), entryOf(s.t, Exec, s.spec, s.program(), engine.FigureRegime, config)); err != nil {
		s.t.Fatal(err)
	}
}

// program is what stands for the site's command.
func (s *site) program() string {
	s.t.Helper()
	program, err := engine.Program(s.t.Context(), "sh")
	if err != nil {
		s.t.Fatal(err)
	}
	return program
}

const fastPlan = `{"engine":"exec","build":"b","plan":{"figure":{"pace":"fast"}}}`

// What was learned of an engine elsewhere is the answer once it was compared here, and is not compared twice.
func TestAnEnginesSettingsAreCheckedBeforeTheyAreUsed(t *testing.T) {
	for name, c := range map[string]struct {
		shell  string
		want   Outcome
		source Source
		reason string
	}{
		"faster here":   {`test $1 && echo took 50 ms || echo took 100 ms`, Confirmed, NearHost, "checked here on"},
		"the same here": {`echo took 100 ms`, Confirmed, NearHost, "request 1.00x the default"},
		"slower here":   {`test $1 && echo took 150 ms || echo took 100 ms`, Failed, Heuristic, "0.667 times as fast as the engine's own"},
		"crashes here":  {`test $1 && exit 3; echo took 100 ms`, Failed, Heuristic, "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			s, store := newSite(t, newFleet(t), c.shell), t.TempDir()
			s.teach(fastPlan)
			got, err := s.receive(store)
			if err != nil || len(got.Received) != 1 || got.Received[0].Verdict != c.want {
				t.Fatalf("%+v, %v: want one config, %s", got, err, c.want)
			}
			plan, err := s.open(store).PlanEngine(t.Context(), s.spec, Exec)
			if err != nil || plan.Source != c.source || !strings.Contains(plan.Reason, c.reason) {
				t.Errorf("%s because %q, %v: want %s because … %s …", plan.Source, plan.Reason, err, c.source, c.reason)
			}
			if uses := plan.Config.Plan[engine.FigureRegime]["pace"] == "fast"; uses != (c.want == Confirmed) {
				t.Errorf("the plan uses what was received: %v", uses)
			}
			ran := s.ran()
			again, err := s.receive(store)
			if err != nil || s.ran() != ran {
				t.Fatalf("pulled again: %v, and %d processes started: want the first outcome remembered", err, s.ran()-ran)
			}
			if diff := cmp.Diff(got.Received, again.Received, cmp.AllowUnexported(RegimeCheck{})); diff != "" {
				t.Errorf("pulled again (-first +second):\n%s", diff)
			}
			if _, err := s.open(store).Share(t.Context(), ""); !errors.Is(err, ErrNothingLearned) {
				t.Errorf("sharing what was received: %v, want that nothing was learned here", err)
			}
		})
	}
}

// What there was no time to compare is neither accepted nor refused: it is checked the next time.
func TestAnEnginesSettingsWithoutTimeAreLeftOpen(t *testing.T) {
	s, store := newSite(t, newFleet(t), `sleep 0.1; echo took 100 ms`), t.TempDir()
	s.teach(fastPlan)
	got, err := s.open(store).ReceiveEngine(t.Context(), s.spec, EngineBudget{Time: 700 * time.Millisecond, Engine: Exec})
	if !errors.Is(err, ErrNoBudget) || s.ran() == 0 {
		t.Errorf("%+v, %v, %d processes: want %v", got, err, s.ran(), ErrNoBudget)
	}
	if known, err := s.open(store).LearnedConfigs(t.Context()); err != nil || len(known) > 0 {
		t.Errorf("%+v, %v: want nothing kept", known, err)
	}
}

// What is refused unseen takes nothing of the time of what is compared, and what it says of itself is cut short.
func TestAFleetsRubbishTakesNoTime(t *testing.T) {
	s, store := newSite(t, newFleet(t), `test $1 && echo took 50 ms || echo took 100 ms`), t.TempDir()
	s.teach(fastPlan)
	rubbish := `{"engine":"exec","build":"b","plan":{"figure":{}},"` + strings.Repeat("x", 40_000) + `":1}`
	for i := range 20 {
		objective := fmt.Sprintf("p%d+n1", i) // some before the sound one in order, some after it
		if i%2 == 0 {
			objective = "a" + objective
		}
		if _, err := s.fleet.Push(t.Context(), entryOf(t, Exec, s.spec, s.program(), objective, rubbish)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.open(store).newEngineRun(t.Context(), s.spec, EngineBudget{Time: time.Hour, Engine: Exec})
	if err != nil {
		t.Fatal(err)
	}
	entries, _, err := s.fleet.Pull(t.Context(), fleet.Query{Class: fleet.Class(classFields(r.identity, fields(r.host.Envelope()))), Model: r.model.fingerprint})
	if err != nil || len(entries) != 21 {
		t.Fatalf("%d entries, %v: want 21", len(entries), err)
	}
	got := &EngineReception{}
	if open := r.toCheck(entries, nil, got); len(open) != 1 || open[0].entry.Objective != engine.FigureRegime || len(got.Received) != 20 {
		t.Errorf("%d to compare, %d refused: want 1 and 20", len(open), len(got.Received))
	}
	for _, done := range got.Received {
		if done.Verdict != Failed || len(done.Reason) > 400 {
			t.Errorf("%s because of %d bytes: want it refused in a line", done.Verdict, len(done.Reason))
		}
	}
}

// That the engine's own settings are the best is worth knowing, and nothing to measure.
func TestTheEnginesOwnSettingsNeedNoCheck(t *testing.T) {
	s, store := newSite(t, newFleet(t), `echo took 100 ms`), t.TempDir()
	s.teach(`{"engine":"exec","build":"b","plan":{"figure":null}}`)
	got, err := s.receive(store)
	if err != nil || len(got.Received) != 1 || got.Received[0].Verdict != Confirmed || s.ran() > 0 {
		t.Fatalf("%+v, %v, %d processes: want it confirmed and none", got, err, s.ran())
	}
	if c := got.Plan.Config; got.Plan.Source != NearHost || c.Command != "sh" || len(c.Arguments) == 0 || c.Build != "b" {
		t.Errorf("%s %+v: want the command of the spec", got.Plan.Source, c)
	}
}

// A document of the fleet brings no command to run, no variable, no argument, and no value that the spec of this host does not
// have: it is refused before anything runs, and nothing of it is kept.
func TestAFleetBringsNoCommand(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	for name, config := range map[string]string{
		"a command":    `{"engine":"exec","build":"b","plan":{"figure":{"pace":"fast"}},"command":"touch","arguments":["MARK"]}`,
		"a variable":   `{"engine":"exec","build":"b","plan":{"figure":{"pace":"fast"}},"variables":["PATH=MARK"]}`,
		"a value":      `{"engine":"exec","build":"b","plan":{"figure":{"pace":"$(touch MARK)"}}}`,
		"a knob":       `{"engine":"exec","build":"b","plan":{"figure":{"command":"touch MARK"}}}`,
		"a regime":     `{"engine":"exec","build":"b","plan":{"touch MARK":{"pace":"fast"}}}`,
		"an engine":    `{"engine":"touch MARK","build":"b","plan":{"figure":{"pace":"fast"}}}`,
		"a long build": `{"engine":"exec","build":"` + strings.Repeat("b", 1000) + `","plan":{"figure":{"pace":"fast"}}}`,
		"no plan":      `{"engine":"exec","build":"b"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, store := newSite(t, newFleet(t), `echo took 100 ms`), t.TempDir()
			s.teach(strings.ReplaceAll(config, "MARK", mark))
			got, err := s.receive(store)
			if err != nil || len(got.Received) != 1 || got.Received[0].Verdict != Failed || got.Plan.Source != Heuristic {
				t.Fatalf("%+v, %v: want it refused", got, err)
			}
			if _, err := os.Stat(mark); err == nil || s.ran() > 0 {
				t.Errorf("%d processes ran, mark %v: want none and no mark", s.ran(), err)
			}
			known, err := s.open(store).LearnedConfigs(t.Context())
			if err != nil || len(known) > 0 {
				t.Errorf("%+v, %v: want nothing kept", known, err)
			}
		})
	}
}

// What was learned with another spec is of another command, and is not asked for.
func TestAnotherSpecIsAnotherModel(t *testing.T) {
	f := newFleet(t)
	newSite(t, f, `echo took 100 ms`).teach(fastPlan)
	s := newSite(t, f, `echo took 101 ms`)
	if got, err := s.receive(t.TempDir()); !errors.Is(err, ErrNothingShared) || s.ran() > 0 {
		t.Errorf("%+v, %v, %d processes: want that nothing is shared", got, err, s.ran())
	}
}

// Where the program is not here what hosts of this class know is kept, told, and no answer. Where it is another build, it is left
// out. A flag that changes what a model answers is not even proposed.
func TestWithoutTheProgramItIsAProposal(t *testing.T) {
	f, dir := newFleet(t), t.TempDir()
	model, bench := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "bench")
	for path, text := range map[string]string{model: "GGUF", bench: "#!/bin/sh\nexit 1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := &site{t: t, spec: model, fleet: f}
	for objective, plan := range map[string]string{
		"p512+n128": `{"decode":{"threads":"3"},"prefill":{"threads":"4"}}`,
		"p64+n16":   `{"decode":{"cache-type-k":"q8_0"},"prefill":{"cache-type-k":"q8_0"}}`,
		"p65+n16":   `{"decode":{"threads":"3; rm -r"},"prefill":null}`,
		"p66":       `{"decode":{"threads":"3"}}`,
		"figure":    `{"figure":{"threads":"3"}}`,
	} {
		e := entryOf(t, LlamaBench, model, strings.Repeat("ab", 16), objective, `{"engine":"llama-bench","build":"57a4d1/9999","plan":`+plan+`}`)
		if _, err := f.Push(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	store := t.TempDir()
	got, err := s.open(store).ReceiveEngine(t.Context(), model, EngineBudget{Time: time.Minute, Engine: LlamaBench, Command: "no-such-llama-bench"})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[Objective]Outcome{}
	for _, r := range got.Received {
		outcomes[r.Objective] = r.Verdict
	}
	want := map[Objective]Outcome{"p512+n128": Proposed, "p64+n16": Failed, "p65+n16": Failed, "p66": Failed, "figure": Failed}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plan, err := s.open(store).PlanEngine(t.Context(), model, LlamaBench)
	if err != nil || plan.Source != Heuristic || len(plan.Flags) > 0 || !strings.Contains(plan.Reason, "a proposal only") || !strings.Contains(plan.Reason, "57a4d1/9999") {
		t.Errorf("%s %v because %q, %v: want the engine's own, and word of the proposal", plan.Source, plan.Flags, plan.Reason, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "llama-bench"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	kept, err := history.Open(store, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	host := *fourCores()
	err = kept.Publish(t.Context(), history.Learned{
		Host: host.Fingerprint(), Model: strings.Repeat("0", 32), Target: EngineTarget + LlamaBench, Objective: "p512+n128", Signature: "57a4d1/9999", Run: 1,
		Config: []byte(`{"engine":"llama-bench","command":"./llama-bench"}`), Certificate: []byte(`{"verdict":"ADOPT"}`), MeasuredAt: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err = s.open(store).ReceiveEngine(t.Context(), model, EngineBudget{Time: time.Minute, Engine: LlamaBench, Command: "no-such-llama-bench"})
	if err != nil || len(got.Received) != 5 {
		t.Errorf("%+v, %v: want proposals still, whatever program lies in the working directory", got, err)
	}
	got, err = s.open(store).ReceiveEngine(t.Context(), model, EngineBudget{Time: time.Minute, Engine: LlamaBench, Command: bench})
	if !errors.Is(err, ErrNothingShared) || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "5 configs are of other builds") {
		t.Errorf("with another build: %+v, %v: want all left out", got, err)
	}
}

// Nothing of what is shared of an engine says where anything lies, and the same result makes the same document.
func TestWhatIsSharedOfAnEngine(t *testing.T) {
	host := *fourCores()
	config := engine.Learned{
		Engine: LlamaBench, Build: "57a4d1/9999", Command: "/opt/secret/llama-bench", Program: strings.Repeat("cd", 16), Model: "/home/me/secret.gguf",
		Plan: engine.Plan{engine.Decode: {"threads": "3"}, engine.Prefill: nil}, Variables: []string{"SECRET=1"}, Arguments: []string{"secret"},
	}
	cert := EngineCertificate{Verdict: "ADOPT", Model: "secret", Best: EngineRated{Config: config}, Ratio: engine.Ratio{Estimate: 1.5, Low: 1.4, High: 1.6},
		Search: &engine.Certificate{Pairs: 9, Facts: map[string]string{"model_filename": "secret"}}}
	learned := func(change func(*engine.Learned)) history.Learned {
		changed := config
		changed.Plan = maps.Clone(config.Plan)
		change(&changed)
		doc, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := json.Marshal(cert)
		if err != nil {
			t.Fatal(err)
		}
		return history.Learned{
			Host: host.Fingerprint(), Model: strings.Repeat("0f", 16), ModelName: "secret", Target: "engine:llama-bench", Objective: "p512+n128", Signature: "57a4d1/9999",
			Identity: fields(host.Identity()), Envelope: fields(host.Envelope()), Condition: map[string]string{"secret": "1"}, Config: doc, Certificate: proof, Evaluations: 12,
		}
	}
	first, err := sharedOfEngine(learned(func(*engine.Learned) {}))
	if err != nil {
		t.Fatal(err)
	}
	doc, _ := json.Marshal(first)
	if strings.Contains(string(doc), "secret") || strings.Contains(string(doc), "SECRET") {
		t.Errorf("it tells too much: %s", doc)
	}
	if first.Signature != config.Program || first.Blocks != 18 || first.Ratio.Low != 1.4 {
		t.Errorf("signature %s, %d blocks, ratio %+v: want the program, the pairs of both regimes and the ratio", first.Signature, first.Blocks, first.Ratio)
	}
	for range 10 {
		again, err := sharedOfEngine(learned(func(*engine.Learned) {}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("shared again (-first +second):\n%s", diff)
		}
	}
	for name, change := range map[string]func(*engine.Learned){
		"a file of a spec": func(l *engine.Learned) {
			l.Engine, l.Plan = Exec, engine.Plan{engine.FigureRegime: {"weights": "/home/me/w.gguf"}}
		},
		"an unknown program": func(l *engine.Learned) { l.Program = "" },
		"a quality flag":     func(l *engine.Learned) { l.Plan[engine.Decode] = engine.Setting{"cache-type-k": "q8_0"} },
	} {
		if e, err := sharedOfEngine(learned(change)); err == nil {
			t.Errorf("%s: shared as %+v, want an error", name, e)
		}
	}
}

// A date that lies ahead makes no config the answer for ever.
func TestAFleetsDatesDoNotLieAhead(t *testing.T) {
	day := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	at := func(measured, checked time.Time) (l engineLearned) {
		l.entry.MeasuredAt, l.cert.Received, l.plan.Source = measured, &Received{CheckedAt: checked}, NearHost
		return l
	}
	ahead, newer := at(day.AddDate(1000, 0, 0), day), at(day.Add(time.Hour), day.Add(2*time.Hour))
	if !newer.before(ahead) || ahead.before(newer) {
		t.Error("what was measured in a thousand years answers rather than what was checked since")
	}
}
