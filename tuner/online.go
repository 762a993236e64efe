package tuner

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit/online"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Request is a batch that a live service is about to run. The zero Request is one decoded token at an unknown load.
type Request struct {
	Regime target.Regime // "" = Decode
	Tokens int           // in the batch; 0 = 1
	Load   float64       // of the host, 0 to 1; 0 = idle or unknown
}

// Choice is the setting for one Request, to be handed back with what it took.
type Choice struct {
	Regime target.Regime
	Arm    target.Arm
	inner  online.Choice
	tokens int
	of     *serving
}

// Tried reports whether the setting is another than the one that serves most requests.
func (c Choice) Tried() bool { return c.inner.Tried() }

// Session lets a live service choose among the settings that were proven for a model on this host, and learns from what
// they take while it serves. It never measures, and never uses a setting that was not found correct here. It is safe for
// concurrent use, and Choose and Report take less than a microsecond and allocate nothing.
type Session struct {
	tuner *Tuner
	model string
	run   uint64

	now  atomic.Pointer[serving]
	stop context.CancelFunc
	done sync.WaitGroup

	keeping sync.Mutex // held while what was learned is written down; of seq and served.kept
	seq     uint32

	mu  sync.Mutex
	err error // the latest that went wrong out of the service's sight
}

// serving is what a session serves of one plan: the settings of each regime, the plan's own first, and who chooses.
type serving struct {
	problem Problem
	plan    Plan
	regimes map[target.Regime]*served
}

type served struct {
	arms    []target.Arm
	gains   []online.Arm
	chooser *online.Chooser
	kept    float64 // requests when it was last written down
}

// How often a session looks whether the plan has changed, and writes down what it learned.
const (
	sessionLook = 2 * time.Second
	sessionKeep = 10 * time.Minute
)

// Online returns a session for a model. What goes wrong is told by Session.Err: a service must not stop for it. A model
// that cannot be read is the one case in which Choose answers with nothing.
func (t *Tuner) Online(name string) *Session {
	ctx, stop := context.WithCancel(context.Background())
	s := &Session{tuner: t, model: name, run: history.NewRunID(t.opt.Now()), stop: stop}
	if err := s.renew(ctx); err != nil {
		s.fail(err)
	}
	s.done.Go(func() { s.watch(ctx) })
	return s
}

// Err returns the latest that went wrong out of the service's sight; nil if nothing did.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Session) fail(err error) {
	if err != nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
}

// Plan returns what the session serves from.
func (s *Session) Plan() Plan {
	if on := s.now.Load(); on != nil {
		return on.plan
	}
	return Plan{}
}

// Choose returns the setting for the next batch. Without a Request it is one decoded token.
func (s *Session) Choose(of ...Request) Choice {
	var r Request
	if len(of) > 0 {
		r = of[0]
	}
	if r.Regime == "" {
		r.Regime = target.Decode
	}
	on := s.now.Load()
	if on == nil {
		return Choice{Regime: r.Regime}
	}
	c := Choice{Regime: r.Regime, tokens: max(r.Tokens, 1), of: on}
	if from := on.regimes[r.Regime]; from != nil {
		c.inner = from.chooser.Choose(online.Context{Batch: c.tokens, Load: r.Load})
		c.Arm = from.arms[c.inner.Arm]
	}
	return c
}

// Report tells how long the batch took with the setting that was chosen for it.
func (s *Session) Report(c Choice, latency time.Duration) {
	if from := c.from(); from != nil {
		from.chooser.Report(c.inner, float64(latency)/float64(c.tokens))
	}
}

// ReportRate tells the same in tokens per second.
func (s *Session) ReportRate(c Choice, tokensPerSecond float64) {
	if from := c.from(); from != nil {
		from.chooser.Report(c.inner, 1e9/tokensPerSecond)
	}
}

// Failed tells that the batch gave no result with the setting that was chosen for it.
func (s *Session) Failed(c Choice) {
	if from := c.from(); from != nil {
		from.chooser.Failed(c.inner)
	}
}

// from is who chose c. What was chosen before the plan changed is told to whoever chose it, and so to nobody.
func (c Choice) from() *served {
	if c.of == nil {
		return nil
	}
	return c.of.regimes[c.Regime]
}

// Close ends the session and writes down what it learned.
func (s *Session) Close() error {
	s.stop()
	s.done.Wait()
	if on := s.now.Load(); on != nil {
		return s.keep(on)
	}
	return nil
}

// watch follows the plan and writes down what was learned, until the session is closed.
func (s *Session) watch(ctx context.Context) {
	look := time.NewTicker(sessionLook)
	defer look.Stop()
	kept := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		s.fail(s.renew(ctx))
		if on := s.now.Load(); on != nil && time.Since(kept) >= sessionKeep {
			s.fail(s.keep(on))
			kept = time.Now()
		}
	}
}

