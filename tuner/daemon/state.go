package daemon

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
)

// Phase is what the daemon does.
type Phase string

// The phases.
const (
	Waiting   Phase = "waiting"   // for the machine to be idle, or for something to be due
	Measuring Phase = "measuring" // a child tunes
	Checking  Phase = "checking"  // a child compares what was learned with the default
	Stopped   Phase = "stopped"
)

// Phases lists them.
func Phases() []Phase { return []Phase{Waiting, Measuring, Checking, Stopped} }

// State is a snapshot of the daemon.
type State struct {
	At      time.Time    `json:"at"`
	Started time.Time    `json:"started"`
	Mode    tuner.Mode   `json:"mode"`
	Phase   Phase        `json:"phase"`
	Model   string       `json:"model,omitempty"` // that it measures or checks; "" = it does neither
	Reason  string       `json:"reason"`          // why it waits, or what it measures
	Host    idle.Usage   `json:"host"`            // what others did lately
	Budget  Budget       `json:"budget"`
	Steps   int          `json:"steps"`   // children that were started
	Aborted int          `json:"aborted"` // of these, those that gave way to load
	Failed  int          `json:"failed"`  // and those that crashed, hung or took too much
	Models  []ModelState `json:"models"`
	Events  []Event      `json:"events"` // the latest, newest last
}

// Budget is the CPU time of the last 24 hours, in seconds.
type Budget struct {
	Limit float64 `json:"limit_seconds"`
	Spent float64 `json:"spent_seconds"` // what a running child has reserved is in it
	Left  float64 `json:"left_seconds"`
}

// ModelState is what the daemon knows and wants of one model.
type ModelState struct {
	Name       string      `json:"name"`
	Plan       tuner.Plan  `json:"plan"`
	Verdict    string      `json:"verdict"` // of the last tune; "" = none yet
	Checks     int         `json:"checks"`  // of the config that serves now
	Drift      float64     `json:"drift"`   // the largest statistic of its regimes
	DriftLimit float64     `json:"drift_limit"`
	LastRatio  tuner.Ratio `json:"last_ratio"` // of the last check, decode before the others
	NextCheck  time.Time   `json:"next_check,omitzero"`
	Error      string      `json:"error,omitempty"` // why its plan cannot be told
}

// Event is something that was done or noticed.
type Event struct {
	At    time.Time `json:"at"`
	Level string    `json:"level"` // info, warn or error
	Model string    `json:"model,omitempty"`
	What  string    `json:"what"`
	Why   string    `json:"why,omitempty"`
}

// kept is how many events State shows.
const kept = 100

// State returns a snapshot.
func (d *Daemon) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.state
	s.At = d.opt.Now()
	s.Models = append([]ModelState{}, s.Models...)
	s.Events = append([]Event{}, s.Events...)
	return s
}

// Subscribe returns the events from now on. A reader that does not keep up misses some. stop ends it.
func (d *Daemon) Subscribe() (events <-chan Event, stop func()) {
	ch := make(chan Event, 64)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readers == nil {
		d.readers = map[chan Event]bool{}
	}
	d.readers[ch] = true
	return ch, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.readers[ch] {
			delete(d.readers, ch)
			close(ch)
		}
	}
}

// tell logs an event, keeps it and sends it to the readers. One that says the same as the last of its model is told once.
func (d *Daemon) tell(level zerolog.Level, model, what, why string) {
	e := Event{At: d.opt.Now(), Level: level.String(), Model: model, What: what, Why: why}
	d.mu.Lock()
	for i := len(d.state.Events) - 1; i >= 0; i-- {
		last := d.state.Events[i]
		if last.Model == model {
			if last.What == what && last.Why == why {
				d.mu.Unlock()
				return
			}
			break
		}
	}
	d.state.Events = append(d.state.Events, e)
	if n := len(d.state.Events); n > kept {
		d.state.Events = append([]Event{}, d.state.Events[n-kept:]...)
	}
	for ch := range d.readers {
		select {
		case ch <- e:
		default:
		}
	}
	d.mu.Unlock()
	line := d.opt.Log.WithLevel(level)
	if model != "" {
		line = line.Str("model", model)
	}
	if why != "" {
		line = line.Str("why", why)
	}
	line.Msg(what)
}

func (d *Daemon) change(f func(*State)) {
	d.mu.Lock()
	f(&d.state)
	d.mu.Unlock()
}

// phase says what is done now and why, where that is for no model.
func (d *Daemon) phase(p Phase, why string) {
	d.change(func(s *State) { s.Phase, s.Model, s.Reason = p, "", why })
}
