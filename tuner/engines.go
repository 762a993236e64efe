package tuner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// EngineTarget is how the target of an engine begins: "engine:llama-bench".
const EngineTarget = "engine:"

// The engines.
const (
	LlamaBench = "llama-bench"
	BitnetCPP  = "bitnet.cpp" // its llama-bench, which is an older one of llama.cpp
	Exec       = "exec"       // any command, by a spec that stands in the model's place
)

// Engines are the names of the engines.
func Engines() []string { return []string{LlamaBench, BitnetCPP, Exec} }

// EngineBudget bounds the tuning of an engine and says which. Time, Engine and Command are needed.
type EngineBudget struct {
	Time       time.Duration // everything included, loading the model each time too
	Engine     string        // one of Engines
	Command    string        // path of the program, or its name on the PATH
	Objective  Objective     // "" = ObjectiveMixed: decode alone has no prompt, prefill alone no answer
	Prompt     int           // tokens of a request; 0 = 512
	Generate   int           // tokens of its answer; 0 = 128
	Repeat     int           // repetitions of one process; 0 = the engine's own
	Runs       int           // most processes before the duel, those of earlier runs included; 0 = 25
	Fresh      bool          // nothing is taken over from earlier runs
	MaxThreads int           // 0 = every usable core
	Allow      []string      // flags that change what the model answers and may be tried all the same
	// GEMMConfig is the path of bitnet.cpp's gemm-config.h, and Build the command that builds it into {out} (engine.Compiled):
	// then what is compiled in is tuned too. Only for BitnetCPP, and both or none.
	GEMMConfig, Build string
	Seed              uint64
}

// request is the objective of an engine's run as the history names it: what was asked is part of what was learned.
func (b EngineBudget) request() string {
	if b.Engine == Exec {
		return engine.FigureRegime
	}
	return fmt.Sprintf("p%d+n%d", b.Prompt, b.Generate)
}

// EngineRated is a plan of an engine with its rates in tokens per second; 0 where a regime was not measured.
type EngineRated struct {
	Config  engine.Learned `json:"config"`
	Decode  float64        `json:"decode_tokens_per_second"`
	Prefill float64        `json:"prefill_tokens_per_second"`
}

// EngineCertificate is the verdict of a run on an engine, with what to do about it.
type EngineCertificate struct {
	Verdict     measure.Verdict     `json:"verdict"`
	Model       string              `json:"model"`
	Fingerprint string              `json:"fingerprint"`
	Objective   string              `json:"objective"` // "p512+n128"
	Target      string              `json:"target"`
	Run         string              `json:"run"`
	Default     EngineRated         `json:"default"`
	Best        EngineRated         `json:"best"`
	Ratio       engine.Ratio        `json:"ratio"`
	NoiseFloor  float64             `json:"noise_floor"`
	Evaluations int                 `json:"evaluations"` // settings that were measured, each counted once
	Failed      int                 `json:"failed"`
	Censored    int                 `json:"censored"`
	SpaceSize   int                 `json:"space_size"` // settings there are
	Elapsed     float64             `json:"elapsed_seconds"`
	Budget      float64             `json:"budget_seconds"`
	Bounds      EngineBounds        `json:"bounds"`
	Search      *engine.Certificate `json:"search,omitempty"` // nil where another host measured
	Warnings    []string            `json:"warnings"`
	Fleet       string              `json:"fleet,omitempty"` // what became of the result in the fleet
	// Received says how a plan was checked here that another host proved; nil where this host did.
	Received *Received `json:"received,omitempty"`
}

