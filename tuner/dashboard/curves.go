package dashboard

import (
	"context"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// curves is how the runs of a model found what they found.
type curves struct {
	Runs   []curve `json:"runs"` // the newest first
	Damage string  `json:"damage,omitempty"`
}

// curve is one run.
type curve struct {
	Run       string        `json:"run"`
	Target    string        `json:"target"`
	Objective string        `json:"objective"`
	Strategy  string        `json:"strategy"`
	Started   time.Time     `json:"started"`
	Finished  time.Time     `json:"finished,omitzero"` // absent: it runs, or was cut short
	Running   bool          `json:"running"`
	Verdict   string        `json:"verdict"`
	Regimes   []regimeCurve `json:"regimes"`
}

// regimeCurve is what a run measured in one regime, in order.
type regimeCurve struct {
	Regime    target.Regime `json:"regime"`
	Reference string        `json:"reference"`
	Points    []point       `json:"points"`
	Left      int           `json:"left_out"` // points, so that there are not too many
}

// point is one measurement of an arm.
type point struct {
	Evaluation int     `json:"evaluation"` // arms measured so far, this one included
	Seconds    float64 `json:"seconds"`    // since the run began
	Ratio      float64 `json:"ratio"`      // times as fast as the reference; 0 = it failed
	Best       float64 `json:"best"`       // so far; 0 = none yet
	Status     string  `json:"status"`
	Label      string  `json:"label"`
}

// mostPoints bounds a regime's curve. What is left out are points that were not the best so far.
const mostPoints = 300

// compareStrategy is that of runs that compare two settings and search for nothing.
const compareStrategy = "compare"

func (s *Server) convergence(ctx context.Context, name string) (any, error) {
	a, err := s.archive(ctx, name)
	if err != nil {
		return nil, err
	}
	shown := curves{Runs: []curve{}, Damage: a.damage}
	state := s.opt.Daemon.State()
	for i, r := range a.runs {
		if r.Strategy == compareStrategy {
			continue
		}
		c := curve{
			Run: runName(r.ID), Target: r.Target, Objective: r.Objective, Strategy: r.Strategy, Started: r.Started, Finished: r.Finished, Verdict: r.Verdict, Regimes: []regimeCurve{},
			Running: r.Finished.IsZero() && i == 0 && state.Phase == daemon.Measuring && state.Model == name,
		}
		for _, g := range a.groups() {
			if drawn := a.curve(r, g); len(drawn.Points) > 0 {
				c.Regimes = append(c.Regimes, drawn)
			}
		}
		shown.Runs = append(shown.Runs, c)
	}
	return shown, nil
}

// curve is what a run measured of a group, related to what it measured against.
func (a *archive) curve(r *run, g group) regimeCurve {
	c := regimeCurve{Regime: g.regime, Points: []point{}}
	var trials []trial
	for _, t := range r.trials {
		if t.arm.group == g {
			trials = append(trials, t)
		}
	}
	if len(trials) == 0 {
		return c
	}
	signature := trials[0].arm.signature
	var cost float64
	cost, c.Reference = reference(g, a.comparable(g, signature), append([]*run{r}, a.runs...))
	known, best := map[*seen]bool{}, 0.0
	for i, t := range trials {
		known[t.arm] = true
		p := point{Evaluation: len(known), Seconds: max(0, t.at.Sub(r.Started).Seconds()), Status: t.status, Label: t.arm.arm.String()}
		if t.cost > 0 {
			p.Ratio = cost / t.cost
		}
		better := p.Ratio > best
		best = max(best, p.Ratio)
		p.Best = best
		if len(c.Points) >= mostPoints && !better && i < len(trials)-1 {
			c.Left++
			continue
		}
		c.Points = append(c.Points, p)
	}
	return c
}
