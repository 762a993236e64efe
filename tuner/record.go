package tuner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// ErrBusy means that another run measures on this store: two at once would measure each other.
var ErrBusy = errors.New("another tune is running")

// shortHash is 16 hex digits that stand for data.
func shortHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// keep takes one trial down.
func (s *search) keep(a *arm, done bandit.Trial, samples []float64, note string) {
	s.seq++
	s.pending = append(s.pending, history.Record{
		Run: s.run, Seq: s.seq, Time: time.Now().UTC(), Host: s.problem.fingerprint(), Model: s.problem.Model.Fingerprint(),
		Target: s.problem.Target, Regime: string(s.regime), Config: armJSON(a.arm),
		Kernel: a.arm.Kernel, KernelRev: s.problem.domain().revision(a.arm.Kernel), Signature: s.problem.key(s.baseArm),
		Status: done.Status.String(), Costs: done.Costs, Samples: samples, Elapsed: done.Elapsed, Note: note,
	})
	if !s.now().Before(s.retry) {
		s.flush()
	}
}

// How the store is waited for: not long while measuring, where records can wait, and longer at the end.
const (
	storePatience = time.Second
	storePause    = 5 * time.Second
	storeLast     = 10 * time.Second
)

// flush offers the store what it has not accepted yet. A store that others hold puts it into its spool. One that does not
// take it at all, such as on a full disk, is no reason to stop measuring: the records wait, and after a pause they are
// offered again.
func (r *tune) flush() {
	if r.store == nil || len(r.pending) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	if err := r.store.Append(ctx, r.pending...); err != nil {
		if r.retry.IsZero() {
			r.warn("measurements could not be kept at once: " + err.Error())
		}
		r.retry = r.now().Add(storePause)
		return
	}
	r.pending = r.pending[:0]
}

// known reads what earlier runs measured in this regime against the same yardstick with the same kernels. A wrong or
// impossible arm stays so; a crash or a want of memory may have been the moment's, and is tried again.
func (s *search) known() ([]bandit.Trial, error) {
	busy, err := s.busyRuns()
	if err != nil {
		return nil, err
	}
	var trials []bandit.Trial
	err = s.earlier(s.regime, s.problem.key(s.baseArm), func(rec history.Record, a target.Arm) {
		point, inside := s.problem.pointOf(s.space, a)
		var status bandit.Status
		if !inside || status.UnmarshalText([]byte(rec.Status)) != nil || status == bandit.OK && busy[rec.Run] {
			return
		}
		if status == bandit.OK || status == bandit.Mismatch || status == bandit.Rejected {
			trials = append(trials, bandit.Trial{Point: point, Status: status, Costs: rec.Costs, Elapsed: rec.Elapsed})
		}
	})
	return trials, err
}

// noiseFact is the name under which a run keeps its noise floor.
const noiseFact = "noise_floor"

// busyRuns are the earlier runs whose costs say more of a busy host than of the arms: those with a high noise floor,
// if this run's is clearly lower.
func (r *tune) busyRuns() (map[uint64]bool, error) {
	busy := map[uint64]bool{}
	if r.store == nil {
		return busy, nil
	}
	runs, err := r.store.Runs(context.Background())
	for _, run := range runs {
		floor, bad := strconv.ParseFloat(run.Facts[noiseFact], 64)
		busy[run.ID] = bad == nil && floor > busyFloor && floor > 2*r.floor
	}
	return busy, err
}

// earlier calls fn for every record of a regime that was measured here against a yardstick with this kernel table.
func (r *tune) earlier(regime target.Regime, key string, fn func(history.Record, target.Arm)) error {
	if r.store == nil {
		return nil
	}
	filter := history.Filter{Host: r.problem.fingerprint(), Model: r.problem.Model.Fingerprint(), Target: r.problem.Target, Regime: string(regime)}
	return r.store.Records(context.Background(), filter, func(rec history.Record) error {
		var a target.Arm
		if rec.Signature == key && json.Unmarshal(rec.Config, &a) == nil {
			fn(rec, a)
		}
		return nil
	})
}

// publish keeps the run and makes its result what Plan answers. A run that decided nothing publishes nothing, unless it
// found an arm wrong, which must not be the answer any more; and neither does one that was not allowed all usable cores: it holds for less than this host. Each step is tried though
// another failed, so that a proven result is not lost with a refused record.
func (r *tune) publish(cert *Certificate) error {
	defer r.tuner.forget()
	var learned *history.Learned
	cert.summarise(r.now().Sub(r.started))
	keeper := r.store != nil || r.tuner.opt.Fleet != nil
	if publishes := cert.Verdict != measure.Inconclusive || r.newWrong; publishes && keeper {
		if r.bounded() {
			r.warn(fmt.Sprintf("not published: it holds for at most %d of %d threads; pin it to use it", r.problem.threads(), r.problem.Host.CPU.UsableCores))
		} else {
			learned = r.learned(cert)
		}
		if back, ok := r.problem.takenBack(cert.Best.Config, r.published()); ok && back.CheckedAt.After(r.started) {
			learned = nil
			r.warn("not published: while this run measured, it was " + back.Reason)
		}
	}
	if r.store != nil {
		r.heed(r.store.Warnings())
	}
	cert.Warnings = append(cert.Warnings, r.warnings...)
	var err error
	if r.store != nil {
		err = r.save(cert, learned)
	}
	if learned != nil && cert.Verdict != measure.Inconclusive && r.tuner.opt.Fleet != nil && len(r.problem.knobs) == 0 {
		told := len(r.warnings)
		r.give(cert, *learned)
		cert.Warnings = append(cert.Warnings, r.warnings[told:]...) // of the certificate that is printed: the one that is kept is written
	}
	return err
}