// TuneEngine tunes a program that is not ours, with a model file: it looks for the flags with which a request takes least,
// duels them with the engine's own default, and publishes what was proven.
func (t *Tuner) TuneEngine(ctx context.Context, model string, b EngineBudget) (*EngineCertificate, error) {
	if err := t.may("tune", ModeTune); err != nil {
		return nil, err
	}
	r, err := t.newEngineRun(ctx, model, b)
	if err != nil {
		return nil, err
	}
	if err := r.openStore(ctx); err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if r.program, err = engine.Program(ctx, r.command()); err != nil && t.opt.Fleet != nil {
		r.warn("not to be shared: " + err.Error())
	}
	if r.store != nil {
		if err := r.store.PutRun(ctx, r.entry(nil, nil)); err != nil {
			return nil, err
		}
	}
	bounds := r.bound(ctx)
	left := r.deadline.Sub(r.now())
	if left <= 0 {
		return nil, fmt.Errorf("tune: %w: setting up took all of %v; allow more", ErrNoBudget, b.Time)
	}
	options := r.options(left)
	options.Tell, options.Recall, options.Ceiling = r.took, r.recall, bounds.ceiling
	search, err := engine.Search(ctx, r.bench, options)
	if err != nil && (search == nil || ctx.Err() == nil) {
		return nil, errors.Join(err, r.keepFailure(err))
	}
	cert := r.engineCertificate(search)
	cert.Bounds, cert.Elapsed, cert.Budget = bounds, r.now().Sub(r.started).Seconds(), r.asked.Time.Seconds()
	return cert, r.keepEngine(ctx, cert)
}

// engineRun is one run on an engine.
type engineRun struct {
	*tune
	asked EngineBudget
	host  probe.Host
	model engineModel
	cores int // that may be used
	bench engine.Engine
	count int
	// identity is the host's, with its GPUs: an engine may use them of its own accord.
	identity map[string]string
	// program stands for what is measured (engine.Program); "" unknown.
	program string
}

// options are those of a search or a check within a budget.
func (r *engineRun) options(budget time.Duration) engine.Options {
	return engine.Options{
		Budget: budget, Runs: r.asked.Runs, Seed: r.asked.Seed, Now: r.now, Watch: measure.Local(), Heat: engine.Heat(os.DirFS("/sys")), Tell: r.told,
	}
}

// command is the program that is measured.
func (r *engineRun) command() string {
	if e, ok := r.bench.(*engine.Exec); ok {
		return e.Command(nil).Path
	}
	return r.asked.Command
}

// engineModel is a model as an engine's results depend on it: the file and not only its shapes.
type engineModel struct {
	path, name, fingerprint string
	bytes                   uint64
}

// engineModelBytes is how much of a file stands for it: a GGUF header with the tensors' names, types and shapes.
const engineModelBytes = 1 << 20

func readEngineModel(path string) (engineModel, error) {
	info, err := os.Stat(path)
	if err != nil {
		return engineModel{}, fmt.Errorf("tune: an engine needs a model file, or a spec: %w", err)
	}
	if !info.Mode().IsRegular() { // a pipe would keep whoever opens it waiting
		return engineModel{}, fmt.Errorf("tune: model %s: %s: want a file", path, info.Mode().Type())
	}
	file, err := os.Open(path)
	if err != nil {
		return engineModel{}, fmt.Errorf("tune: model: %w", err)
	}
	defer file.Close()
	h := sha256.New()
	fmt.Fprintf(h, "engine model, %d bytes\n", info.Size())
	if _, err := io.Copy(h, io.LimitReader(file, engineModelBytes)); err != nil {
		return engineModel{}, fmt.Errorf("tune: model %s: %w", path, err)
	}
	full, err := filepath.Abs(path)
	return engineModel{full, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), hex.EncodeToString(h.Sum(nil)[:16]), uint64(info.Size())}, err
}

func (t *Tuner) newEngineRun(ctx context.Context, model string, b EngineBudget) (*engineRun, error) {
	if b.Time <= 0 {
		return nil, fmt.Errorf("%w: budget %v: a positive duration such as 10m", ErrBadBudget, b.Time)
	}
	if !slices.Contains(Engines(), b.Engine) {
		return nil, fmt.Errorf("%w: engine %q: one of %v", ErrBadBudget, b.Engine, Engines())
	}
	if err := b.complete(); err != nil {
		return nil, err
	}
	m, err := readEngineModel(model)
	if err != nil {
		return nil, err
	}
	host, err := t.probe(ctx)
	if err != nil {
		return nil, err
	}
	cores := host.CPU.UsableCores
	if b.MaxThreads < 0 || b.MaxThreads > cores {
		return nil, fmt.Errorf("%w: max threads %d: this host can use 1 to %d", ErrBadBudget, b.MaxThreads, cores)
	}
	if b.MaxThreads > 0 {
		cores = b.MaxThreads
	}
	now := t.opt.Now()
	r := &engineRun{
		tune:  &tune{tuner: t, run: history.NewRunID(now), now: t.opt.Now, started: now, deadline: now.Add(b.Time)},
		asked: b, host: host, model: m, identity: engineIdentity(host, t.survey(ctx)),
	}
	r.cores = cores
	r.bench, err = r.engine(b)
	return r, err
}

