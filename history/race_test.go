//go:build race

package history

// Under the race detector a child process is seven times as slow, and races are found by the tests within one process:
// there are fewer children then, unless the flags ask for more.
func init() { *corruptions, *kills = 2, 30 }
