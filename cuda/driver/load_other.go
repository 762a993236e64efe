//go:build !linux || !(amd64 || arm64)

package driver

import "runtime"

// Load says that this build finds no driver.
func Load(Options) (Table, error) {
	return Table{}, &Error{Op: "load libcuda", Kind: ErrNoDriver,
		Hint: "GPUs are used on linux/amd64 and linux/arm64 only, this is " + runtime.GOOS + "/" + runtime.GOARCH}
}
