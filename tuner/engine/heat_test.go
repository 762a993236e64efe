package engine_test

import (
	"testing"
	"testing/fstest"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

func TestHeat(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		sys  fstest.MapFS
		want engine.Thermal
	}{
		"no sensors":            {fstest.MapFS{}, engine.Thermal{}},
		"the hottest of two":    {fstest.MapFS{"class/thermal/thermal_zone0/temp": file("41000\n"), "class/thermal/thermal_zone1/temp": file("67500\n")}, engine.Thermal{Celsius: 67.5}},
		"one that does not say": {fstest.MapFS{"class/thermal/thermal_zone0/temp": file("\n"), "class/thermal/thermal_zone1/temp": file("30000\n")}, engine.Thermal{Celsius: 30}},
		"slowed down": {fstest.MapFS{
			"devices/system/cpu/cpu0/thermal_throttle/core_throttle_count":    file("3\n"),
			"devices/system/cpu/cpu1/thermal_throttle/package_throttle_count": file("4\n"),
			"class/thermal/cooling_device0/stats/total_trans":                 file("10\n"),
		}, engine.Thermal{Throttles: 17}},
	} {
		if got := engine.Heat(c.sys)(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
