package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// rehearsal is a shift on an invented clock, beside others whose use of four CPUs the test sets, with a child that works for
// as long as the test says before it asks.
type rehearsal struct {
	*shift
	now      time.Time
	others   float64 // CPUs
	busy     time.Duration
	runnable int
	stalled  time.Duration // that some task has waited for memory
	cpu      time.Duration // of the child, which uses two CPUs
	idles    float64       // CPUs that it uses while it rests
	burst    time.Duration
	left     time.Duration // of the burst
	told     []order
	works    []worked
}

// worked is a burst of a child.
type worked struct {
	from time.Time
	took time.Duration
}

const childCPUs = 2

func rehearse(t *testing.T, others float64) *rehearsal {
	t.Helper()
	ledger, _, err := idle.OpenLedger("", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rehearsal{now: time.Unix(1_800_000_000, 0), others: others, runnable: 1, burst: 30 * time.Millisecond}
	d := &Daemon{ledger: ledger, due: map[string]bool{}}
	d.opt = Options{Rules: idle.DefaultRules, Look: time.Second, Log: zerolog.Nop(), Read: r.read, Watch: r.read, Now: func() time.Time { return r.now }}
	d.gate, d.pace = idle.Gate{Rules: d.opt.Rules}, idle.Pace{Share: d.opt.Rules.BurstShare}
	for range 12 {
		r.pass(time.Second)
		d.lookAround(0)
	}
	r.shift = &shift{d: d, most: limits{time: time.Hour, cpu: 10 * time.Hour, memory: 1 << 30}, tell: r.hear}
	r.left = r.burst
	r.begin(r.now)
	return r
}

func (r *rehearsal) read() idle.Reading {
	return idle.Reading{At: r.now, CPUs: 4, Busy: (r.busy + r.cpu).Truncate(10 * time.Millisecond), Runnable: r.runnable, MemStall: r.stalled, PSI: true}
}

func (r *rehearsal) hear(o order) {
	r.told = append(r.told, o)
	r.left = r.burst
	if o == workNow {
		r.works = append(r.works, worked{from: r.now})
	}
}

// pass lets time pass.
func (r *rehearsal) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.busy += time.Duration(r.others * float64(d))
	switch {
	case r.shift == nil:
	case r.resting:
		r.cpu += time.Duration(r.idles * float64(d))
	default:
		r.cpu += childCPUs * d
		r.left -= d
	}
}

// live lets the daemon look and the child work for a time, or until the child has to end.
func (r *rehearsal) live(d time.Duration) outcome {
	for end := r.now.Add(d); r.now.Before(end); {
		wait := r.next(r.now)
		if !r.free && !r.resting && r.left <= wait { // the child is done before the next look
			r.pass(r.left)
			if n := len(r.works); n > 0 {
				r.works[n-1].took = r.now.Sub(r.works[n-1].from)
			}
			r.asked(r.now, r.cpu)
			continue
		}
		r.pass(wait)
		if o := r.look(r.now, r.cpu, 100<<20); o.ending != "" {
			return o
		}
	}
	return outcome{}
}

// share is how much of the time from the first burst to the last was worked.
func (r *rehearsal) share() float64 {
	sum := time.Duration(0)
	for _, w := range r.works[:len(r.works)-1] {
		sum += w.took
	}
	return float64(sum) / float64(r.works[len(r.works)-1].from.Sub(r.works[0].from))
}

func TestBesideALightServiceAChildWorksInBursts(t *testing.T) {
	for name, change := range map[string]func(*rehearsal){
		"short bursts":             func(*rehearsal) {},
		"long ones":                func(r *rehearsal) { r.burst = 700 * time.Millisecond },
		"a child that never rests": func(r *rehearsal) { r.idles = 0.0004 },
	} {
		t.Run(name, func(t *testing.T) {
			r := rehearse(t, 0.1)
			change(r)
			if o := r.live(12 * time.Hour); o.ending != "" {
				t.Fatalf("it had to end: %+v", o)
			}
			most := idle.DefaultRules.BurstShare
			if got := r.share() + r.idles; got > 1.01*most || r.idles == 0 && got < 0.9*most {
				t.Errorf("%d bursts take %.5f of the time, want %v", len(r.works), got, most)
			}
			for _, o := range r.told {
				if o != workNow {
					t.Fatalf("it was told %q", o)
				}
			}
		})
	}
}

