package tuner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Fleet is where hosts share what they learned; *fleet.Fleet is one. A run goes on without it: each of its errors costs a
// warning and nothing else.
type Fleet interface {
	Exchange
	Turns
}

// Exchange takes and gives configs.
type Exchange interface {
	Push(context.Context, fleet.Entry) (fleet.Outcome, error)
	Pull(context.Context, fleet.Query) ([]fleet.Entry, fleet.Report, error)
}

// Turns let one host of a class tune while the others wait for what it learns.
type Turns interface {
	Claim(ctx context.Context, key fleet.Key, holder string, ttl time.Duration) (*fleet.Claim, error)
	Await(ctx context.Context, key fleet.Key) (fleet.Entry, error)
}

var _ Fleet = (*fleet.Fleet)(nil)

// classFields are what makes hosts of one class to a fleet: the identity of the machine and how much of it may be used. What was
// learned with two cores of a large machine is no advice for all of it.
func classFields(identity, envelope map[string]string) map[string]string {
	fields := maps.Clone(identity)
	for _, name := range []string{"usable_cores", "usable_physical_cores"} {
		fields[name] = envelope[name]
	}
	return fields
}

// class is what makes the hosts that may share the answer to p one.
func (p Problem) class() string {
	return fleet.Class(classFields(fields(p.identity()), fields(p.Host.Envelope())))
}

// fleetKey is where the answer to p is shared.
func (p Problem) fleetKey() fleet.Key {
	return fleet.Key{Class: p.class(), Model: p.Model.Fingerprint(), Target: p.Target, Objective: string(p.Objective), Signature: p.domain().signature()}
}

// shared is what other hosts are told of a learned config: the setting and the verdicts with their figures. Nothing in it
// names this host, its files or its users, and no sample is in it.
func (c Certificate) shared(l history.Learned) (fleet.Entry, error) {
	proof, err := json.Marshal(c)
	if err != nil {
		panic("tuner: a certificate always marshals")
	}
	l.Certificate, l.Identity, l.Envelope = proof, classFields(l.Identity, l.Envelope), nil
	if _, ok := model.Preset(l.ModelName); !ok {
		l.ModelName = "" // of a file
	}
	return fleet.FromLearned(l)
}

var errNoFleet = errors.New("no fleet to share with: set Options.Fleet")

// Shared says what became of a learned config that was offered to the fleet.
type Shared struct {
	Model     string        `json:"model"` // its name, else its fingerprint
	Target    string        `json:"target"`
	Objective string        `json:"objective"`
	Outcome   fleet.Outcome `json:"outcome"`          // "" where it was not offered
	Reason    string        `json:"reason,omitempty"` // why it was not
}

// Share offers the fleet what runs on this host decided: with this build's kernels, and with engines, for one model or a file, or
// for all if name is "". What was received from the fleet is not sent back.
func (t *Tuner) Share(ctx context.Context, name string) ([]Shared, error) {
	if t.opt.Fleet == nil {
		return nil, fmt.Errorf("push: %w", errNoFleet)
	}
	wanted, err := t.fingerprints(ctx, name)
	if err != nil {
		return nil, err
	}
	known, err := t.LearnedConfigs(ctx)
	if err != nil {
		return nil, err
	}
	list := []Shared{}
	for _, c := range known {
		if name != "" && !slices.Contains(wanted, c.ModelFingerprint) || !c.ours() {
			continue
		}
		done := Shared{Model: c.Model, Target: c.Target, Objective: c.Objective}
		entry, decided, err := sharedEntry(c.entry)
		switch {
		case err != nil && !c.ofEngine():
			return list, err
		case err != nil:
			done.Reason = err.Error()
		case !decided:
			continue
		default:
			if done.Outcome, err = t.opt.Fleet.Push(ctx, entry); err != nil {
				return list, err
			}
		}
		list = append(list, done)
	}
	if len(list) == 0 {
		return list, fmt.Errorf("push: %w", ErrNothingLearned)
	}
	return list, nil
}

// fingerprints are those under which a name may have been learned: of a model, and of a file that an engine was tuned with.
func (t *Tuner) fingerprints(ctx context.Context, name string) (list []string, err error) {
	if name == "" {
		return nil, nil
	}
	p, err := t.problem(ctx, name)
	if err == nil {
		list = append(list, p.Model.Fingerprint())
	}
	if m, unread := readEngineModel(name); unread == nil {
		return append(list, m.fingerprint), nil
	}
	return list, err
}

// sharedEntry is what other hosts are told of a learned config; false where it says of no regime what is to be used.
func sharedEntry(l history.Learned) (e fleet.Entry, decided bool, err error) {
	if strings.HasPrefix(l.Target, EngineTarget) {
		e, err = sharedOfEngine(l)
		return e, true, err
	}
	var c Certificate
	if err := json.Unmarshal(l.Certificate, &c); err != nil || !c.decided() || l.Envelope[knobsField] != "" {
		return e, false, nil // what does not parse decides nothing
	}
	e, err = c.shared(l)
	return e, true, err
}

// decided reports whether a certificate says which setting is to be used for any regime.
func (c Certificate) decided() bool {
	return slices.ContainsFunc(Regimes, func(r target.Regime) bool { _, ok := c.proof(r); return ok })
}
