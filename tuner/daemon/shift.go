package daemon

import (
	"fmt"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
)

// shift is a child at work: without rests for as long as nobody else works on this host, else in bursts. It decides, and
// leaves clocks and processes to watchChild.
type shift struct {
	d    *Daemon
	most limits
	tell func(order) // to the child

	watch   idle.Gate     // over some 10 ms, for load that arrives while it works; the daemon's own gate looks over seconds
	free    bool          // it works without rests
	resting bool          // it has asked, and waits
	since   time.Time     // when the burst at hand began, or the rest
	worked  time.Duration // in the bursts before it
	cpu     time.Duration // that the child had used when that was last looked at
	looked  time.Time     // when the daemon's own gate last looked
	refused string        // why no burst may begin; "" = it may
	due     time.Time     // when the next burst was to begin by what the last ones have earned
	alone   bool          // it was let work without rests, if only for a while
	rested  bool          // it has rested
	planned time.Time     // when the plan was last looked at
}

// How a child works that is not alone.
const (
	burstLength  = 25 * time.Millisecond // before it asks; one that measures ends its block first
	longestBurst = 30 * time.Second      // before it counts as hung
	somebodyRuns = 50 * time.Millisecond // how long to wait where somebody runs at the moment at which a burst might begin
	patience     = time.Hour             // how long a burst may be due while the child holds its memory
	pacedStep    = time.Minute           // how long a tune lasts at the least: it is not worth setting up every hour anew
)

// begin is called when the child has just been started.
func (s *shift) begin(now time.Time) {
	s.since, s.looked, s.planned = now, now, now
	s.watch = idle.Gate{Rules: s.d.opt.Rules}
	if light := s.d.gate.Light(); light == "" {
		s.release()
	} else {
		s.d.pacing(s.inBursts(light))
	}
}

func (s *shift) release() {
	s.free, s.alone = true, true
	s.tell(goOn)
	s.d.pacing(string(withoutRests))
}

// worksAt is its pace so far.
func (s *shift) worksAt() pace {
	switch {
	case !s.rested:
		return withoutRests
	case !s.alone:
		return inBursts
	}
	return mixed
}

// mayAsk is false where it asked before it was told to go on, and where it has asked already.
func (s *shift) mayAsk() bool { return !s.free && !s.resting }

// asked is called when the child offers to rest.
func (s *shift) asked(now time.Time, cpu time.Duration) {
	s.d.pace.Worked(now, s.put(now))
	s.resting, s.rested, s.since, s.cpu, s.due = true, true, now, cpu, s.d.pace.Next()
}

// put takes down what was worked since the last look, in a burst or without rests.
func (s *shift) put(now time.Time) time.Duration {
	s.d.opt.Log.Debug().Int64("from_us", s.since.UnixMicro()).Int64("to_us", now.UnixMicro()).Msg("a child worked")
	worked := now.Sub(s.since)
	s.worked += worked
	return worked
}

// end is called when the child is gone.
func (s *shift) end(now time.Time) {
	if s.resting {
		return
	}
	if worked := s.put(now); !s.free { // the next child pays for it
		s.d.pace.Worked(now, worked)
	}
}

// next is how long to wait for the next look.
func (s *shift) next(now time.Time) time.Duration {
	if !s.resting {
		return watchEvery
	}
	look := s.looked.Add(s.d.opt.Look).Sub(now)
	if burst := s.d.pace.Next().Sub(now); s.refused == "" && burst < look {
		return max(burst, somebodyRuns)
	}
	return max(look, time.Millisecond)
}

// look says why the child has to end; the zero outcome = it need not.
func (s *shift) look(now time.Time, cpu time.Duration, memory uint64) outcome {
	switch {
	case memory > s.most.memory:
		return outcome{ending: tooMuch, why: fmt.Sprintf("%d MiB of %d", memory>>20, s.most.memory>>20)}
	case cpu > s.most.cpu:
		return outcome{ending: tooDear, why: fmt.Sprintf("%v of %v", cpu, s.most.cpu)}
	case tuner.Wanted(s.d.opt.Store):
		return outcome{ending: gaveWay, why: "another run wants the store"}
	}
	if s.resting {
		return s.lookAtRest(now, cpu)
	}
	return s.lookAtWork(now, cpu)
}

func (s *shift) lookAtWork(now time.Time, cpu time.Duration) outcome {
	burst := now.Sub(s.since)
	s.watch.Look(s.d.opt.Watch(), cpu)
	if why := s.watch.Yield(); why != "" {
		return outcome{ending: gaveWay, why: why}
	}
	if s.worked+burst > s.most.time {
		return outcome{ending: tooLong, why: fmt.Sprintf("it works for longer than %v", s.most.time)}
	}
	if !s.free && burst > longestBurst {
		return outcome{ending: tooLong, why: fmt.Sprintf("it has not offered to rest for %v", longestBurst)}
	}
	if s.free && now.Sub(s.looked) >= s.d.opt.Look {
		s.looked = now
		s.d.lookAround(cpu)
		if light := s.d.gate.Light(); light != "" {
			s.put(now)
			s.free, s.since = false, now
			s.tell(takeTurns)
			s.d.pacing(s.inBursts(light))
		}
	}
	return outcome{}
}

func (s *shift) inBursts(why string) string {
	return fmt.Sprintf("%s that take %.2g %% of the time, as %s", inBursts, 100*s.d.pace.Share, why)
}

func (s *shift) lookAtRest(now time.Time, cpu time.Duration) outcome {
	if cpu > s.cpu { // it does not rest wholly: the Go runtime tidies up
		s.d.pace.Besides(cpu - s.cpu)
		s.cpu = cpu
	}
	if now.Sub(s.looked) >= s.d.opt.Look {
		s.looked = now
		if o := s.reconsider(now, cpu); o.ending != "" {
			return o
		}
	}
	if s.refused != "" || !s.resting || now.Before(s.d.pace.Next()) || s.d.opt.Watch().Runnable > 1 { // the daemon itself runs
		return outcome{}
	}
	s.resting, s.since = false, now
	s.watch.Forget()
	s.tell(workNow)
	return outcome{}
}

// reconsider looks around over seconds: whether there is room for another burst, for work without rests, or not even for
// the child's memory.
func (s *shift) reconsider(now time.Time, cpu time.Duration) outcome {
	s.d.lookAround(cpu)
	if usage := s.d.gate.Usage(s.d.opt.Rules.Quiet); usage.MemStall > s.d.opt.Rules.MemStall {
		return outcome{ending: gaveWay, why: fmt.Sprintf("others wait for memory %.0f %% of the time", 100*usage.MemStall)}
	}
	pinned := false
	if now.Sub(s.planned) >= factsEvery {
		s.planned, pinned = now, s.d.overtaken()
	}
	if pinned || s.d.pending() {
		return outcome{ending: gaveWay, why: "an operator has changed something"}
	}
	s.refused = s.d.gate.Admit(s.d.opt.Now())
	light := s.d.gate.Light()
	switch {
	case s.refused == "" && light == "":
		s.resting, s.since = false, now
		s.release()
	case now.Sub(s.due) > patience:
		return outcome{ending: gaveWay, why: fmt.Sprintf("no burst could begin for %v: %s", patience, orElse(s.refused, "somebody runs whenever one might"))}
	case s.refused != "":
		s.d.pacing("at rest, as " + s.refused)
	default:
		s.d.pacing(s.inBursts(light))
	}
	return outcome{}
}
