package placement

import (
	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
)

// Rules are all the figures that a recommendation or a plan rests on: those of this package, and of those that it asks.
type Rules struct {
	Constants
	Device device.Constants
	Memory memory.Constants
}

// DefaultRules are the rules where none are given.
var DefaultRules = Rules{Constants: Defaults, Device: device.Defaults, Memory: memory.Defaults}
