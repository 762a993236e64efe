package online

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Arm is one of the settings among which to choose, with what is known of it before it serves.
type Arm struct {
	// Gain is its rate over that of arm 0, and Low to High the interval that holds it, as a certificate says. If Gain is 0
	// the arm is taken for equal, and if Low is 0 for up to half of Options.Loss worse or better.
	Gain, Low, High float64
}

// Options say among what and how boldly to choose. Only Arms is needed.
type Options struct {
	// Arms are the settings; arm 0 is the incumbent to begin with.
	Arms []Arm
	// Share is the part of a context's requests that may go to another arm than the incumbent, at any time since the
	// start. If 0, 0.05.
	Share float64
	// Loss is how much slower than the incumbent an arm may be, by the pessimistic end of what is known of it, and still
	// be tried. If 0, 0.10.
	Loss float64
	// Memory is after how many requests of a context what was seen counts for a third (1/e). If 0, 2000.
	Memory int
	// Seed draws the samples.
	Seed uint64
	// Pause, if not nil, is asked before an arm other than the incumbent is tried: true means not now.
	Pause func() bool
}

// Context is what the best arm may depend on.
type Context struct {
	Batch int     // tokens in the batch; powers of two are told apart
	Load  float64 // of the host, 0 to 1; quarters are told apart
}

// Choice is an arm with what Report needs to know where it belongs.
type Choice struct {
	Arm     int
	context uint16
	tried   bool
}

// Tried reports whether the arm is another than the incumbent of its context.
func (c Choice) Tried() bool { return c.tried }

// Chooser chooses arms and learns from what they cost. It is safe for concurrent use.
type Chooser struct {
	opt    Options
	prior  []belief
	fade   float64
	states [contexts]atomic.Pointer[state]
}

const (
	batchClasses = 16
	loadClasses  = 4
	contexts     = batchClasses * loadClasses
)

// The constants of the choice.
const (
	bandwidth  = 1.0 / 16  // of the baseline: what slows every arm for longer than some 16 requests is not held against one
	longTime   = 1.0 / 256 // of what is usual for the incumbent: a step away from it is news
	newsworthy = 5.0       // standard deviations of the baseline that make a step
	leftOver   = 1.0       // samples that what was seen of the others counts for after a step
	noiseFloor = 0.01      // standard deviation of a log cost below which nothing is believed to be
	otherDay   = 0.05      // standard deviation, at the least, of what a certificate says of an arm under a service's own load
	priorDoubt = 2.0       // how many times wider than its certificate's an arm's interval is held to be: another day, another load
	clip       = 4.0       // standard deviations beyond which a sample counts no further
	proof      = 3.0       // standard deviations by which an arm must beat the incumbent to take its place
	proofLooks = 12        // and how many samples it must have
	ahead      = 48        // tries that may be saved up for when something changes
	strike     = 2.0       // standard deviations beyond the loss from which on a sample is a strike
	strikes    = 3         // of them in a row suspend an arm: by chance once in 80,000 tries of one at the loss
	breaker    = 24        // tries over which their mean loss is judged by the circuit breaker
)

// New returns a chooser. It panics without arms.
func New(opt Options) *Chooser {
	if len(opt.Arms) == 0 {
		panic("online: no arms")
	}
	if opt.Share <= 0 {
		opt.Share = 0.05
	}
	if opt.Loss <= 0 {
		opt.Loss = 0.10
	}
	if opt.Memory <= 0 {
		opt.Memory = 2000
	}
	c := &Chooser{opt: opt, fade: 1 - 1/float64(opt.Memory)}
	for _, a := range opt.Arms {
		c.prior = append(c.prior, a.belief(opt.Loss))
	}
	return c
}

// belief is what is known of an arm's log cost relative to arm 0's: about mean, give or take deviation.
type belief struct{ mean, deviation float64 }

func (a Arm) belief(loss float64) belief {
	mean, half := 0.0, loss/2
	if a.Gain > 0 {
		mean = -math.Log(a.Gain)
	}
	if a.Low > 0 && a.High >= a.Low {
		half = math.Log(a.High/a.Low) / 2
	}
	return belief{mean, math.Max(priorDoubt*half/2, otherDay)}
}

// index is the place of a context's state.
func (c Context) index() uint16 {
	batch := min(bits.Len(uint(max(c.Batch, 1)))-1, batchClasses-1)
	load := 0
	if c.Load > 0 { // not of NaN
		load = int(math.Min(c.Load*loadClasses, loadClasses-1))
	}
	return uint16(batch*loadClasses + load)
}

// state is what was learned in one context.
type state struct {
	mu        sync.Mutex
	dice      *rand.Rand
	incumbent int
	requests  float64 // since the start
	credit    float64 // tries that the share allows now
	baseline  float64 // log cost of the incumbent, lately
	settled   bool    // baseline holds something
	usual     float64 // log cost of the incumbent over a longer time
	arms      []record
	recent    float64 // mean log loss of the latest tries
	judged    int     // how many of them
	quiet     float64 // no tries before so many requests
	penalty   float64 // how long the next silence is
}