func TestAChildWorksWithoutRestsWhereNobodyElseDoes(t *testing.T) {
	r := rehearse(t, 0.005)
	r.live(time.Minute)
	if string(r.orders()) != "g" {
		t.Fatalf("it was told %q, want to go on", r.orders())
	}
	r.others = 0.1 // a service
	came := r.now
	for len(r.told) < 2 && r.now.Sub(came) < time.Minute {
		r.live(watchEvery)
	}
	if got := r.now.Sub(came); string(r.orders()) != "gt" || got > 4*time.Second {
		t.Fatalf("after %v it was told %q, want within 4 s that it is no longer alone", got, r.orders())
	}
	r.live(time.Hour)
	if rest := r.works[0].from.Sub(came); rest > time.Minute { // for one burst, and not for the minute before
		t.Errorf("the first burst came %v after the service", rest)
	}
	r.others = 0
	r.live(20 * time.Second)
	if r.told[len(r.told)-1] != goOn || !r.free {
		t.Errorf("when the service had gone it was told %q", r.orders())
	}
	if !strings.Contains(r.d.State().Reason, "without rests") {
		t.Errorf("the state says %q", r.d.State().Reason)
	}
}

func (r *rehearsal) orders() []byte {
	var list []byte
	for _, o := range r.told {
		list = append(list, byte(o))
	}
	return list
}

func TestNoBurstBeginsWhereItWouldBeMet(t *testing.T) {
	r := rehearse(t, 0.1)
	r.live(2 * time.Minute)
	before := len(r.works)
	r.runnable = 2 // somebody runs at each moment at which a burst might begin
	r.live(5 * time.Minute)
	if len(r.works) != before {
		t.Errorf("%d bursts began while somebody ran", len(r.works)-before)
	}
	r.runnable = 1
	r.live(10 * time.Second)
	if len(r.works) != before+1 {
		t.Errorf("%d bursts began when nobody ran any more, want 1", len(r.works)-before)
	}
	r.others = 0.8 // more than the rules admit, and less than makes a child end at once
	r.live(20 * time.Second)
	before = len(r.works)
	if o := r.live(patience / 2); o.ending != "" || len(r.works) != before {
		t.Errorf("beside a busy service: %+v, %d bursts", o, len(r.works)-before)
	}
	if o := r.live(patience); o.ending != gaveWay || !strings.Contains(o.why, "use the CPUs") {
		t.Errorf("for longer than an hour: %+v, want that it gives way", o)
	}
}

func TestWhatEndsAChildThatRests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rehearsal)
		ending ending
		why    string
	}{
		"want of memory":     {func(r *rehearsal) { r.stalled = 10 * time.Second }, gaveWay, "wait for memory"},
		"an operator":        {func(r *rehearsal) { r.d.due[anyModel] = true }, gaveWay, "an operator"},
		"its CPU time":       {func(r *rehearsal) { r.most.cpu = 100 * time.Millisecond }, tooDear, "of 100ms"},
		"its memory":         {func(r *rehearsal) { r.most.memory = 1 << 20 }, tooMuch, "MiB of 1"},
		"the time it worked": {func(r *rehearsal) { r.most.time = 100 * time.Millisecond }, tooLong, "works for longer than 100ms"},
		"a burst that hangs": {func(r *rehearsal) { r.burst = time.Hour }, tooLong, "not offered to rest"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rehearse(t, 0.1)
			r.live(10 * time.Second)
			c.change(r)
			if o := r.live(time.Hour); o.ending != c.ending || !strings.Contains(o.why, c.why) {
				t.Errorf("%+v, want %q because of %q", o, c.ending, c.why)
			}
		})
	}
}

// Somebody runs at each moment at which a burst might begin, or the child itself works while it should rest: neither may keep
// the memory and the store for ever.
func TestARestHasAnEnd(t *testing.T) {
	for name, change := range map[string]func(*rehearsal){
		"somebody always runs":     func(r *rehearsal) { r.runnable = 2 },
		"a child that never rests": func(r *rehearsal) { r.idles = 0.002 },
	} {
		t.Run(name, func(t *testing.T) {
			r := rehearse(t, 0.1)
			r.live(10 * time.Second)
			change(r)
			if o := r.live(2 * patience); o.ending != gaveWay || !strings.Contains(o.why, "no burst could begin for 1h") {
				t.Errorf("%+v, want that it gives way", o)
			}
		})
	}
}

