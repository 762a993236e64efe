package tuner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
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

// record keeps one trial. A store that does not take it is no reason to stop measuring: the record waits and is
// offered again.
func (s *search) record(a *arm, done bandit.Trial, c measure.Comparison) {
	k, _ := kernels.ByName(a.arm.Kernel)
	s.seq++
	samples := c.Cand.Samples
	s.keep(history.Record{
		Run: s.run, Seq: s.seq, Time: time.Now(), Host: s.problem.Host.Fingerprint(), Model: s.problem.Model.Fingerprint(),
		Target: s.problem.Target, Regime: string(s.regime), Config: armJSON(a.arm),
		Kernel: k.Name, KernelRev: k.Rev, Signature: s.problem.key(s.regime),
		Status: done.Status.String(), Costs: done.Costs, Samples: samples, Elapsed: done.Elapsed, Note: a.note,
	})
}

func (r *tune) keep(rec history.Record) {
	r.pending = append(r.pending, rec)
	if r.store == nil {
		return
	}
	if err := r.store.Append(context.Background(), r.pending...); err != nil {
		if len(r.pending) == 1 {
			r.warnings = append(r.warnings, "measurements could not be kept yet: "+err.Error())
		}
		return
	}
	r.pending = r.pending[:0]
}

// known reads what earlier runs measured in this regime against the same default with the same kernels.
func (s *search) known() ([]bandit.Trial, error) {
	if s.store == nil {
		return nil, nil
	}
	filter := history.Filter{Host: s.problem.Host.Fingerprint(), Model: s.problem.Model.Fingerprint(), Target: s.problem.Target, Regime: string(s.regime)}
	key := s.problem.key(s.regime)
	var trials []bandit.Trial
	err := s.store.Records(context.Background(), filter, func(rec history.Record) error {
		var a target.Arm
		if rec.Signature != key || json.Unmarshal(rec.Config, &a) != nil {
			return nil
		}
		point, inside := pointOf(s.space, a)
		var status bandit.Status
		if inside && status.UnmarshalText([]byte(rec.Status)) == nil {
			trials = append(trials, bandit.Trial{Point: point, Status: status, Costs: rec.Costs, Elapsed: rec.Elapsed})
		}
		return nil
	})
	return trials, err
}

// publish keeps the run and makes its result what Plan answers. An inconclusive run publishes nothing: what was
// learned before stays.
func (r *tune) publish(cert *Certificate) error {
	r.tell(Event{Phase: "done", Text: string(cert.Verdict)})
	if r.store == nil {
		return nil
	}
	ctx := context.Background()
	if len(r.pending) > 0 {
		if err := r.store.Append(ctx, r.pending...); err != nil {
			return fmt.Errorf("tune: the measurements could not be kept: %w", err)
		}
	}
	proof, err := json.Marshal(cert)
	if err != nil {
		return fmt.Errorf("tune: certificate: %w", err)
	}
	run := history.Run{
		ID: r.run, Started: r.started, Finished: time.Now(), Host: cert.Fingerprint, Model: r.problem.Model.Fingerprint(),
		Target: r.problem.Target, Objective: string(cert.Objective), Strategy: r.budget.Strategy, Seed: r.budget.Seed,
		Budget: r.budget.Time, Verdict: string(cert.Verdict), Facts: r.facts(), Certificate: proof,
	}
	if err := r.store.PutRun(ctx, run); err != nil {
		return fmt.Errorf("tune: the run could not be kept: %w", err)
	}
	if cert.Verdict == measure.Inconclusive {
		return nil
	}
	if err := r.store.Publish(ctx, r.learned(cert, proof)); err != nil {
		return fmt.Errorf("tune: the config could not be published: %w", err)
	}
	r.tuner.forget()
	return nil
}

func (r *tune) learned(cert *Certificate, proof json.RawMessage) history.Learned {
	config, err := json.Marshal(cert.Best.Config)
	if err != nil {
		panic("tuner: a config always marshals")
	}
	h := r.problem.Host
	return history.Learned{
		Host: cert.Fingerprint, Model: r.problem.Model.Fingerprint(), ModelName: r.problem.Model.Name,
		Target: r.problem.Target, Objective: string(cert.Objective), Signature: kernels.Signature(),
		Identity: fields(h.Identity()), Envelope: fields(h.Envelope()), Condition: fields(h.Condition()),
		Config: config, Certificate: proof, Run: r.run, MeasuredAt: time.Now(), Evaluations: cert.Evaluations + cert.Known,
		Curve: r.curve(),
	}
}

// curve is the least median cost seen at each thread count.
func (r *tune) curve() json.RawMessage {
	curve := Curve{}
	filter := history.Filter{Host: r.problem.Host.Fingerprint(), Model: r.problem.Model.Fingerprint(), Target: r.problem.Target, Run: r.run}
	err := r.store.Records(context.Background(), filter, func(rec history.Record) error {
		var a target.Arm
		if len(rec.Samples) == 0 || json.Unmarshal(rec.Config, &a) != nil {
			return nil
		}
		of := curve[target.Regime(rec.Regime)]
		if of == nil {
			of = map[int]float64{}
			curve[target.Regime(rec.Regime)] = of
		}
		cost := Median(rec.Samples)
		if known, ok := of[a.Threads]; !ok || cost < known {
			of[a.Threads] = cost
		}
		return nil
	})
	if err != nil {
		return nil
	}
	data, err := json.Marshal(curve)
	if err != nil {
		return nil
	}
	return data
}

func (r *tune) facts() map[string]string {
	facts := map[string]string{}
	for _, list := range []map[string]string{fields(r.problem.Host.Identity()), fields(r.problem.Host.Envelope()), fields(r.problem.Host.Condition())} {
		for name, value := range list {
			facts[name] = value
		}
	}
	return facts
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