// engine is what is measured for a request.
func (r *engineRun) engine(b EngineBudget) (engine.Engine, error) {
	if b.Engine == Exec {
		if r.model.bytes > engineModelBytes { // of which the fingerprint would not be of all
			return nil, fmt.Errorf("tune: spec %s: %d bytes: want at most %d", r.model.path, r.model.bytes, engineModelBytes)
		}
		spec, err := engine.ReadSpec(r.model.path)
		return &engine.Exec{Spec: spec}, err
	}
	bench := &engine.LlamaBench{
		Path: b.Command, Model: r.model.path, Prompt: b.Prompt, Generate: b.Generate, Repetitions: b.Repeat,
		Limits: engine.Limits{
			Cores: r.cores, NUMANodes: r.host.CPU.NUMANodes, ModelBytes: r.model.bytes, MemoryBytes: r.host.Memory.LimitBytes, Allow: b.Allow,
			Masks: coreMasks(r.host.CPU), Layers: layers(r.model.path),
		},
	}
	if b.GEMMConfig == "" {
		return bench, nil
	}
	cache, err := r.tuner.buildCache()
	return &engine.Compiled{LlamaBench: bench, Header: b.GEMMConfig, Build: b.Build, Cache: cache, BuildLimit: b.Time / 4}, err
}

// engineIdentity is what makes a host the one on which an engine was tuned.
func engineIdentity(host probe.Host, found gpu.Survey) map[string]string {
	identity := fields(host.Identity())
	var names []string
	for _, g := range found.GPUs {
		names = append(names, g.Name)
	}
	if slices.Sort(names); len(names) > 0 {
		identity["gpus"] = strings.Join(names, ", ")
	}
	return identity
}

// buildCache is where engines are built: in the store, or where nothing is kept in a directory of the system's for such.
func (t *Tuner) buildCache() (string, error) {
	if t.opt.Store != "" {
		return filepath.Abs(filepath.Join(t.opt.Store, "builds"))
	}
	return os.MkdirTemp("", "bitnet-autotune-builds-")
}

// complete fills in the defaults.
func (b *EngineBudget) complete() error {
	objective, err := ParseObjective(string(b.Objective))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadBudget, err)
	}
	if b.Prompt < 0 || b.Generate < 0 {
		return fmt.Errorf("%w: prompt %d and generate %d tokens: want neither below 0", ErrBadBudget, b.Prompt, b.Generate)
	}
	if b.Repeat < 0 || b.Runs < 0 {
		return fmt.Errorf("%w: repetitions %d and max-runs %d: want neither below 0; 0 is the default", ErrBadBudget, b.Repeat, b.Runs)
	}
	if (b.GEMMConfig == "") != (b.Build == "") || b.GEMMConfig != "" && b.Engine != BitnetCPP {
		return fmt.Errorf("%w: gemm-config %q and build command %q: both or none, and only for engine %s", ErrBadBudget, b.GEMMConfig, b.Build, BitnetCPP)
	}
	if b.Prompt == 0 {
		b.Prompt = 512
	}
	if b.Generate == 0 {
		b.Generate = 128
	}
	switch objective {
	case ObjectiveDecode:
		b.Prompt = 0
	case ObjectivePrefill:
		b.Generate = 0
	}
	if b.Command == "" {
		b.Command = "llama-bench"
	}
	if strings.ContainsRune(b.Command, filepath.Separator) { // what is learned holds in every directory, and for systemd
		b.Command, err = filepath.Abs(b.Command)
	}
	return err
}

// layers are those of a model file; 0 where it does not tell.
func layers(path string) int {
	m, err := model.Load(path)
	if err != nil {
		return 0
	}
	return m.Layers
}

