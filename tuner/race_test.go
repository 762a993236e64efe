//go:build race

package tuner

// Three runs show races as well as twenty do, which take minutes under the detector.
func init() { seeds = 3 }
