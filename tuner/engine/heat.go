package engine

import (
	"io/fs"
	"strconv"
	"strings"
)

// Thermal is what a machine says of its heat. What it does not say is 0.
type Thermal struct {
	Celsius float64 // of the hottest sensor
	// Throttles is how often CPUs slowed themselves down since they were booted, or were slowed by a cooling device; only its
	// growth means anything.
	Throttles int64
}

// Heat reads the heat of a machine whose sysfs is given.
func Heat(sys fs.FS) func() Thermal {
	return func() (t Thermal) {
		for _, milli := range readNumbers(sys, "class/thermal/thermal_zone*/temp") {
			t.Celsius = max(t.Celsius, milli/1000)
		}
		for _, n := range readNumbers(sys, "devices/system/cpu/cpu*/thermal_throttle/*_throttle_count") { // Intel
			t.Throttles += int64(n)
		}
		for _, n := range readNumbers(sys, "class/thermal/cooling_device*/stats/total_trans") { // where a governor cools
			t.Throttles += int64(n)
		}
		return t
	}
}

// readNumbers are the numbers in the files of a pattern. A sensor that sleeps is left out.
func readNumbers(sys fs.FS, pattern string) (numbers []float64) {
	files, err := fs.Glob(sys, pattern)
	if err != nil {
		return nil
	}
	for _, file := range files {
		text, err := fs.ReadFile(sys, file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