// coreMasks are the CPU masks worth trying: every usable CPU, and one thread of each core where cores have several.
func coreMasks(c probe.CPU) []string {
	if len(c.CPUs) < 2 || slices.Max(c.CPUs) >= bits.UintSize {
		return nil
	}
	var all, cores uint
	for i, cpu := range slices.Sorted(slices.Values(c.CPUs)) {
		all |= 1 << cpu
		if i < len(c.CPUs)/max(1, c.ThreadsPerCore) { // Linux numbers the first threads of all cores first on most machines
			cores |= 1 << cpu
		}
	}
	masks := []string{fmt.Sprintf("0x%x", all)}
	if cores != all && bits.OnesCount(cores) > 1 {
		masks = append(masks, fmt.Sprintf("0x%x", cores))
	}
	return masks
}

// told shows and keeps a process.
func (r *engineRun) told(m engine.Measured) {
	r.count++
	text := fmt.Sprintf("%s: %s in %.1f s", m.Setting, m.Status, m.Elapsed.Seconds())
	r.tell(Event{Phase: m.Phase, Text: text, Evaluations: r.count})
}

func (r *engineRun) target() string { return EngineTarget + r.asked.Engine }

func (r *engineRun) learnedPlan(c *engine.Certificate, plan engine.Plan) engine.Learned {
	l := engine.Learned{
		Engine: r.asked.Engine, Build: engine.Build(c.Facts), Program: r.program, Command: r.asked.Command, Model: r.model.path, Plan: plan, Own: c.Own, Bare: c.Bare,
	}
	if e, ok := r.bench.(*engine.Exec); ok {
		l.Fill(e)
	}
	return l
}

func (r *engineRun) engineCertificate(c *engine.Certificate) *EngineCertificate {
	own := engine.Plan{}
	for regime := range c.Closest {
		own[regime] = nil
	}
	best := own
	if c.Verdict == measure.Adopt {
		best = c.Closest
	}
	cert := &EngineCertificate{
		Verdict: c.Verdict, Model: r.model.name, Fingerprint: r.host.Fingerprint(), Objective: r.asked.request(), Target: r.target(), Run: fmt.Sprintf("%016x", r.run),
		Default: EngineRated{r.learnedPlan(c, own), c.Default[engine.Decode].Rate, c.Default[engine.Prefill].Rate},
		Best:    EngineRated{r.learnedPlan(c, best), c.Best[engine.Decode].Rate, c.Best[engine.Prefill].Rate},
		Ratio:   c.Ratio, NoiseFloor: c.NoiseFloor, Failed: c.Failed, Censored: c.Censored, SpaceSize: 1,
		Elapsed: c.Elapsed, Budget: c.Budget, Search: c, Warnings: []string{},
	}
	settings := map[string]bool{}
	for _, m := range c.Runs {
		settings[m.Setting.String()] = true
	}
	cert.Evaluations = len(settings)
	for _, k := range c.Knobs {
		cert.SpaceSize *= len(k.Values)
	}
	return cert
}

// keepRecords keeps what the store did not accept at once.
func (r *engineRun) keepRecords() error {
	if r.store == nil || len(r.pending) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeLast)
	defer cancel()
	return r.store.Append(ctx, r.pending...)
}

// failureFact is why nothing could be compared in a run.
const failureFact = "failure"

// keepFailure keeps a run in which nothing could be compared, with the reason.
func (r *engineRun) keepFailure(why error) error {
	if r.store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeLast)
	defer cancel()
	run := r.entry(nil, nil)
	run.Facts[failureFact] = why.Error()
	run.Finished, run.Verdict = r.now().UTC(), string(measure.Inconclusive)
	return errors.Join(r.keepRecords(), r.store.PutRun(ctx, run))
}

