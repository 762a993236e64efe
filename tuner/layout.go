package tuner

import (
	"context"
	"fmt"
	"slices"
	"time"

	gpukernels "github.com/bitnet-autotune/bitnet-autotune/cuda/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// DefaultLayout is the layout of the default, which is what an engine uses that nobody tuned.
const DefaultLayout = kernels.I2S

// A deployment holds its weights once, so one layout serves all regimes. Each regime is searched over all layouts and
// duels the best arm of each with the default; then the layout is chosen by what the duels say of the whole request.

// LayoutVerdict is what one layout would mean for the requests of an objective.
type LayoutVerdict struct {
	Layout kernels.Layout `json:"layout"`
	Bytes  int64          `json:"bytes"` // of all ternary weights
	// RepackSeconds is what one thread takes to bring the weights into the layout, extrapolated from one block; 0 unknown.
	RepackSeconds float64 `json:"repack_seconds"`
	// Ratio is the default's request time over this layout's, by the duels; 0 where not every regime of the request was proven in it.
	Ratio  float64 `json:"ratio"`
	Chosen bool    `json:"chosen"`
	Reason string  `json:"reason"`
}

// in is the problem bound to one layout.
func (p Problem) in(layout kernels.Layout) Problem {
	p.Layout = layout
	return p
}

// layouts are those worth trying.
func (p Problem) layouts() []kernels.Layout { return p.domain().layouts() }

// held are the layouts that a run measures on: those worth trying and the default's.
func (p Problem) held() []kernels.Layout {
	list := p.layouts()
	if !slices.Contains(list, DefaultLayout) {
		list = append(list, DefaultLayout)
	}
	return list
}

// LayoutBytes is what all ternary weights take in a layout; 0 for one that this build does not know.
func (p Problem) LayoutBytes(layout kernels.Layout) int64 {
	format, ok := kernels.FormatOf(layout)
	if !ok {
		return 0
	}
	bytes := format.Bytes
	if p.Target == targetCUDA {
		bytes = func(n, k int) int { return gpukernels.Bytes(layout, n, k) }
	}
	var sum int64
	for _, s := range p.Model.Shapes {
		sum += int64(s.Count) * int64(bytes(s.N, s.K))
	}
	return sum
}

// bind fixes the layout where earlier runs proved a regime that this run will not measure: the weights lie in the layout
// of that proof. Where another one was asked for, that holds, and what it means for the proof is told.
func (r *tune) bind(snapshot *history.Snapshot) {
	for _, regime := range Regimes {
		v, ok := r.problem.proven(snapshot, regime)
		if !ok || r.problem.Objective.share(regime) > 0 {
			continue
		}
		layout := v.winner().Layout
		if asked := r.problem.Layout; asked != "" {
			if asked != layout {
				r.warn(fmt.Sprintf("%s was proven in layout %s and is not measured by this run: if layout %s is adopted, its setting is from facts alone", regime, layout, asked))
			}
			continue
		}
		r.problem.Layout = layout
		if len(r.problem.in("").layouts()) > 1 {
			r.warn(fmt.Sprintf("layout %s stays, because %s was proven in it and this run does not measure that; the objective mixed chooses anew", r.problem.Layout, regime))
		}
		return
	}
}

// repackWindow is the time of serving within which a new layout must have saved what repacking cost: the incumbent only
// falls to a gain that exceeds the cost of switching.
const repackWindow = time.Hour

// choose returns the layout of the answer, with a verdict on each. It is the one by whose proven arms a request is served
// fastest, if every regime of the request was proven in it; the one before stays unless another is faster by minGain,
// pays for its repacking within repackWindow, and does not cost a regime that the request leaves out more than that gain. Where no layout is proven for the whole request, the one before stays,
// even if it was not measured.
func (r *tune) choose(ctx context.Context, searches []*search, before kernels.Layout) (kernels.Layout, []LayoutVerdict) {
	layouts := r.problem.held()
	if !slices.Contains(layouts, before) {
		layouts = append(layouts, before)
	}
	var verdicts []LayoutVerdict
	for _, layout := range layouts {
		v := LayoutVerdict{Layout: layout, Bytes: r.problem.LayoutBytes(layout), RepackSeconds: r.repack(ctx, layout)}
		v.Ratio, v.Reason = r.worth(searches, layout)
		verdicts = append(verdicts, v)
	}
	chosen := slices.Index(layouts, before)
	for i := range verdicts {
		v, incumbent := &verdicts[i], &verdicts[chosen]
		if i == chosen || v.Ratio == 0 {
			continue
		}
		if reason := r.objection(searches, *v, *incumbent); reason != "" {
			v.Reason = reason
			continue
		}
		if incumbent.Ratio > 0 {
			incumbent.Reason = "slower than " + string(v.Layout)
		}
		chosen = i
	}
	verdicts[chosen].Chosen, verdicts[chosen].Reason = true, "stays, as none was proven for the whole request"
	if verdicts[chosen].Ratio > 0 {
		verdicts[chosen].Reason = "the best of those proven for the whole request"
	}
	if only := r.problem.layouts(); len(only) == 1 && only[0] == layouts[chosen] {
		verdicts[chosen].Reason = "the only one that this run tried"
	}
	return verdicts[chosen].Layout, verdicts
}

// objection is why a layout that was proven for the whole request does not take the incumbent's place; "" if it does.
func (r *tune) objection(searches []*search, v, incumbent LayoutVerdict) string {
	if incumbent.Ratio == 0 {
		return ""
	}
	gain := v.Ratio / incumbent.Ratio
	if gain < 1+minGain {
		return "no faster than " + string(incumbent.Layout)
	}
	if v.RepackSeconds-incumbent.RepackSeconds > (1-1/gain)*repackWindow.Seconds() {
		return fmt.Sprintf("repacking would take longer than it saves in %v", repackWindow)
	}
	for _, s := range searches { // what the request leaves out is still felt by whoever serves it
		if r.problem.Objective.tokens(s.regime) == 0 && s.loses(v.Layout, incumbent.Layout, gain) {
			return fmt.Sprintf("gains less in the request than it loses in %s", s.regime)
		}
	}
	return ""
}

// loses reports whether the regime loses more than a gain by going from one layout, in which it was proven, to another.
func (s *search) loses(to, from kernels.Layout, gain float64) bool {
	before, proven := s.best(from)
	after, known := s.best(to)
	return proven && before.verdict == measure.Adopt && (!known || after.comparison.Ratio*gain < before.comparison.Ratio)
}

// worth is the default's request time over that of a layout, by the winners of its duels; 0 with the reason where not
// every regime of the request was proven in it. What an earlier run proved stays proven where this one could not decide
// on it. In the default's own layout a regime may also keep the default.
func (r *tune) worth(searches []*search, layout kernels.Layout) (ratio float64, reason string) {
	var before, after float64
	for _, s := range searches {
		tokens, gain, ns := r.problem.Objective.tokens(s.regime), 1.0, s.verdict.DefaultNs
		if tokens == 0 {
			continue
		}
		c, ok := s.best(layout)
		if ok {
			ns = c.comparison.Base.Median // as settle takes it, so that the certificate's ratio is the one of its layout
		}
		switch {
		case ok && (c.verdict == measure.Adopt || c.verdict == measure.Inconclusive && s.learned != nil && c.arm == *s.learned):
			gain = c.comparison.Ratio
		case layout == s.standardArm.Layout && s.keeps(layout):
		case !slices.Contains(r.problem.layouts(), layout):
			return 0, "not tried by this run"
		case !ok:
			return 0, fmt.Sprintf("not compared with the default in %s: too slow in the search, or no time left", s.regime)
		default:
			return 0, fmt.Sprintf("not proven better than the default in %s", s.regime)
		}
		cost := tokens * ns
		before, after = before+cost, after+cost/gain
	}
	if after == 0 {
		return 0, "nothing was measured"
	}
	return before / after, ""
}

// layoutReason is why the chosen layout was, where there was a choice.
func (c Certificate) layoutReason() string {
	for _, l := range c.Layouts {
		if l.Chosen && len(c.Layouts) > 1 {
			return l.Reason
		}
	}
	return ""
}

// packer is a target that can tell what a layout costs to make.
type packer interface {
	Repack(ctx context.Context, layout kernels.Layout) (time.Duration, error)
}

func (r *tune) repack(ctx context.Context, layout kernels.Layout) float64 {
	p, ok := r.target.(packer)
	if !ok {
		return 0
	}
	_, _ = measure.Rest(ctx) // an interrupted run settles, too, but does not rest: nothing would end that
	cost, err := p.Repack(context.WithoutCancel(ctx), layout)
	if err != nil {
		return 0
	}
	return cost.Seconds()
}

// byLayout keeps the arms of one layout.
func byLayout(duels []contender, layout kernels.Layout) []contender {
	var list []contender
	for _, d := range duels {
		if d.arm.Layout == layout {
			list = append(list, d)
		}
	}
	return list
}

var _ packer = (*target.Shelf)(nil)
