package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Bounds of what is kept of a history in memory.
const (
	mostRuns    = 20  // the newest
	mostSamples = 128 // of one arm: its first
)

// archive is what the history holds of one model on this host, read in one go.
type archive struct {
	stamp  string // of the database that it was read from; "" = there was none
	host   string // fingerprint
	model  model.Model
	runs   []*run // the newest first
	arms   []*seen
	damage string // what could not be read; "" = nothing
}

// run is one of the newest runs.
type run struct {
	history.Run
	proof  tuner.Certificate // with a verdict of "" until the run ends
	trials []trial           // in the order in which they were taken
}

// trial is one record of a run.
type trial struct {
	seq    uint32
	at     time.Time
	arm    *seen
	cost   float64 // to the yardstick; 0 = it failed
	status string
}

// cpu is the target of runs on the CPU.
const cpu = "cpu"

// group is what can be compared: a regime on a target.
type group struct {
	target string
	regime target.Regime
}

// seen is an arm with all that was measured of it against one yardstick.
type seen struct {
	group
	arm            target.Arm
	signature      string
	costs, samples []float64 // ratios to the yardstick, ns per token
	status         string    // of the last record
	last           time.Time
}

// archive reads the history of a model, unless it has not changed since. While a reader waits nobody else is kept from the
// store: the lock is held for a chunk of records at a time.
func (s *Server) archive(ctx context.Context, name string) (*archive, error) {
	s.mu.Lock()
	if s.archives[name] == nil {
		s.archives[name] = newKept[*archive](s.life)
	}
	place := s.archives[name]
	s.mu.Unlock()
	return place.get(ctx, s.opt.Now, archiveFresh, func(ctx context.Context, last *archive) (*archive, error) {
		stamp, err := history.Stamp(s.opt.Store)
		if err != nil || last != nil && last.stamp == stamp {
			return last, err
		}
		a := &archive{stamp: stamp}
		if a.model, err = model.Load(name); err != nil {
			return nil, err
		}
		if a.host, err = s.opt.Tuner.Fingerprint(ctx); err != nil || stamp == "" {
			return a, err
		}
		return a, a.read(ctx, s.opt.Store, last)
	})
}

// archiveFresh is how long a history is not looked at again.
const archiveFresh = 3 * time.Second

// read reads a history. Of one that is damaged as a whole, what was read last is still known.
func (a *archive) read(ctx context.Context, dir string, last *archive) error {
	store, err := history.Open(dir, history.Options{ReadOnly: true, Timeout: 2 * time.Second})
	if err != nil {
		if last != nil {
			a.runs, a.arms = last.runs, last.arms
		}
		return a.tell(err)
	}
	if err := a.tell(a.readRuns(ctx, store)); err != nil {
		return err
	}
	index := map[string]*seen{}
	read := map[history.Filter]bool{}
	for _, r := range a.runs {
		f := history.Filter{Host: r.Host, Model: r.Model, Target: r.Target}
		if read[f] {
			continue
		}
		read[f] = true
		if err := a.tell(store.Records(ctx, f, func(rec history.Record) error { return a.add(index, rec) })); err != nil {
			return err
		}
	}
	for _, r := range a.runs {
		slices.SortFunc(r.trials, func(x, y trial) int { return cmp.Compare(x.seq, y.seq) })
	}
	return nil
}

// tell takes damage down, which leaves the rest readable. Any other error is returned.
func (a *archive) tell(err error) error {
	if errors.Is(err, history.ErrCorrupt) {
		a.damage = err.Error()
		return nil
	}
	return err
}

// readRuns reads the newest runs of the model. On the CPU those of this host; the fingerprint of a host with a card is
// another one, so that what was learned on a card is shown wherever it is from.
func (a *archive) readRuns(ctx context.Context, store *history.Store) error {
	all, err := store.Runs(ctx)
	slices.Reverse(all)
	for _, r := range all {
		ours := r.Model == a.model.Fingerprint() && (r.Host == a.host || r.Target != cpu)
		if !ours || len(a.runs) == mostRuns {
			continue
		}
		next := &run{Run: r}
		if len(r.Certificate) > 0 {
			if bad := json.Unmarshal(r.Certificate, &next.proof); bad != nil {
				a.damage = bad.Error()
			}
		}
		a.runs = append(a.runs, next)
	}
	return err
}

// add takes a record in.
func (a *archive) add(index map[string]*seen, rec history.Record) error {
	if strings.Contains(rec.Regime, "/") { // of a session, whose requests are no paired blocks
		return nil
	}
	key := strings.Join([]string{rec.Target, rec.Regime, rec.Signature, string(rec.Config)}, "\x00")
	arm := index[key]
	if arm == nil {
		arm = &seen{group: group{rec.Target, target.Regime(rec.Regime)}, signature: rec.Signature}
		if json.Unmarshal(rec.Config, &arm.arm) != nil {
			return nil // no arm of this build
		}
		index[key] = arm
		a.arms = append(a.arms, arm)
	}
	arm.costs = atMost(arm.costs, rec.Costs)
	arm.samples = atMost(arm.samples, rec.Samples)
	if !rec.Time.Before(arm.last) {
		arm.last, arm.status = rec.Time, rec.Status
	}
	for _, r := range a.runs {
		if r.ID == rec.Run {
			r.trials = append(r.trials, trial{rec.Seq, rec.Time, arm, tuner.Median(rec.Costs), rec.Status})
		}
	}
	return nil
}

