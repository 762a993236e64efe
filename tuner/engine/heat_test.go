package engine_test

import (
	"testing"
	"testing/fstest"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

func TestHeat(t *testing.T) {
	zone := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		sys  fstest.MapFS
		want float64
	}{
		"no sensors":            {fstest.MapFS{}, 0},
		"the hottest of two":    {fstest.MapFS{"class/thermal/thermal_zone0/temp": zone("41000\n"), "class/thermal/thermal_zone1/temp": zone("67500\n")}, 67.5},
		"one that does not say": {fstest.MapFS{"class/thermal/thermal_zone0/temp": zone("\n"), "class/thermal/thermal_zone1/temp": zone("30000\n")}, 30},
	} {
		if got := engine.Heat(c.sys)(); got != c.want {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}