// keepEngine keeps a run, and publishes what it proved: the plan, or that the engine's own stays.
func (r *engineRun) keepEngine(ctx context.Context, cert *EngineCertificate) error {
	learned, err := r.learnedEngine(cert)
	if err != nil {
		return err
	}
	if learned != nil && r.tuner.opt.Fleet != nil && ctx.Err() == nil {
		r.giveEngine(cert, *learned)
	}
	cert.Warnings = append(cert.Warnings, r.warnings...)
	if r.store == nil {
		return nil
	}
	keeping, cancel := context.WithTimeout(context.Background(), storeLast)
	defer cancel()
	proof, err := json.Marshal(cert)
	if err != nil {
		return fmt.Errorf("tune: certificate: %w", err)
	}
	failed := []error{r.keepRecords(), r.store.PutRun(keeping, r.entry(cert, proof))}
	if learned != nil {
		learned.Certificate = proof
		failed = append(failed, r.store.Publish(keeping, *learned))
	}
	return errors.Join(append(failed, r.store.Upkeep(keeping))...)
}

// learnedEngine is what a run proved, but for its certificate; nil where it proved nothing, or not for all of this host.
func (r *engineRun) learnedEngine(cert *EngineCertificate) (*history.Learned, error) {
	if cert.Verdict == measure.Inconclusive {
		return nil, nil
	}
	if r.cores < r.host.CPU.UsableCores {
		r.warn(fmt.Sprintf("not published: it holds for at most %d of %d threads", r.cores, r.host.CPU.UsableCores))
		return nil, nil
	}
	config, err := json.Marshal(cert.Best.Config)
	if err != nil {
		return nil, fmt.Errorf("tune: config: %w", err)
	}
	return &history.Learned{
		Host: cert.Fingerprint, Model: r.model.fingerprint, ModelName: r.model.name, Target: cert.Target, Objective: cert.Objective, Signature: cert.Best.Config.Build,
		Identity: r.identity, Envelope: fields(r.host.Envelope()), Condition: fields(r.host.Condition()),
		Config: config, Run: r.run, MeasuredAt: r.now().UTC(), Evaluations: cert.Evaluations,
	}, nil
}

// EnginePlan is how an engine should run a model here, and how that is known.
type EnginePlan struct {
	Source      Source             `json:"source"` // measured, derived, or heuristic: the engine's own
	Model       string             `json:"model"`
	Fingerprint string             `json:"fingerprint"`
	Target      string             `json:"target"`
	Reason      string             `json:"reason"`
	Config      engine.Learned     `json:"config"`
	Flags       []string           `json:"flags"` // for llama-server
	MeasuredAt  time.Time          `json:"measured_at,omitzero"`
	Evaluations int                `json:"evaluations"`
	Ratio       engine.Ratio       `json:"ratio"`
	Evidence    *EngineCertificate `json:"evidence,omitempty"` // the run behind it
}

// PlanEngine answers how an engine should run a model file on this host, from what was learned. Like Plan it never
// measures and never opens the database, and it starts no program. Of several builds and requests that were tuned here the newest
// answers, and the reason names it; where none was, what was learned here under other limits (cores, memory), its thread counts
// bounded by those of now, or what hosts of this class proved and this one checked, whichever is newer.
func (t *Tuner) PlanEngine(ctx context.Context, model, name string) (EnginePlan, error) {
	if t.opt.Mode == ModeFrozen {
		return EnginePlan{}, fmt.Errorf("%s: %w: engines have none", model, ErrFrozen)
	}
	if !slices.Contains(Engines(), name) {
		return EnginePlan{}, fmt.Errorf("%w: engine %q: one of %v", ErrBadBudget, name, Engines())
	}
	if err := ctx.Err(); err != nil {
		return EnginePlan{}, err
	}
	m, err := readEngineModel(model)
	if err != nil {
		return EnginePlan{}, err
	}
	host, err := t.probe(ctx)
	if err != nil {
		return EnginePlan{}, err
	}
	p := EnginePlan{Source: Heuristic, Model: m.name, Fingerprint: host.Fingerprint(), Target: EngineTarget + name, Flags: []string{},
		Reason: "nothing was measured here yet, so that the engine's own settings stay; run tune", Config: engine.Learned{Engine: name, Model: m.path, Plan: engine.Plan{}}}
	if t.opt.Mode == ModeOff {
		p.Reason = unusedInOff + ", so that the engine's own settings stay"
		return p, nil
	}
	snapshot, err := t.snapshot()
	if err != nil {
		p.Reason += "; the learned configs could not be read: " + err.Error()
	}
	if snapshot == nil {
		return p, nil
	}
	best := engineLearned{}
	for _, l := range learnedOfEngine(snapshot, host, m, p.Target) {
		switch {
		case l.objection != "":
			p.Reason += "; " + l.objection
		case best.plan.Source == "" || l.before(best):
			best = l
		}
	}
	if best.plan.Source == "" {
		return p, nil
	}
	best.plan.Model, best.plan.Fingerprint, best.plan.Target = p.Model, p.Fingerprint, p.Target
	return best.plan, nil
}

