//go:build race

package history

// Under the race detector a child process is several times as slow, and races are found by the tests within one
// process: there is less of everything then, unless a flag asks for more.
func init() {
	*corruptions, *kills, *contend, *scaleRecords, *states = 1, 20, 3, 10_000, 50
	injectedAt = []string{"1", "2", "1+"}
}
