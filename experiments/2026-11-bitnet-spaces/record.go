package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

const (
	// weightBytes is for the weights of each layout: more than four times the last-level cache of the host at hand, so
	// that they come from memory as in a real pass.
	weightBytes = 200 << 20
	// leastSample is the least time of a sample, that of a live search.
	leastSample = 10 * time.Millisecond
)

// cuts say after how many samples a point gets no more if its better quarter is so much slower than the worse quarter of
// another: more samples of it would be for nothing, where those of the best ones tell which of them it is. Quarters, because
// one sample in ten is far off, to either side.
var cuts = []struct {
	samples int
	slower  float64
}{{2, 2.5}, {4, 1.5}, {8, 1.1}, {12, 1.03}}

// record sweeps the spaces of a model, one for each regime, in rounds, and appends what it measures to a journal for each.
// What a journal holds is not measured again.
func record(ctx context.Context, dir string, host probe.Host, name string, regimes []target.Regime, rounds int) error {
	m, ok := model.Preset(name)
	if !ok {
		return fmt.Errorf("model %q: no such preset", name)
	}
	p := problemOf(host, m)
	var layouts []kernels.Layout
	space, err := p.Space(target.Decode)
	if err != nil {
		return err
	}
	for _, start := range p.Starts(space, target.Decode) {
		if l := p.ArmAt(space, start).Layout; !slices.Contains(layouts, l) {
			layouts = append(layouts, l)
		}
	}
	shelf := target.NewShelf(host, m, layouts, target.CPUOptions{Seed: 1, MaxBytes: weightBytes * uint64(len(layouts))})
	for _, regime := range regimes {
		if err = recordRegime(ctx, filepath.Join(dir, name+"-"+string(regime)+".jsonl"), p, regime, shelf, layouts, rounds); err != nil {
			err = fmt.Errorf("record %s %s: %w", name, regime, err)
			break
		}
	}
	return errors.Join(err, shelf.Close())
}

func recordRegime(ctx context.Context, journal string, p tuner.Problem, regime target.Regime, shelf *target.Shelf, layouts []kernels.Layout, rounds int) error {
	s, err := newSweep(journal, p, regime, shelf)
	if err != nil {
		return err
	}
	if !s.done(rounds) {
		log.Printf("prepare %s: %d points", s.head.Name, s.space.Size())
		if s.head.Notes, err = hold(ctx, shelf, layouts); err == nil {
			err = s.run(ctx, rounds)
		}
	}
	return errors.Join(err, s.journal.Close())
}

// hold makes the weights in each layout and says where they lie.
func hold(ctx context.Context, shelf *target.Shelf, layouts []kernels.Layout) (notes []string, err error) {
	for _, layout := range layouts {
		held, err := shelf.Hold(ctx, layout)
		if err != nil {
			return nil, err
		}
		note := fmt.Sprintf("%s: %s", layout, held.Residency())
		if held.Note() != "" {
			note += "; " + held.Note()
		}
		notes = append(notes, note)
	}
	return notes, nil
}

func problemOf(host probe.Host, m model.Model) tuner.Problem {
	return tuner.Problem{Host: host, Model: m, Target: "cpu", Objective: tuner.ObjectiveMixed}
}

// sweep is the recording of one space.
type sweep struct {
	problem   tuner.Problem
	regime    target.Regime
	space     *bandit.Space
	target    target.Target
	head      replay.Head
	yardstick int
	arms      []sampled // by number of the point
	journal   *os.File
}

// sampled is a point with what was measured of it.
type sampled struct {
	subject   measure.Subject
	failed    bool
	ratios    []float64
	iteration time.Duration // how long one took the last time
	sampled   bool          // by this process
}