// record is what one arm showed: log costs relative to the baseline, faded.
type record struct {
	weight, mean, square float64       // effective samples, their mean, and the sum of squared distances from it
	at                   float64       // requests when they were last faded
	latest               [kept]float32 // of the log costs, the next one at looks % kept
	looks                int
	strikes              int     // in a row: costs beyond the loss, or while it serves, failures
	suspended            float64 // until so many requests
	sentence             float64 // how long the last suspension was
}

func (c *Chooser) state(i uint16) *state {
	if s := c.states[i].Load(); s != nil {
		return s
	}
	s := &state{dice: rand.New(rand.NewPCG(c.opt.Seed, uint64(i))), arms: make([]record, len(c.opt.Arms)), penalty: float64(c.opt.Memory)}
	if c.states[i].CompareAndSwap(nil, s) {
		return s
	}
	return c.states[i].Load()
}

// Choose returns the arm for the next request of a context: the incumbent, or within the share another that may be better.
func (c *Chooser) Choose(of Context) Choice {
	i := of.index()
	s := c.state(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	s.credit = math.Min(s.credit+c.opt.Share, ahead)
	choice := Choice{Arm: s.incumbent, context: i}
	if !c.mayTry(s) {
		return choice
	}
	if arm := c.draw(s); arm != s.incumbent {
		s.credit--
		choice.Arm, choice.tried = arm, true
	}
	return choice
}

// mayTry reports whether the share, the breaker and the caller allow a try now. A share that is not used is saved up.
func (c *Chooser) mayTry(s *state) bool {
	return s.credit >= 1 && s.settled && s.requests > s.quiet && (c.opt.Pause == nil || !c.opt.Pause())
}

// draw samples each admissible arm's cost from what is believed of it and returns the cheapest (Thompson 1933).
func (c *Chooser) draw(s *state) int {
	best, least := s.incumbent, math.Inf(1)
	reference := c.believe(s, s.incumbent)
	for a := range s.arms {
		b := reference
		if a != s.incumbent {
			if b = c.believe(s, a); !c.admits(s, a, b, reference) {
				continue
			}
		}
		if cost := b.mean + b.deviation*s.dice.NormFloat64(); cost < least {
			best, least = a, cost
		}
	}
	return best
}

// admits reports whether an arm may be tried: not suspended, and its pessimistic end within the loss.
func (c *Chooser) admits(s *state, a int, b, reference belief) bool {
	return s.requests >= s.arms[a].suspended && b.mean+b.deviation-reference.mean <= c.loss()
}

// loss is the bound on the scale of log costs.
func (c *Chooser) loss() float64 { return -math.Log1p(-math.Min(c.opt.Loss, 0.99)) }

// believe is the posterior of an arm: the prior as one sample of its own deviation beside what was seen.
func (c *Chooser) believe(s *state, a int) belief {
	r := &s.arms[a]
	r.fadeTo(s.requests, c.fade)
	prior := c.prior[a]
	prior.mean -= c.prior[s.incumbent].mean
	if a == s.incumbent {
		prior.deviation = noiseFloor
	}
	if r.weight == 0 {
		return prior
	}
	spread := math.Max(r.square/r.weight, noiseFloor*noiseFloor)
	if r.weight < proofLooks { // few samples do not tell the spread; the incumbent's does better
		spread = math.Max(spread, s.spread()*s.spread())
	}
	precision, data := 1/(prior.deviation*prior.deviation), r.weight/spread
	return belief{(prior.mean*precision + r.mean*data) / (precision + data), 1 / math.Sqrt(precision+data)}
}

// fadeTo forgets in proportion to the requests since it was last done.
func (r *record) fadeTo(now, fade float64) {
	if now > r.at && r.weight > 0 {
		f := math.Pow(fade, now-r.at)
		r.weight *= f
		r.square *= f
	}
	r.at = now
}

// Report tells what a choice cost: nanoseconds for a token, or anything else of which half is twice as good. Costs that
// are not positive numbers are Failed.
func (c *Chooser) Report(of Choice, cost float64) {
	if !(cost > 0) || math.IsInf(cost, 1) {
		c.Failed(of)
		return
	}
	s := c.state(of.context)
	s.mu.Lock()
	defer s.mu.Unlock()
	y := math.Log(cost)
	if !s.settled {
		if of.Arm == s.incumbent {
			s.baseline, s.usual, s.settled = y, y, true
		}
		return
	}
	d := y - s.baseline
	c.learn(s, of.Arm, d)
	if of.Arm == s.incumbent {
		s.arms[of.Arm].strikes = 0
		s.follow(d)
		return
	}
	c.guard(s, of, d)
	c.promote(s, of.Arm)
}

// follow moves the baseline with the incumbent. When it steps away from what was usual, what was seen of the other arms
// before says little about now, and neither does what made them stop.
func (s *state) follow(d float64) {
	d = s.clipped(d)
	s.baseline += bandwidth * d
	s.usual += longTime * (s.baseline + d - s.usual)
	if math.Abs(s.baseline-s.usual) <= newsworthy*s.spread()*math.Sqrt(bandwidth/2) {
		return
	}
	s.usual, s.quiet, s.judged, s.recent = s.baseline, 0, 0, 0
	for a := range s.arms {
		if r := &s.arms[a]; a != s.incumbent && r.weight > leftOver {
			r.square *= leftOver / r.weight
			r.weight = leftOver
		}
	}
}

// clipped bounds how far one sample counts: by the spread of the incumbent's.
func (s *state) clipped(d float64) float64 {
	if s.arms[s.incumbent].weight < proofLooks {
		return d
	}
	bound := clip * s.spread()
	return math.Max(-bound, math.Min(bound, d))
}

// spread is the standard deviation of the incumbent's log costs.
func (s *state) spread() float64 {
	in := &s.arms[s.incumbent]
	if in.weight == 0 {
		return noiseFloor
	}
	return math.Max(math.Sqrt(in.square/in.weight), noiseFloor)
}

// learn adds one log cost, relative to the baseline, to what an arm showed.
func (c *Chooser) learn(s *state, arm int, d float64) {
	d = s.clipped(d)
	r := &s.arms[arm]
	r.fadeTo(s.requests, c.fade)
	r.weight++
	r.latest[r.looks%kept] = float32(d)
	r.looks++
	step := d - r.mean
	r.mean += step / r.weight
	r.square += step * (d - r.mean)
}

// guard stops what goes badly at once: an arm that is beyond the loss several times in a row, and all tries in a context
// where they cost more than the loss on average.
func (c *Chooser) guard(s *state, of Choice, d float64) {
	r := &s.arms[of.Arm]
	if d <= c.loss()+strike*s.spread() {
		r.strikes = 0
	} else if r.strikes++; r.strikes >= strikes {
		c.suspend(s, of.Arm)
	}
	if !of.tried {
		return
	}
	s.judged++
	s.recent += (d - s.recent) / math.Min(float64(s.judged), breaker)
	if s.judged >= breaker && s.recent > c.loss() {
		s.quiet, s.judged, s.recent = s.requests+s.penalty, 0, 0
		s.penalty *= 2
	}
}

// promote makes an arm the incumbent once it is proven faster. What all arms showed is then told from the new baseline.
func (c *Chooser) promote(s *state, arm int) {
	r := &s.arms[arm]
	if r.weight < proofLooks {
		return
	}
	challenger, incumbent := c.believe(s, arm), c.believe(s, s.incumbent)
	gap := incumbent.mean - challenger.mean
	if gap <= proof*math.Hypot(challenger.deviation, incumbent.deviation) {
		return
	}
	c.seat(s, arm, challenger.mean)
}

// seat makes an arm the incumbent, whose log cost is that much over the old one's.
func (c *Chooser) seat(s *state, arm int, shift float64) {
	s.incumbent = arm
	s.baseline, s.usual = s.baseline+shift, s.usual+shift
	for a := range s.arms {
		s.arms[a].shift(shift)
	}
	s.penalty, s.arms[arm].sentence, s.arms[arm].strikes = float64(c.opt.Memory), 0, 0
}

// Failed tells that a choice gave no answer: an error, a timeout. An arm on trial is suspended, and so is the incumbent after
// several failures in a row.
func (c *Chooser) Failed(of Choice) {
	s := c.state(of.context)
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.Arm != s.incumbent {
		c.suspend(s, of.Arm)
		return
	}
	if s.arms[of.Arm].strikes++; s.arms[of.Arm].strikes >= strikes {
		c.depose(s)
	}
}

// depose puts another arm in the place of an incumbent that fails: slow is better than failing. It is the one believed best
// of those that are not suspended, else the one whose suspension ends first.
func (c *Chooser) depose(s *state) {
	old, best := s.incumbent, -1
	var least belief
	var free float64 // when best is
	for a := range s.arms {
		if a == old {
			continue
		}
		b, at := c.believe(s, a), math.Max(s.arms[a].suspended, s.requests)
		if best < 0 || at < free || at == free && b.mean < least.mean {
			best, least, free = a, b, at
		}
	}
	if best >= 0 {
		c.seat(s, best, least.mean)
		c.suspend(s, old)
	}
}

// suspend keeps an arm out for as long as the memory lasts, and for twice as long as the last time.
func (c *Chooser) suspend(s *state, arm int) {
	r := &s.arms[arm]
	r.sentence = math.Max(2*r.sentence, float64(c.opt.Memory))
	r.strikes, r.suspended = 0, s.requests+r.sentence
}

// Incumbent returns the arm that serves a context.
func (c *Chooser) Incumbent(of Context) int {
	s := c.states[of.index()].Load()
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.incumbent
}
