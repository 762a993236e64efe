//go:build race

package history

// Under the race detector a child process is several times as slow, and races are found by the tests within one
// process: fewer files are damaged then, unless the flag asks for more.
func init() { *corruptions = 4 }