// newSweep opens a journal, which need not exist.
func newSweep(journal string, p tuner.Problem, regime target.Regime, t target.Target) (*sweep, error) {
	space, err := p.Space(regime)
	if err != nil {
		return nil, err
	}
	s := &sweep{problem: p, regime: regime, space: space, target: t, head: headOf(p, regime, space), arms: make([]sampled, space.Size())}
	s.yardstick, _ = space.Index(p.Starts(space, regime)[0])
	s.journal, err = os.OpenFile(journal, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	tables, err := replay.ReadSamples(s.journal)
	if err == nil && len(tables) > 0 {
		err = s.resume(tables[0])
	}
	return s, err
}

// resume takes over the samples of an earlier run.
func (s *sweep) resume(t *replay.Samples) error {
	for i, row := range t.Rows {
		point, ok := s.space.Lookup(row.Point)
		if !ok {
			return fmt.Errorf("the journal has %v, which is no point of this host's space: move the journal away", t.Space.At(i))
		}
		at, _ := s.space.Index(point)
		s.arms[at].ratios, s.arms[at].failed = row.Ratios, row.Status != bandit.OK
	}
	return nil
}

func (s *sweep) run(ctx context.Context, rounds int) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for round := range rounds {
		log.Printf("measure %s: round %d", s.head.Name, round)
		if err := s.round(ctx, round, dice); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweep) done(rounds int) bool {
	return !slices.ContainsFunc(s.arms, func(a sampled) bool { return !a.failed && len(a.ratios) < rounds && !s.hopeless(a) })
}

// prepare makes every point ready and proves it.
func (s *sweep) prepare(ctx context.Context) error {
	first := !slices.ContainsFunc(s.arms, func(a sampled) bool { return len(a.ratios) > 0 })
	var rows []replay.Row
	for i := range s.arms {
		start := time.Now()
		subject, err := s.target.Prepare(ctx, s.regime, s.problem.ArmAt(s.space, s.space.At(i)))
		row := replay.Row{Point: s.setting(s.space.At(i)), Status: tuner.StatusOf(err)}
		if took := time.Since(start); took < stopped {
			row.SetupMs = rounded(took.Seconds() * 1e3)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a := &s.arms[i]
		a.subject, a.failed = subject, err != nil
		a.iteration = leastSample
		if err == nil && s.regime != target.Prefill { // a layer of a prompt takes about as long as a sample should
			a.iteration, err = subject.Run(ctx, 1)
		}
		if err != nil {
			log.Printf("%v: %v", row.Point, err)
			a.failed, row.Status = true, tuner.StatusOf(err)
		}
		rows = append(rows, row)
	}
	if !first {
		return nil
	}
	host, err := json.Marshal(s.problem.Host)
	if err != nil {
		return err
	}
	if err := s.write(replay.Line{Host: host}, replay.Line{Head: &s.head}); err != nil {
		return err
	}
	for _, row := range rows {
		if err := s.write(replay.Line{Row: &row}); err != nil {
			return err
		}
	}
	return nil
}

// headOf describes the space.
func headOf(p tuner.Problem, regime target.Regime, space *bandit.Space) replay.Head {
	starts := p.Starts(space, regime)
	h := replay.Head{Name: p.Model.Name + "/" + string(regime), Yardstick: settingOf(space, starts[0]), Default: settingOf(space, starts[1])}
	for _, knob := range space.Knobs() {
		h.Knobs = append(h.Knobs, replay.Knob{Name: knob.Name, Ordinal: knob.Kind == bandit.Ordinal, Values: knob.Values})
	}
	for _, start := range starts {
		h.Starts = append(h.Starts, settingOf(space, start))
	}
	return h
}

func (s *sweep) setting(p bandit.Point) replay.Setting { return settingOf(s.space, p) }

func settingOf(space *bandit.Space, p bandit.Point) replay.Setting {
	setting := replay.Setting{}
	for k, knob := range space.Knobs() {
		setting[knob.Name] = knob.Values[p[k]]
	}
	return setting
}

// round samples every point once, in a random order, each between two samples of the yardstick.
func (s *sweep) round(ctx context.Context, round int, dice *rand.Rand) error {
	before, _, err := s.sample(ctx, s.yardstick)
	if err != nil {
		return err
	}
	for _, i := range dice.Perm(len(s.arms)) {
		a := &s.arms[i]
		if a.failed || len(a.ratios) > round || s.hopeless(*a) {
			continue
		}
		cost, took, err := s.sample(ctx, i)
		if err != nil {
			return err
		}
		after, _, err := s.sample(ctx, s.yardstick)
		if err != nil {
			return err
		}
		ratio := cost / math.Sqrt(before*after)
		before = after
		a.ratios = append(a.ratios, ratio)
		row := replay.Row{
			Point: s.setting(s.space.At(i)), Ratios: []float64{rounded(ratio)}, NsPerToken: []float64{rounded(cost)},
			ElapsedMs: []float64{rounded(took.Seconds() * 1e3)},
		}
		if err := s.write(replay.Line{Row: &row}); err != nil {
			return err
		}
	}
	return nil
}

// hopeless reports whether a point is so slow that more samples of it would be for nothing.
func (s *sweep) hopeless(a sampled) bool {
	for _, cut := range cuts {
		if len(a.ratios) >= cut.samples && quartile(a.ratios, false) > cut.slower*s.best(cut.samples) {
			return true
		}
	}
	return false
}

// best is the least that a point with that many samples surely costs.
func (s *sweep) best(samples int) float64 {
	best := math.Inf(1)
	for _, a := range s.arms {
		if len(a.ratios) >= samples {
			best = min(best, quartile(a.ratios, true))
		}
	}
	return best
}

// quartile is the lower or the upper one: of two samples the less or the greater.
func quartile(values []float64, upper bool) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); upper {
		return sorted[n-1-n/4]
	}
	return sorted[len(sorted)/4]
}

// stopped is how long preparing a point cannot take: the process was stopped meanwhile, and how long it took is unknown.
const stopped = 5 * time.Second

// stalled is by how much a sample may be longer than the one before of its point; more means that the process was stopped
// meanwhile, and the sample is taken again.
const stalled = 4

// sample returns the cost of one sample in ns per token, and how long it took.
func (s *sweep) sample(ctx context.Context, i int) (cost float64, took time.Duration, err error) {
	a := &s.arms[i]
	for {
		n := max(1, int(math.Ceil(float64(leastSample)/float64(a.iteration))))
		took, err = a.subject.Run(ctx, n)
		if err != nil {
			return 0, 0, err
		}
		before, known := a.iteration, a.sampled
		a.iteration, a.sampled = max(1, took/time.Duration(n)), true
		if !known || a.iteration < stalled*before {
			return float64(took) / (float64(n) * a.subject.Units), took, nil
		}
	}
}

func (s *sweep) write(lines ...replay.Line) error {
	out := json.NewEncoder(s.journal)
	for _, line := range lines {
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// rounded keeps five digits.
func rounded(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 5, 64), 64)
	return y
}
