package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Aggregate sums up the records of one setting that were pruned: what is known of them once they are gone. Records that
// are still there are not in it.
type Aggregate struct {
	Host      string          `json:"host"`
	Model     string          `json:"model"`
	Target    string          `json:"target"`
	Regime    string          `json:"regime"`
	Signature string          `json:"signature"` // of the kernel table and the yardstick: costs against others do not mix
	Config    json.RawMessage `json:"config"`

	Statuses map[string]int `json:"statuses"` // records by status
	Costs    Moments        `json:"costs"`
	Samples  Moments        `json:"samples_ns"`
	First    time.Time      `json:"first,omitzero"`
	Last     time.Time      `json:"last,omitzero"`

	// ThroughRun and ThroughSeq are of the last record in it: one that is no later is in it already.
	ThroughRun uint64 `json:"through_run,string"`
	ThroughSeq uint32 `json:"through_seq"`
}

// Moments sum up numbers. Two of them can be put together, the quantiles included.
type Moments struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	M2   float64 `json:"m2"` // sum of squared distances from the mean: Welford (1962)
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	// Bins count the numbers x by floor(32 ln x), so a quantile is known within 1.6 %.
	Bins map[int]int `json:"bins,omitempty"`
}

// binsPerE is how many bins a factor of e has.
const binsPerE = 32

// add counts one positive number.
func (m *Moments) add(x float64) {
	if m.N == 0 {
		m.Min, m.Max, m.Bins = x, x, map[int]int{}
	}
	m.N++
	d := x - m.Mean
	m.Mean += d / float64(m.N)
	m.M2 += d * (x - m.Mean)
	m.Min, m.Max = min(m.Min, x), max(m.Max, x)
	m.Bins[int(math.Floor(binsPerE*math.Log(x)))]++
}

// Quantile is the number below which a share q of the numbers lies, 0 if there are none.
func (m Moments) Quantile(q float64) float64 {
	if m.N == 0 {
		return 0
	}
	low, high := int(math.Floor(binsPerE*math.Log(m.Min))), int(math.Floor(binsPerE*math.Log(m.Max)))
	left := int(math.Ceil(q * float64(m.N)))
	for bin := low; bin <= high; bin++ {
		if left -= m.Bins[bin]; left <= 0 {
			middle := math.Exp((float64(bin) + 0.5) / binsPerE)
			return min(max(middle, m.Min), m.Max)
		}
	}
	return m.Max
}

// cellOf is how much of a sample's key is the same for all samples of one setting.
func cellOf(key []byte) []byte { return key[:len(key)-8-4] }

// key is a sample's key without run and number, and the hash of the signature.
func (a Aggregate) key() ([]byte, error) {
	config, err := Canonical(a.Config)
	if err != nil {
		return nil, err
	}
	key, err := sampleKey{a.Host, a.Model, a.Target, a.Regime, hash64(config), 0, 0}.encode()
	if err != nil {
		return nil, err
	}
	return aggregateKey(cellOf(key), a.Signature), nil
}

func aggregateKey(cell []byte, signature string) []byte {
	return binary.BigEndian.AppendUint64(bytes.Clone(cell), hash64([]byte(signature)))
}

func verifyAggregate(key, value []byte) error {
	var a Aggregate
	if err := unsealJSON(key, value, &a); err != nil {
		return err
	}
	own, err := a.key()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return belongs(key, own)
}

// counts reports whether a record is in a already.
func (a Aggregate) counts(run uint64, seq uint32) bool {
	return len(a.Statuses) > 0 && (run < a.ThroughRun || run == a.ThroughRun && seq <= a.ThroughSeq)
}

// add counts a record that is later than all in a.
func (a *Aggregate) add(r Record) {
	if a.counts(r.Run, r.Seq) {
		return
	}
	if a.Statuses == nil {
		*a = Aggregate{Host: r.Host, Model: r.Model, Target: r.Target, Regime: r.Regime, Signature: r.Signature, Config: r.Config, Statuses: map[string]int{}}
	}
	a.Statuses[r.Status]++
	for _, cost := range r.Costs {
		a.Costs.add(cost)
	}
	for _, sample := range r.Samples {
		a.Samples.add(sample)
	}
	if !r.Time.IsZero() && (a.First.IsZero() || r.Time.Before(a.First)) {
		a.First = r.Time
	}
	if r.Time.After(a.Last) {
		a.Last = r.Time
	}
	a.ThroughRun, a.ThroughSeq = r.Run, r.Seq
}

// restoreAggregate stores an aggregate unless one that counts more is there.
func (w *writer) restoreAggregate(key, value []byte) error {
	var a, there Aggregate
	if err := unsealJSON(key, value, &a); err != nil {
		return err
	}
	old := w.tx.Bucket(bucketAgg).Get(key)
	if old != nil && unsealJSON(key, old, &there) == nil && there.counts(a.ThroughRun, a.ThroughSeq) {
		return nil
	}
	return w.put(bucketAgg, key, value)
}

// Aggregates returns what is known of pruned records that f matches. A filter's Run matches none of them.
func (s *Store) Aggregates(ctx context.Context, f Filter) ([]Aggregate, error) {
	list := []Aggregate{}
	prefix, err := f.prefix()
	if err != nil {
		return nil, fmt.Errorf("history: read aggregates: filter: %w", err)
	}
	var damaged []error
	err = s.scan(ctx, bucketAgg, prefix, nil, func(key, value []byte) error {
		var a Aggregate
		if err := unsealJSON(key, value, &a); err != nil {
			damaged = append(damaged, err)
			return nil
		}
		if f.matchesNames(a.Host, a.Model, a.Target, a.Regime) && f.Run == 0 {
			list = append(list, a)
		}
		return nil
	})
	if err == nil && len(damaged) > 0 {
		err = fmt.Errorf("%d left out, the first: %w", len(damaged), damaged[0])
	}
	if err != nil {
		return list, fmt.Errorf("history: read aggregates of %s: %w", s.databasePath(), err)
	}
	return list, nil
}