// engineLearned is what was learned of an engine, as a plan.
type engineLearned struct {
	entry     history.Learned
	cert      EngineCertificate
	plan      EnginePlan
	objection string // why it is no answer
}

// before reports whether l answers rather than other: what was measured here, then what is newer.
func (l engineLearned) before(other engineLearned) bool {
	if l.plan.Source != other.plan.Source {
		return l.plan.Source == Measured
	}
	return l.at().After(other.at())
}

// at is when it was measured, by the clock of whoever did, which does not put it after the check that it passed here.
func (l engineLearned) at() time.Time {
	if r := l.cert.Received; r != nil && r.CheckedAt.Before(l.entry.MeasuredAt) {
		return r.CheckedAt
	}
	return l.entry.MeasuredAt
}

// learnedOfEngine is what is known of an engine with a model on a host. Of what was received, the last check of a config counts.
func learnedOfEngine(snapshot *history.Snapshot, host probe.Host, m engineModel, target string) (list []engineLearned) {
	last := map[string]int{} // received config of a program -> its place in the list
	for _, entry := range snapshot.Learned {
		if entry.Host != host.Fingerprint() || entry.Model != m.fingerprint || entry.Target != target {
			continue
		}
		l := engineLearned{entry: entry}
		changed := differing(fields(host.Envelope()), entry.Envelope)
		l.read(host, m, changed)
		if r := l.cert.Received; r != nil && len(changed) == 0 {
			config := entry.Signature + " " + r.Config
			if at, known := last[config]; known {
				if list[at].cert.Received.CheckedAt.Before(r.CheckedAt) {
					list[at] = l
				}
				continue
			}
			last[config] = len(list)
		}
		list = append(list, l)
	}
	return list
}

// read makes a plan of an entry for a host and a model, or says why it is none. changed are the limits that differ.
func (l *engineLearned) read(host probe.Host, m engineModel, changed []string) {
	if err := errors.Join(json.Unmarshal(l.entry.Config, &l.plan.Config), json.Unmarshal(l.entry.Certificate, &l.cert)); err != nil {
		l.objection = "a learned config does not parse: " + err.Error()
		return
	}
	e, p, r := l.entry, &l.plan, l.cert.Received
	measured := fmt.Sprintf("measured on %s for %s with build %s of %s", e.MeasuredAt.Local().Format(time.DateOnly), e.Objective, p.Config.Build, p.Config.Engine)
	if r != nil {
		measured = r.sentence(measured)
	}
	if len(changed) > 0 && r != nil {
		l.objection = "what was checked with another " + strings.Join(changed, ", ") + " is passed over"
		return
	}
	p.Source, p.Reason, p.MeasuredAt, p.Evaluations, p.Ratio, p.Evidence = Measured, measured, e.MeasuredAt, e.Evaluations, l.cert.Ratio, &l.cert
	if len(changed) > 0 {
		p.Source, p.MeasuredAt, p.Evaluations, p.Ratio = Derived, time.Time{}, 0, engine.Ratio{}
		p.Reason += ", re-bounded because " + strings.Join(changed, ", ") + " changed"
		if err := l.rebound(host, m, changed); err != nil {
			l.objection = measured + ": " + err.Error()
			return
		}
	}
	if r != nil {
		p.Source, p.Ratio = NearHost, engine.Ratio{} // which another host measured
	}
	switch {
	case r != nil && r.Verdict == Failed:
		l.objection = "passed over: " + measured
	case r != nil && r.Verdict == Proposed:
		l.objection = measured
	case l.cert.Verdict == measure.Keep:
		p.Reason += ": the engine's own settings are as good as anything found"
	}
	p.Flags = append([]string{}, p.Config.Server()...)
}