// A child that asks without an end does not put off the look that ends it.
func TestAFloodOfQuestionsIsNoShield(t *testing.T) {
	d, end := begin(t, nil)
	end()
	d.gate = idle.Gate{Rules: d.opt.Rules}
	o := d.runChild(t.Context(), append(childCommand("flood", d.opt.Store), "-"), limits{time: time.Hour, cpu: 50 * time.Millisecond, memory: 1 << 40})
	if o.ending != tooDear {
		t.Errorf("%+v, want %q", o, tooDear)
	}
}

// A child that ends in a burst has to be paid for like any other: else one that is started again and again would never rest.
func TestWhoComesNextPaysForTheLastBurst(t *testing.T) {
	r := rehearse(t, 0.1)
	r.pass(20 * time.Millisecond)
	r.end(r.now)
	if got, want := r.d.pace.Next().Sub(r.now), 19980*time.Millisecond; got != want {
		t.Errorf("after 20 ms of work the next child may begin in %v, want %v", got, want)
	}
}

// TestOrdersAndQuestions plays the daemon to a child's pacer over the pipes between them.
func TestOrdersAndQuestions(t *testing.T) {
	told, orders := io.Pipe()
	asked, questions := io.Pipe()
	p := pacedBy(told, questions)
	p.Burst = 0
	ctx := measure.WithPacer(t.Context(), p)
	rest := func(ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() { _, err := measure.Rest(ctx); done <- err }()
		return done
	}
	question := func() {
		t.Helper()
		if _, err := asked.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		done := rest(ctx)
		question()
		orders.Write([]byte{byte(workNow)})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	done := rest(ctx)
	question()
	orders.Write([]byte{byte(goOn)})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := <-rest(ctx); err != nil { // nobody is asked
		t.Fatal(err)
	}
	orders.Write([]byte{byte(takeTurns)})
	orders.Write([]byte{'?'}) // read when the order before it has been obeyed; nobody waits for this one
	cancelled, cancel := context.WithCancel(ctx)
	done = rest(cancelled)
	question()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while it rests: %v", err)
	}
	done = rest(ctx)
	question()
	orders.Close()
	if err := <-done; !errors.Is(err, errAlone) {
		t.Errorf("when the daemon has gone: %v", err)
	}
}

// serve puts a service beside the daemon that uses more CPUs than the test and its child can: their own time, which is taken
// out, cannot hide it.
func serve(o *Options) {
	o.Rules.BurstShare, o.Rules.Utilization = 0.5, 1
	o.Read = (&machine{cpus: func() float64 { return 3.5 }}).read
}

// An order that was looked at ends no child that begins after it.
func TestAnOrderIsLookedAtOnce(t *testing.T) {
	opt := quick(t.TempDir())
	opt.Tuner, opt.Child = opened(t, opt.Store), childCommand("bursts", opt.Store)
	serve(&opt)
	d, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.ordered(anyModel, Unpinned+"ada", "", nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	s := until(t, d, func(s State) bool { return s.Failed+s.Aborted > 0 })
	cancel()
	if err := <-done; err != nil || s.Aborted > 0 {
		t.Errorf("%+v, %v", s.Events, err)
	}
}

// A real child asks over its descriptors 3 and 4, is let work, and finishes.
func TestPacedChildFinishes(t *testing.T) {
	d, end := begin(t, serve)
	end()
	d.gate, d.pace = idle.Gate{Rules: d.opt.Rules}, idle.Pace{Share: d.opt.Rules.BurstShare}
	for range 5 {
		time.Sleep(10 * time.Millisecond)
		d.lookAround(0)
	}
	if d.gate.Light() == "" {
		t.Fatal("the service is not seen")
	}
	o := d.runChild(t.Context(), append(childCommand("bursts", d.opt.Store), "-"), limits{time: time.Hour, cpu: time.Hour, memory: 1 << 40})
	if o.ending != finished || o.code != 0 || strings.TrimSpace(string(o.out)) != "20 rests" {
		t.Errorf("%+v: %s", o, o.out)
	}
}

// floodMain is a child that asks and does nothing else.
func floodMain() int {
	questions := os.NewFile(askBy, "questions")
	for {
		if _, err := questions.Write([]byte{'?'}); err != nil {
			return 1
		}
	}
}

// burstsMain is a child that offers to rest until it has done so twenty times.
func burstsMain() int {
	p := Paced()
	p.Burst = time.Millisecond
	ctx := measure.WithPacer(context.Background(), p)
	for rests := 0; rests < 20; {
		rested, err := measure.Rest(ctx)
		if err != nil {
			return 1
		}
		if rested {
			rests++
		}
	}
	os.Stdout.WriteString("20 rests\n")
	return 0
}