// renew serves from the plan as it is now, if that is another. What was learned of arms that stay goes on, but a setting
// that was proven since serves first. The first time it takes up what earlier sessions wrote down.
func (s *Session) renew(ctx context.Context) error {
	plan, err := s.tuner.Plan(ctx, s.model)
	if err != nil {
		return err
	}
	before := s.now.Load()
	if before != nil && samePlan(before.plan, plan) {
		return nil
	}
	next, err := s.tuner.serve(ctx, s.model)
	if err != nil {
		return err
	}
	if before == nil {
		err = s.recall(ctx, next)
	} else {
		for regime, from := range next.regimes {
			if old := before.regimes[regime]; old != nil {
				from.chooser.Recall(from.translated(old)...)
			}
		}
	}
	s.now.Store(next)
	return err
}

func samePlan(a, b Plan) bool {
	return a.Source == b.Source && a.MeasuredAt.Equal(b.MeasuredAt) && slices.EqualFunc(Regimes, Regimes, func(r, _ target.Regime) bool {
		return a.Config.Arm(r) == b.Config.Arm(r)
	})
}

// serve makes the settings to choose among: what the plan says, and beside it what was proven in the same run.
func (t *Tuner) serve(ctx context.Context, name string) (*serving, error) {
	p, err := t.problem(ctx, name)
	if err != nil {
		return nil, err
	}
	snapshot, err := t.snapshot()
	if err != nil {
		snapshot = nil // Plan says so
	}
	p, _, _ = t.answering(ctx, p, snapshot)
	on := &serving{problem: p, plan: p.plan(snapshot), regimes: map[target.Regime]*served{}}
	wrong := p.wrong(snapshot)
	for _, regime := range Regimes {
		from := &served{arms: []target.Arm{on.plan.Config.Arm(regime)}, gains: []online.Arm{{Gain: 1, Low: 1, High: 1}}}
		if v, ok := p.proven(snapshot, regime); ok && on.plan.Source == Measured && v.winner() == from.arms[0] && t.opt.Mode == ModeTune {
			from.rivals(p, v, wrong)
		}
		from.chooser = online.New(online.Options{Arms: from.gains, Seed: uint64(len(from.arms))})
		on.regimes[regime] = from
	}
	return on, nil
}

// rivals adds the arms that met the default in the duel of v, and the default itself: they are correct here, and what they
// cost is known. An arm in another layout would need the weights packed again.
func (f *served) rivals(p Problem, v RegimeVerdict, wrong []target.Arm) {
	winner := Ratio{Estimate: 1, Low: 1, High: 1}
	if v.Verdict == measure.Adopt {
		winner = v.Ratio
	}
	f.rival(p, v, v.Default, Ratio{Estimate: 1, Low: 1, High: 1}, winner, wrong)
	for _, up := range v.RunnersUp {
		f.rival(p, v, up.Arm, up.Ratio, winner, wrong)
	}
}

func (f *served) rival(p Problem, v RegimeVerdict, a target.Arm, ratio, winner Ratio, wrong []target.Arm) {
	if a.Layout != f.arms[0].Layout || slices.Contains(f.arms, a) || slices.Contains(wrong, a) || p.domain().judge(v.Regime, a) != nil || !p.obeys(v.Regime, a) {
		return
	}
	if ratio.Low <= 0 || winner.Low <= 0 {
		return
	}
	half := math.Hypot(math.Log(ratio.High/ratio.Low), math.Log(winner.High/winner.Low)) / 2
	gain := ratio.Estimate / winner.Estimate
	f.arms = append(f.arms, a)
	f.gains = append(f.gains, online.Arm{Gain: gain, Low: gain * math.Exp(-half), High: gain * math.Exp(half)})
}

// translated are the memories of another's choices in terms of f's arms; what was learned of arms that are not among them
// is dropped.
func (f *served) translated(from *served) []online.Memory {
	var list []online.Memory
	for _, m := range from.chooser.Memories() {
		to := online.Memory{Context: m.Context, Incumbent: slices.Index(f.arms, from.arms[m.Incumbent]), Requests: m.Requests, Costs: make([][]float64, len(f.arms))}
		for i, costs := range m.Costs {
			if at := slices.Index(f.arms, from.arms[i]); at >= 0 {
				to.Costs[at] = costs
			}
		}
		if from.arms[0] != f.arms[0] {
			to = seated(to)
		}
		list = append(list, to)
	}
	return list
}

// seated is a memory in which the plan's own arm serves, which was proven after the memory was made; the costs are relative
// to it then. Where it was not tried, nothing is left.
func seated(m online.Memory) online.Memory {
	own := Median(m.Costs[0])
	for i, costs := range m.Costs {
		m.Costs[i] = nil
		for _, cost := range costs {
			if own > 0 {
				m.Costs[i] = append(m.Costs[i], cost/own)
			}
		}
	}
	m.Incumbent = 0
	return m
}

