//go:build !linux

package probe

import "errors"

// liveAffinity knows nothing: this OS has no call that we know to ask.
func liveAffinity() []int { return nil }

// pin ties nothing: this OS has no call that we know to bind a thread to a CPU.
func pin(int) (restore func(), err error) { return func() {}, errors.ErrUnsupported }
