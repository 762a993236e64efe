package engine

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// How a duel decides.
const (
	leastPairs     = 7 // below it there is no interval at half of the permitted error, which is what the first look has
	duelConfidence = 0.95
)

// Certificate is the verdict of a search with the evidence.
type Certificate struct {
	Verdict    measure.Verdict   `json:"verdict"`
	Default    map[string]Figure `json:"default"` // by regime
	Best       map[string]Figure `json:"best"`    // what to use: the plan if adopted, else the default
	Closest    Plan              `json:"closest"` // what duelled with the default
	Ratio      Ratio             `json:"ratio"`   // of one request
	Regimes    map[string]Ratio  `json:"regimes"` // of each regime
	Pairs      int               `json:"pairs"`
	NoiseFloor float64           `json:"noise_floor"`   // gain that the default shows over itself from one process to the next; 0 unknown
	Searches   int               `json:"search_starts"` // processes before the duel
	Starts     int               `json:"starts"`        // processes in all
	Known      int               `json:"known"`         // processes of earlier sessions that were taken over
	Failed     int               `json:"failed"`
	Censored   int               `json:"censored"`
	Stopped    string            `json:"stopped"` // why the search ended
	Elapsed    float64           `json:"elapsed_seconds"`
	Budget     float64           `json:"budget_seconds"`
	Facts      map[string]string `json:"facts"` // what the engine says of itself, its model and its own settings
	Own        map[string]string `json:"own"`   // the engine's own value of each knob, where it tells
	Bare       []string          `json:"bare"`  // see Learned.Bare
	Knobs      []Knob            `json:"knobs"`
	Left       []string          `json:"left_out"` // flags that were not tried, with the reason
	Curves     []Curve           `json:"curves"`
	Runs       []Measured        `json:"runs"`
	Note       string            `json:"note"`
	Doubts     []string          `json:"doubts"` // why its figures may mislead
}

// Figure is a setting with its rate.
type Figure struct {
	Setting Setting `json:"setting"`
	Rate    float64 `json:"per_second"` // units per second, median of the duel or else of the search; 0 unknown
}