// Records of sessions are kept beside those of runs, in regimes of their own: "online/decode/1/0.25" is a batch of 1 to 1
// token at a load of a quarter to a half. A record holds an arm's latest costs relative to the incumbent, which Signature
// names after the kernel table.
const sessionPrefix = "online/"

func sessionRegime(r target.Regime, of online.Context) string {
	return fmt.Sprintf("%s%s/%d/%g", sessionPrefix, r, of.Batch, of.Load)
}

// keep writes down what was learned since it was last done, and drops what is old: nothing else does while a service runs.
func (s *Session) keep(on *serving) error {
	if s.tuner.opt.Store == "" {
		return nil
	}
	s.keeping.Lock()
	defer s.keeping.Unlock()
	records, requests := s.records(on)
	if len(records) == 0 {
		return nil
	}
	store, _, err := s.tuner.openStore(context.Background())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeLast)
	defer cancel()
	if err := store.Append(ctx, records...); err != nil {
		return err
	}
	for from, n := range requests {
		from.kept = n
	}
	_, err = store.Prune(ctx, history.Retention{})
	return err
}

// records are what keep writes, and after how many requests of each regime that is. All have one time, by which recall
// knows what belongs together.
func (s *Session) records(on *serving) (list []history.Record, requests map[*served]float64) {
	at := s.tuner.opt.Now().UTC()
	requests = map[*served]float64{}
	for regime, from := range on.regimes {
		if len(from.arms) < 2 {
			continue
		}
		memories, n := from.chooser.Memories(), 0.0
		for _, m := range memories {
			n += m.Requests
		}
		if n == from.kept {
			continue
		}
		requests[from] = n
		for _, m := range memories {
			for i, costs := range m.Costs {
				if len(costs) > 0 {
					list = append(list, s.record(on, at, sessionRegime(regime, m.Context), from.arms[i], from.arms[m.Incumbent], costs))
				}
			}
		}
	}
	return list, requests
}

func (s *Session) record(on *serving, at time.Time, regime string, a, incumbent target.Arm, costs []float64) history.Record {
	s.seq++
	table := on.problem.domain()
	return history.Record{
		Run: s.run, Seq: s.seq, Time: at, Host: on.problem.fingerprint(), Model: on.problem.Model.Fingerprint(),
		Target: on.problem.Target, Regime: regime, Config: armJSON(a), Kernel: a.Kernel, KernelRev: table.revision(a.Kernel),
		Signature: on.problem.key(incumbent), Status: history.StatusOK, Costs: costs,
	}
}

// recall takes up what earlier sessions wrote down about the arms that are served now: of each context the latest session.
func (s *Session) recall(ctx context.Context, on *serving) error {
	store, err := s.tuner.readStore()
	if store == nil {
		return err
	}
	type place struct {
		regime  target.Regime
		context online.Context
	}
	latest := map[place]*online.Memory{}
	written := map[place]time.Time{}
	filter := history.Filter{Host: on.problem.fingerprint(), Model: on.problem.Model.Fingerprint(), Target: on.problem.Target}
	err = store.Records(ctx, filter, func(r history.Record) error {
		regime, of, ok := parseSessionRegime(r.Regime)
		from := on.regimes[regime]
		if !ok || from == nil {
			return nil
		}
		var a target.Arm
		if json.Unmarshal(r.Config, &a) != nil {
			return nil
		}
		arm := slices.Index(from.arms, a)
		incumbent := slices.IndexFunc(from.arms, func(a target.Arm) bool { return on.problem.key(a) == r.Signature })
		if arm < 0 || incumbent < 0 {
			return nil
		}
		at := place{regime, of}
		if m := latest[at]; m == nil || r.Time.After(written[at]) {
			latest[at] = &online.Memory{Context: of, Incumbent: incumbent, Costs: make([][]float64, len(from.arms))}
			written[at] = r.Time
		}
		if r.Time.Equal(written[at]) {
			latest[at].Costs[arm] = r.Costs
		}
		return nil
	})
	for at, m := range latest {
		if written[at].Before(on.plan.MeasuredAt) {
			*m = seated(*m)
		}
		on.regimes[at.regime].chooser.Recall(*m)
	}
	return err
}

// parseSessionRegime reads what sessionRegime wrote, and nothing else: a record may come from elsewhere.
func parseSessionRegime(text string) (r target.Regime, of online.Context, ok bool) {
	parts := strings.Split(strings.TrimPrefix(text, sessionPrefix), "/")
	if !strings.HasPrefix(text, sessionPrefix) || len(parts) != 3 {
		return "", of, false
	}
	n, err := fmt.Sscanf(parts[1]+" "+parts[2], "%d %g", &of.Batch, &of.Load)
	r = target.Regime(parts[0])
	known := of.Batch >= 1 && of.Load >= 0 && of.Load < 1
	return r, of, err == nil && n == 2 && known && sessionRegime(r, of) == text
}
