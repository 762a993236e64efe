//go:build race

package engine_test

// The claim over 50 surfaces is one about figures, which are the same with the detector and ten times as slow.
func init() { surfaces = 5 }