// Ratio is default cost over candidate cost with its interval; Low and High are 0 where there were too few pairs.
type Ratio struct {
	Estimate   float64 `json:"estimate"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
}

// Curve is what a knob of stage Threads does in a regime, all else being the engine's own.
type Curve struct {
	Knob   string  `json:"knob"`
	Regime string  `json:"regime"`
	Points []Point `json:"points"`
}

// Point is a value with its rate over the default's, and the 95 % interval of that; Low and High are 0 where there is none.
type Point struct {
	Value string  `json:"value"`
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Runs  int     `json:"runs"`
}

// duelled are the pairs of a duel.
type duelled struct {
	request   []float64            // log of default over candidate
	regimes   map[string][]float64 // the same of each regime
	level     float64              // of the interval
	base      map[string][]float64 // ns per unit
	candidate map[string][]float64
}

// duel compares the plan with the default in fresh processes, in pairs of random order. It looks twice: after the least
// pairs that allow an interval, and at the end, each time with half of the permitted error (Bonferroni).
func (s *session) duel(ctx context.Context) *duelled {
	d := &duelled{regimes: map[string][]float64{}, level: 1 - (1-duelConfidence)/2, base: map[string][]float64{}, candidate: map[string][]float64{}}
	standard := Plan{}
	for _, r := range s.regimes() {
		standard[r] = nil
	}
	if s.best.Equal(standard) {
		return d
	}
	s.phase = "duel"
	coin := s.coin()
	for pair := 0; pair < s.maxPairs() && ctx.Err() == nil; pair++ {
		if pair >= leastPairs && s.decided(d) {
			break
		}
		if s.end.Sub(s.now()) < s.pair() {
			break
		}
		first, second := standard, s.best
		if coin.Uint64()>>63 == 0 {
			first, second = second, first
		}
		costs := map[bool]map[string]float64{}
		for _, p := range []Plan{first, second} {
			c, ok := s.fresh(ctx, p)
			if !ok {
				break
			}
			costs[p.Equal(standard)] = c
		}
		if len(costs) == 2 {
			s.add(d, costs[true], costs[false])
		} else if s.failedInDuel() {
			break
		}
	}
	return d
}

// failedInDuel reports whether the last process failed, rather than being disturbed.
func (s *session) failedInDuel() bool {
	last := s.runs[len(s.runs)-1].Status
	return last != OK && last != Censored
}

// broken reports whether a setting of the plan failed, be it in the duel after it had run well in the search.
func (s *session) broken() bool {
	for setting, regimes := range s.best.processes(s.regimes()) {
		if s.refused(setting, regimes) {
			return true
		}
	}
	return false
}

// decided asks once, after leastPairs: a look at every pair would have to be paid for.
func (s *session) decided(d *duelled) bool {
	return len(d.request) == leastPairs && s.verdict(d) == measure.Adopt
}

// fresh runs a plan's processes once.
func (s *session) fresh(ctx context.Context, p Plan) (map[string]float64, bool) {
	costs := map[string]float64{}
	for setting, regimes := range p.processes(s.regimes()) {
		m := s.start(ctx, setting, regimes)
		if m.Status != OK {
			return nil, false
		}
		for _, r := range regimes {
			costs[r] = m.cost(r)
		}
	}
	return costs, true
}

func (s *session) add(d *duelled, base, candidate map[string]float64) {
	var before, after float64
	for _, r := range s.what.Regimes {
		before += r.Units * base[r.Name]
		after += r.Units * candidate[r.Name]
		d.regimes[r.Name] = append(d.regimes[r.Name], math.Log(base[r.Name]/candidate[r.Name]))
		d.base[r.Name] = append(d.base[r.Name], base[r.Name])
		d.candidate[r.Name] = append(d.candidate[r.Name], candidate[r.Name])
	}
	d.request = append(d.request, math.Log(before/after))
}

func (s *session) verdict(d *duelled) measure.Verdict {
	return measure.Decide(comparison(d.request, d.level), s.minGain(), s.noiseFloor())
}

// comparison is what log ratios come to.
func comparison(logs []float64, level float64) measure.Comparison {
	centre, low, high := measure.Estimate(logs, level)
	return measure.Comparison{Ratio: math.Exp(centre), Low: math.Exp(low), High: min(math.Exp(high), math.MaxFloat64), Blocks: len(logs)}
}

func (d *duelled) ratio(logs []float64) Ratio {
	if len(logs) == 0 {
		return Ratio{}
	}
	c := comparison(logs, d.level)
	r := Ratio{Estimate: c.Ratio, Low: c.Low, High: c.High, Confidence: duelConfidence}
	if c.High == math.MaxFloat64 {
		r.Low, r.High = 0, 0
	}
	return r
}

// noiseFloor is the gain that the default shows over itself: the interval over the differences of its successive runs, two
// by two, in the search.
func (s *session) noiseFloor() float64 {
	var logs []float64
	var before Measured
	for _, m := range s.planned {
		if !m.isDefault() {
			continue
		}
		if before.costs != nil && before.Session == m.Session {
			logs = append(logs, math.Log(s.request(before)/s.request(m)))
		}
		before = m
	}
	_, low, high := measure.Estimate(logs, duelConfidence)
	if math.IsInf(high, 1) {
		return 0
	}
	return math.Expm1(max(-low, high) / 2) // successive differences share a run: their spread is that of two
}

// request is what a request takes with a process that measured all regimes.
func (s *session) request(m Measured) (ns float64) {
	for _, r := range s.what.Regimes {
		ns += r.Units * m.cost(r.Name)
	}
	return ns
}

func (s *session) certificate(d *duelled) *Certificate {
	c := &Certificate{
		Verdict: measure.Inconclusive, Default: map[string]Figure{}, Best: map[string]Figure{}, Closest: s.best, Regimes: map[string]Ratio{},
		NoiseFloor: s.noiseFloor(), Starts: len(s.runs), Known: s.known, Stopped: orDefault(s.stopped, "nothing left to try"),
		Elapsed: s.now().Sub(s.begun).Seconds(), Budget: s.opt.Budget.Seconds(), Facts: orMake(&s.what.Facts), Own: s.standby, Knobs: s.what.Knobs, Left: s.what.Left,
		Curves: s.curves(), Runs: s.related(), Note: s.what.Note, Doubts: []string{},
	}
	for _, m := range s.runs {
		if m.Phase != "duel" {
			c.Searches++
		}
		switch m.Status {
		case OK, Stopped:
		case Censored:
			c.Censored++
		default:
			c.Failed++
		}
	}
	if s.what.Bare != nil {
		c.Bare = s.what.Bare(c.Facts)
	}
	if d == nil {
		return c
	}
	c.Pairs = len(d.request)
	if doubt := s.clockDoubt(); doubt != "" {
		c.Doubts = append(c.Doubts, doubt)
	}
	switch {
	case c.Pairs > 0:
		c.Verdict, c.Ratio = s.verdict(d), d.ratio(d.request)
		if c.Verdict == measure.Adopt && s.broken() {
			c.Verdict = measure.Inconclusive // fast, when it runs
		}
	case s.best.isDefault() && (s.through || s.threaded && s.enough):
		c.Verdict = measure.Keep // nothing gained in as many processes as may run
	}
	for _, r := range s.regimes() {
		c.Regimes[r] = d.ratio(d.regimes[r])
		c.Default[r] = Figure{Rate: perSecond(orElse(d.base[r], s.costs(r, nil)))}
		c.Best[r] = c.Default[r]
		if c.Verdict == measure.Adopt {
			c.Best[r] = Figure{Setting: s.best[r], Rate: perSecond(d.candidate[r])}
		}
	}
	return c
}

// related are all processes of this session, those of the search with what they cost beside the default.
func (s *session) related() []Measured {
	planned := s.known
	for i := range s.runs {
		m := &s.runs[i]
		if m.Phase != "duel" && !m.Cold {
			m.Relative = s.relative(planned)
			planned++
		}
	}
	return s.runs
}

// clockDoubt says if the clock does not confirm what the plan's figures say: its processes have to end sooner, too, by half of
// what is claimed at the least, each time of loading beyond the default's left aside.
func (s *session) clockDoubt() string {
	said, took := map[bool][]float64{}, map[bool][]float64{} // ns of a process, by whether it is the default's
	for _, m := range s.runs {
		if m.Phase != "duel" || m.Status != OK {
			continue
		}
		if m.Loading == 0 { // it is not known what a process measures
			return ""
		}
		said[m.isDefault()] = append(said[m.isDefault()], float64(m.Elapsed-m.Loading))
		took[m.isDefault()] = append(took[m.isDefault()], float64(m.Elapsed))
	}
	if len(said[true]) < leastPairs || len(said[false]) < leastPairs {
		return ""
	}
	processes := float64(len(said[false])) / float64(len(said[true]))
	load := median(took[true]) - median(said[true])
	claimed := median(said[true]) - processes*mean(said[false])
	saved := median(took[true]) - processes*(mean(took[false])-load) - load
	if claimed < median(took[true])/10 || saved > claimed/2 {
		return ""
	}
	return fmt.Sprintf("by the engine's figures the plan saves %.3g s of a process's %.3g s, by the clock %.3g s: it takes longer to load, or its figures are not to be trusted",
		claimed/1e9, median(took[true])/1e9, max(0, saved)/1e9)
}

func mean(list []float64) (sum float64) {
	for _, v := range list {
		sum += v / float64(len(list))
	}
	return sum
}

func (p Plan) isDefault() bool {
	return !slices.ContainsFunc(slices.Collect(maps.Values(p)), func(s Setting) bool { return len(s) > 0 })
}

// costs are those of a setting in the search.
func (s *session) costs(regime string, setting Setting) (list []float64) {
	for _, m := range s.planned {
		if m.Status == OK && maps.Equal(m.Setting, setting) && m.cost(regime) > 0 {
			list = append(list, m.cost(regime))
		}
	}
	return list
}

func orElse(a, b []float64) []float64 {
	if len(a) > 0 {
		return a
	}
	return b
}

func perSecond(ns []float64) float64 {
	if m := median(ns); m > 0 {
		return float64(time.Second) / m
	}
	return 0
}

// curves are what the knobs of stage Threads do.
func (s *session) curves() []Curve {
	list := []Curve{}
	for _, k := range s.stage(Threads) {
		for _, r := range s.regimes() {
			c := Curve{Knob: k.Name, Regime: r}
			for i, v := range k.Values {
				setting := s.alone(k, i)
				if log, ok := s.ratio(r, setting); ok {
					c.Points = append(c.Points, s.point(r, v, setting, log))
				}
			}
			if own := s.standby[k.Name]; own != "" && !slices.Contains(k.Values, own) {
				c.Points = append(c.Points, s.point(r, own, nil, 0))
			}
			list = append(list, c)
		}
	}
	return list
}

// point is a value of a curve.
func (s *session) point(regime, value string, setting Setting, log float64) Point {
	p := Point{Value: value, Ratio: math.Exp(-log), Runs: s.times(regime, setting)}
	if doubt := s.doubtOf(regime, p.Runs); len(setting) > 0 && doubt > 0 {
		p.Low, p.High = math.Exp(-log-doubt), math.Exp(-log+doubt)
	}
	return p
}

// doubtOf is how far the logarithm of a ratio over so many processes may be from the truth, at 95 %: by how much the default's
// processes differ from one to the next (von Neumann, 1941), which drift hardly widens. 0 is unknown.
func (s *session) doubtOf(regime string, runs int) float64 {
	var squares, n float64
	var before Measured
	for _, m := range s.planned {
		if !m.isDefault() || m.cost(regime) == 0 {
			continue
		}
		if before.costs != nil && before.Session == m.Session {
			squares += math.Pow(math.Log(m.cost(regime)/before.cost(regime)), 2)
			n++
		}
		before = m
	}
	if n < 2 {
		return 0
	}
	deviation := math.Sqrt(squares / n / 2)
	return distuv.StudentsT{Sigma: 1, Nu: n}.Quantile(1-(1-duelConfidence)/2) * deviation * math.Sqrt(1/float64(runs)+1/float64(controls))
}
