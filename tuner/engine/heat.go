package engine

import (
	"io/fs"
	"strconv"
	"strings"
)

// Heat reads the hottest thermal zone of a machine whose sysfs is given, in degrees Celsius; 0 where it has none.
func Heat(sys fs.FS) func() float64 {
	return func() (hottest float64) {
		files, err := fs.Glob(sys, "class/thermal/thermal_zone*/temp")
		if err != nil {
			return 0
		}
		for _, file := range files {
			text, err := fs.ReadFile(sys, file)
			if err != nil {
				continue // a sensor that sleeps
			}
			if milli, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
				hottest = max(hottest, milli/1000)
			}
		}
		return hottest
	}
}
