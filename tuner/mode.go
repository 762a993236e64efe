package tuner

import (
	"errors"
	"fmt"
	"slices"
)

// Mode is how much a Tuner, or a daemon, may do of its own accord. What an operator does, who pins and rolls back, is done in
// every mode.
type Mode string

// The modes.
const (
	ModeOff    Mode = "off"    // answer from facts and pins; use nothing that was learned, and measure nothing
	ModeUse    Mode = "use"    // answer with what is known; measure nothing
	ModeAdvise Mode = "advise" // check what is known, and say what should be done; change nothing
	ModeTune   Mode = "tune"   // learn, check, and take back
	ModeFrozen Mode = "frozen" // answer with the configs of given hashes; fail rather than measure or answer with another
)

// Modes lists them.
func Modes() []Mode { return []Mode{ModeOff, ModeUse, ModeAdvise, ModeTune, ModeFrozen} }

// ErrMode means that the mode does not allow what was asked for, and ErrFrozen that a config would answer which is none of the
// frozen ones.
var (
	ErrMode   = errors.New("the mode does not allow it")
	ErrFrozen = errors.New("the config is not a frozen one")
)

// ParseMode returns the mode of a name; "" is ModeTune.
func ParseMode(name string) (Mode, error) {
	if name == "" {
		return ModeTune, nil
	}
	if m := Mode(name); slices.Contains(Modes(), m) {
		return m, nil
	}
	return "", fmt.Errorf("mode %q: one of %v", name, Modes())
}

// Mode returns the mode that t was opened with.
func (t *Tuner) Mode() Mode { return t.opt.Mode }

// unusedInOff is why nothing that was learned answers in ModeOff.
const unusedInOff = "mode off uses nothing that was learned"

// settleMode fills and checks the mode of the options.
func (o *Options) settleMode() (err error) {
	if o.Mode, err = ParseMode(string(o.Mode)); err != nil {
		return err
	}
	if (o.Mode == ModeFrozen) != (len(o.Frozen) > 0) {
		return fmt.Errorf("mode %s with %d frozen hashes: mode frozen wants the hashes of the configs, and no other mode does", o.Mode, len(o.Frozen))
	}
	return nil
}

// may is the error of a verb that measures where only the given modes allow it.
func (t *Tuner) may(verb string, modes ...Mode) error {
	if slices.Contains(modes, t.opt.Mode) {
		return nil
	}
	return fmt.Errorf("%s: %w: it is %s", verb, ErrMode, t.opt.Mode)
}

// thawed is the error of an answer that is none of the frozen configs.
func (t *Tuner) thawed(p Plan) error {
	if t.opt.Mode == ModeFrozen && !slices.Contains(t.opt.Frozen, p.Hash) {
		return fmt.Errorf("%s: %w: it is %s, of %v", p.Model, ErrFrozen, p.Hash, t.opt.Frozen)
	}
	return nil
}
