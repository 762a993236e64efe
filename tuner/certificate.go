package tuner

import (
	"math"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Certificate is the verdict of a tune run with the evidence for it. It marshals to the document that the tune verb
// prints. Rates are of the model's ternary matmuls alone: a whole decode step also reads the output head, which is
// larger than the ternary body for most of these models.
type Certificate struct {
	Verdict     measure.Verdict `json:"verdict"`
	Model       string          `json:"model"`
	Fingerprint string          `json:"fingerprint"`
	Objective   Objective       `json:"objective"`
	Target      string          `json:"target"`
	Run         string          `json:"run"`
	Default     Rated           `json:"default"`
	Best        Rated           `json:"best"`        // the configuration published; a regime that was not decided has no rate
	Ratio       Ratio           `json:"ratio"`       // of one request of the objective; 0 where a regime of it was not measured
	NoiseFloor  float64         `json:"noise_floor"` // |A/A ratio - 1| below which this host cannot tell two settings apart; 0 unknown
	Evaluations int             `json:"evaluations"` // arms measured in this run, each counted once
	Failed      int             `json:"failed"`
	Censored    int             `json:"censored"` // samples set aside because the host disturbed them
	SpaceSize   int             `json:"space_size"`
	Known       int             `json:"known"` // arms already in the history when the run began
	Elapsed     float64         `json:"elapsed_seconds"`
	Budget      float64         `json:"budget_seconds"`
	Roofline    Roofline        `json:"roofline"`
	Regimes     []RegimeVerdict `json:"regimes"`
	Layouts     []LayoutVerdict `json:"layouts"`   // how the layout was chosen
	Inherited   []RegimeVerdict `json:"inherited"` // verdicts of earlier runs that stay in force: this run did not decide these regimes
	Wrong       []target.Arm    `json:"wrong"`     // arms that failed their verification, in this run or before: never an answer again
	Note        string          `json:"note"`
	Warnings    []string        `json:"warnings"`
	Interrupted bool            `json:"interrupted"`
	Fleet       string          `json:"fleet,omitempty"` // what the run took from the fleet and gave to it
	// Received says how a config was checked here that another host proved; nil where this host did.
	Received *Received `json:"received,omitempty"`
	// RolledBack says why this config answers, though a later one was certified; nil where none was taken back.
	RolledBack *RolledBack `json:"rolled_back,omitempty"`
	// Placement says where the model is to run; nil where only the CPU was asked for.
	Placement *Placement `json:"placement,omitempty"`
}

// Rated is a configuration with its measured rates in tokens per second; 0 where a regime was not measured.
type Rated struct {
	Config     Config  `json:"config"`
	Decode     float64 `json:"decode_tokens_per_second"`
	SmallBatch float64 `json:"small_batch_tokens_per_second"`
	Prefill    float64 `json:"prefill_tokens_per_second"`
}

func (r *Rated) rate(regime target.Regime, nsPerToken float64) {
	if nsPerToken > 0 {
		*r.of(regime) = 1e9 / nsPerToken
	}
}

// of is the rate of a regime.
func (r *Rated) of(regime target.Regime) *float64 {
	switch regime {
	case target.Decode:
		return &r.Decode
	case target.SmallBatch:
		return &r.SmallBatch
	}
	return &r.Prefill
}

// Ratio is default cost over best cost (above 1 the best is faster) with its interval; Low and High are 0 where there
// were too few samples for one.
type Ratio struct {
	Estimate   float64 `json:"estimate"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
}

// Roofline relates the best decode setting to a plain read loop over the same weights, taken in the same run.
type Roofline struct {
	ReadBandwidth  float64 `json:"read_bandwidth_bytes_per_second"`
	ReadThreads    int     `json:"read_threads"`
	DecodeFraction float64 `json:"decode_fraction"` // read time / decode time; 1 = at the limit
	WeightBytes    uint64  `json:"weight_bytes"`    // read for one token
	Residency      string  `json:"residency"`       // where the weights lie: cache or memory
}

// RegimeVerdict is the part of a certificate that belongs to one regime.
type RegimeVerdict struct {
	Regime      target.Regime   `json:"regime"`
	Verdict     measure.Verdict `json:"verdict"`
	Ratio       Ratio           `json:"ratio"`
	Default     target.Arm      `json:"default"`
	Best        target.Arm      `json:"best"` // the arm that won or came closest
	DefaultNs   float64         `json:"default_ns_per_token"`
	BestNs      float64         `json:"best_ns_per_token"`
	Blocks      int             `json:"duel_blocks"`
	Evaluations int             `json:"evaluations"`
	Failed      int             `json:"failed"`
	Censored    int             `json:"censored"`
	SpaceSize   int             `json:"space_size"`
	Known       int             `json:"known"`
	RunnersUp   []RunnerUp      `json:"runners_up"`
	Cuts        []Cut           `json:"cuts"`
	Stopped     string          `json:"stopped"` // why the search ended
	// OverHeuristic is the best arm's gain over the answer from facts alone; 1 where it is that answer, 0 unknown.
	OverHeuristic float64  `json:"over_heuristic"`
	Warnings      []string `json:"warnings"`
}

// RunnerUp is an arm of the final duel with its measured ratio to the default.
type RunnerUp struct {
	Arm   target.Arm `json:"arm"`
	Ratio Ratio      `json:"ratio"`
}

// Cut is a part of the raw space that was left out before measuring, with the reason.
type Cut struct {
	Reason string `json:"reason"`
	Points int    `json:"points"`
}

const rateNote = "rates are of the model's ternary matmuls alone, all layers in order; attention, norms and the output head are not in them"

// summarise fills the overall figures of a certificate from its regimes.
func (c *Certificate) summarise(elapsed time.Duration) {
	for _, r := range c.Regimes {
		c.Evaluations += r.Evaluations
		c.Failed += r.Failed
		c.Censored += r.Censored
		c.SpaceSize += r.SpaceSize
		c.Known += r.Known
		c.Default.rate(r.Regime, r.DefaultNs)
		switch r.Verdict {
		case measure.Adopt:
			c.Best.rate(r.Regime, r.BestNs)
		case measure.Keep:
			c.Best.rate(r.Regime, r.DefaultNs)
		}
	}
	c.Verdict = overall(c.Objective, c.Regimes)
	c.Ratio = requestRatio(c.Objective, c.inForce())
	c.Elapsed = elapsed.Seconds()
}

// inForce are the verdicts of this run's regimes, with an earlier one in place of each that this run did not decide.
func (c *Certificate) inForce() []RegimeVerdict {
	list := slices.Clone(c.Regimes)
	for i, v := range list {
		if earlier, ok := c.proof(v.Regime); ok {
			list[i] = earlier
		}
	}
	return list
}

// overall is ADOPT when some regime of the objective is proven better (the others keep the default, so nothing can be
// worse), INCONCLUSIVE when none is and some regime could not be decided, else KEEP_DEFAULT.
func overall(o Objective, regimes []RegimeVerdict) measure.Verdict {
	verdict := measure.Keep
	decided := 0
	for _, r := range regimes {
		if o.tokens(r.Regime) == 0 {
			continue
		}
		decided++
		switch {
		case r.Verdict == measure.Adopt:
			return measure.Adopt
		case r.Verdict == measure.Inconclusive:
			verdict = measure.Inconclusive
		}
	}
	if decided == 0 {
		return measure.Inconclusive
	}
	return verdict
}

// requestRatio is the ratio of the time that one request of the objective takes with the default to the time it takes
// with what was adopted. The regimes were measured apart, so their relative errors are independent and add in
// quadrature, each weighted by its share of the adopted request's time (the delta method on the logarithm). It is zero,
// unknown, where a regime of the request was not measured at all.
func requestRatio(o Objective, regimes []RegimeVerdict) Ratio {
	var before, after, variance float64
	for _, r := range regimes {
		tokens := o.tokens(r.Regime)
		if tokens == 0 {
			continue
		}
		if r.DefaultNs <= 0 {
			return Ratio{}
		}
		cost := tokens * r.DefaultNs
		before += cost
		if r.Verdict != measure.Adopt {
			after += cost
			continue
		}
		after += cost / r.Ratio.Estimate
	}
	if after == 0 {
		return Ratio{}
	}
	for _, r := range regimes {
		tokens := o.tokens(r.Regime)
		if tokens == 0 || r.Verdict != measure.Adopt {
			continue
		}
		share := tokens * r.DefaultNs / r.Ratio.Estimate / after
		half := share * math.Log(r.Ratio.High/r.Ratio.Low) / 2
		variance += half * half
	}
	estimate, spread := before/after, math.Exp(math.Sqrt(variance))
	return Ratio{Estimate: estimate, Low: estimate / spread, High: estimate * spread, Confidence: duelConfidence}
}
