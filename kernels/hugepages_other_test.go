//go:build !linux

package kernels_test

import "testing"

// hugePages returns ordinary memory: only Linux lets a process ask for more.
func hugePages(_ testing.TB, size int) []byte { return make([]byte, size) }
