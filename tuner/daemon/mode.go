package daemon

import (
	"fmt"
	"slices"
)

// Mode is how much the daemon may do.
type Mode string

// The modes.
const (
	Off    Mode = "off"    // nothing at all
	Use    Mode = "use"    // answer with what is known; measure nothing
	Advise Mode = "advise" // check what is known, and say what should be done; change nothing
	Tune   Mode = "tune"   // learn, check, and take back
	Frozen Mode = "frozen" // answer with the configs of a given hash; fail rather than measure or answer with another
)

// Modes lists them.
func Modes() []Mode { return []Mode{Off, Use, Advise, Tune, Frozen} }

// ParseMode returns the mode of a name; "" is Tune.
func ParseMode(name string) (Mode, error) {
	if name == "" {
		return Tune, nil
	}
	if m := Mode(name); slices.Contains(Modes(), m) {
		return m, nil
	}
	return "", fmt.Errorf("daemon: mode %q: one of %v", name, Modes())
}