func atMost(list, more []float64) []float64 {
	return append(list, more[:min(len(more), mostSamples-len(list))]...)
}

// newest is the signature of what is to be compared in a group: of the newest kernel table the yardstick to which most arms
// were related.
func (a *archive) newest(g group) string {
	last, table := time.Time{}, ""
	arms := map[string]int{}
	for _, arm := range a.arms {
		if arm.group != g {
			continue
		}
		arms[arm.signature]++
		if !arm.last.Before(last) {
			last = arm.last
			table, _, _ = strings.Cut(arm.signature, "/")
		}
	}
	most := ""
	for _, signature := range slices.Sorted(maps.Keys(arms)) {
		if strings.HasPrefix(signature, table+"/") && arms[signature] > arms[most] {
			most = signature
		}
	}
	return most
}

// comparable are the arms of a group that were related to one yardstick with one kernel table, and the yardstick.
func (a *archive) comparable(g group, signature string) []*seen {
	var list []*seen
	for _, arm := range a.arms {
		if arm.group == g && arm.signature == signature {
			list = append(list, arm)
		}
	}
	if y := a.yardstick(g, list); y != nil {
		list = append(list, y)
	}
	return list
}

// yardstick is the arm that arms were compared with, nil where nobody tells or it was measured as one of them. It ran in every
// block with them, and costs 1 by definition.
func (a *archive) yardstick(g group, arms []*seen) *seen {
	if len(arms) == 0 {
		return nil
	}
	signature := arms[0].signature
	for _, arm := range arms {
		if tuner.Yardstick(signature, arm.arm) {
			return nil
		}
	}
	for _, candidate := range a.candidates(g) {
		if !tuner.Yardstick(signature, candidate) {
			continue
		}
		y := &seen{group: g, arm: candidate, signature: signature, status: history.StatusOK}
		for _, arm := range arms {
			for i, cost := range arm.costs {
				y.costs = atMost(y.costs, []float64{1})
				if i < len(arm.samples) {
					y.samples = atMost(y.samples, []float64{arm.samples[i] / cost})
				}
			}
		}
		return y
	}
	return nil
}

// candidates are the arms that certificates name in a group.
func (a *archive) candidates(g group) []target.Arm {
	var list []target.Arm
	for _, r := range a.runs {
		if r.Target != g.target {
			continue
		}
		for _, v := range slices.Concat(r.proof.Regimes, r.proof.Inherited) {
			if v.Regime != g.regime {
				continue
			}
			list = append(list, v.Best, v.Default)
			for _, up := range v.RunnersUp {
				list = append(list, up.Arm)
			}
		}
	}
	return list
}

// groups are those that were measured, in order.
func (a *archive) groups() []group {
	var list []group
	for _, arm := range a.arms {
		if !slices.Contains(list, arm.group) {
			list = append(list, arm.group)
		}
	}
	slices.SortFunc(list, func(x, y group) int {
		return cmp.Or(cmp.Compare(x.target, y.target), cmp.Compare(slices.Index(tuner.Regimes, x.regime), slices.Index(tuner.Regimes, y.regime)))
	})
	return list
}

// proof is the newest verdict on a group by runs.
func proof(runs []*run, g group) (tuner.RegimeVerdict, bool) {
	for _, r := range runs {
		for _, v := range r.proof.Regimes {
			if r.Target == g.target && v.Regime == g.regime {
				return v, true
			}
		}
	}
	return tuner.RegimeVerdict{}, false
}

// What ratios relate to.
const (
	toDefault   = "default"
	toHeuristic = "heuristic" // where the default was not measured
)

// reference is the cost of the default among arms that can be compared, with which costs become ratios to it, and its name.
// The default was measured as one of them, else a certificate of the runs relates it to the heuristic.
func reference(g group, arms []*seen, runs []*run) (cost float64, name string) {
	v, ok := proof(runs, g)
	if !ok {
		return 1, toHeuristic
	}
	for _, arm := range arms {
		if arm.arm == v.Default && len(arm.costs) > 0 {
			return tuner.Median(arm.costs), toDefault
		}
	}
	if v.OverHeuristic > 0 && v.Ratio.Estimate > 0 {
		return v.Ratio.Estimate / v.OverHeuristic, toDefault
	}
	return 1, toHeuristic
}

// ratio is how many times as fast as the reference, of which the cost is given, an arm is; 0 unknown.
func (arm *seen) ratio(reference float64) float64 {
	if cost := tuner.Median(arm.costs); cost > 0 {
		return reference / cost
	}
	return 0
}

// rate is tokens per second; 0 unknown.
func (arm *seen) rate() float64 {
	if ns := tuner.Median(arm.samples); ns > 0 {
		return 1e9 / ns
	}
	return 0
}

// blocking is the part of an arm that is neither kernel nor threads nor batch, in short.
func blocking(a target.Arm) string {
	short := target.Arm{Kernel: a.Blocking.Tile.String(), Blocking: a.Blocking, Launch: a.Launch}
	if a.Threads == 0 {
		short.Kernel = ""
	}
	return strings.TrimPrefix(short.String(), ", ")
}
