//go:build !cgo || !linux

package gpu

import "errors"

func connect() (session, error) {
	return nil, errors.New("this build sees no GPUs through NVML: it was made without cgo, or not for Linux")
}
