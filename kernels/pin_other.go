//go:build !linux

package kernels

import "errors"

// pin binds nothing: this OS has no call that we know to bind a thread to a CPU.
func pin(int) (restore func() error, err error) {
	return func() error { return nil }, errors.ErrUnsupported
}

func onMainThread() bool { return false }
