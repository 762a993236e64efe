//go:build race

package bandit_test

// A single run shows races as well as eight do, ten times as slowly; the claims of the study are for builds without
// the detector.
func init() { *studyRuns = 1 }