// heed takes warnings down, such as those of the store, that are not taken down yet.
func (r *tune) heed(warnings []error) {
	for _, w := range warnings {
		if !slices.Contains(r.warnings, w.Error()) {
			r.warn(w.Error())
		}
	}
}

// save writes the last records, the run, and what was learned, and leaves the store backed up and bounded.
func (r *tune) save(cert *Certificate, learned *history.Learned) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeLast)
	defer cancel()
	proof, err := json.Marshal(cert)
	if err != nil {
		return fmt.Errorf("tune: certificate: %w", err)
	}
	var failed []error
	if len(r.pending) > 0 {
		if err := r.store.Append(ctx, r.pending...); err != nil {
			failed = append(failed, fmt.Errorf("tune: the measurements could not be kept: %w", err))
		}
	}
	if err := r.store.PutRun(ctx, r.record(cert, proof)); err != nil {
		failed = append(failed, fmt.Errorf("tune: the run could not be kept: %w", err))
	}
	if learned != nil {
		learned.Certificate = proof
		if err := r.store.Publish(ctx, *learned); err != nil {
			failed = append(failed, fmt.Errorf("tune: the config could not be published: %w", err))
		}
	}
	if err := r.store.Upkeep(ctx); err != nil {
		cert.Warnings = append(cert.Warnings, err.Error()) // of the certificate that is printed: the one that is kept is written
	}
	return errors.Join(failed...)
}

// record is the run as history keeps it: when it begins, without a certificate, and when it ends.
func (r *tune) record(cert *Certificate, proof json.RawMessage) history.Run {
	run := history.Run{
		ID: r.run, Started: r.started.UTC(), Host: r.problem.fingerprint(), Model: r.problem.Model.Fingerprint(),
		Target: r.problem.Target, Objective: string(r.problem.Objective), Strategy: r.budget.Strategy, Seed: r.budget.Seed,
		Budget: r.budget.Time, Facts: r.facts(),
	}
	if cert != nil {
		run.Facts[noiseFact] = strconv.FormatFloat(r.floor, 'g', 4, 64)
		run.Finished, run.Verdict, run.Certificate = r.tuner.opt.Now().UTC(), string(cert.Verdict), proof
	}
	return run
}

func (r *tune) learned(cert *Certificate) *history.Learned {
	config, err := json.Marshal(cert.Best.Config)
	if err != nil {
		panic("tuner: a config always marshals")
	}
	h := r.problem.Host
	envelope := fields(h.Envelope())
	if len(r.problem.knobs) > 0 {
		envelope[knobsField] = knobText(r.problem.knobs)
	}
	return &history.Learned{
		Host: cert.Fingerprint, Model: r.problem.Model.Fingerprint(), ModelName: r.problem.Model.Name,
		Target: r.problem.Target, Objective: string(cert.Objective), Signature: r.problem.domain().signature(),
		Identity: fields(r.problem.identity()), Envelope: envelope, Condition: fields(h.Condition()),
		Config: config, Run: r.run, MeasuredAt: r.tuner.opt.Now().UTC(), Evaluations: cert.Evaluations + cert.Known, Curve: r.curve(),
	}
}

// curve is the least cost of an arm at each thread count, relative to the heuristic, over everything known: an arm's
// cost is the median of all its samples.
func (r *tune) curve() json.RawMessage {
	curve, heuristic := Curve{}, r.problem.Heuristic()
	for _, regime := range Regimes {
		costs := map[target.Arm][]float64{}
		err := r.earlier(regime, r.problem.key(heuristic.Arm(regime)), func(rec history.Record, a target.Arm) {
			costs[a] = append(costs[a], rec.Costs...)
		})
		if err != nil {
			r.warn("the thread curve lacks what could not be read: " + err.Error())
		}
		curve[regime] = map[int]float64{}
		for a, list := range costs {
			best, ok := curve[regime][a.Threads]
			if cost := Median(list); cost > 0 && (!ok || cost < best) {
				curve[regime][a.Threads] = cost
			}
		}
	}
	data, err := json.Marshal(curve)
	if err != nil {
		panic("tuner: a curve always marshals")
	}
	return data
}

// facts are all fields of the host's key.
func (r *tune) facts() map[string]string {
	h := r.problem.Host
	return fields(slices.Concat(r.problem.identity(), h.Envelope(), h.Condition()))
}

// Median is the middle of a list, the mean of the two middle ones of an even number, 0 of none.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
