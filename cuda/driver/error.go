package driver

import (
	"errors"
	"fmt"
	"strings"
)

// Why there is no GPU to work with.
var (
	ErrNoDriver     = errors.New("no usable NVIDIA driver")
	ErrNoDevice     = errors.New("no NVIDIA GPU")
	ErrDriverTooOld = errors.New("the NVIDIA driver is too old")
	ErrNotPermitted = errors.New("no permission to use the GPU")
)

// What went wrong with work on a device.
var (
	ErrOutOfMemory = errors.New("out of GPU memory")
	ErrInvalidPTX  = errors.New("the driver refuses the kernel's code")
	ErrNoCompiler  = errors.New("the driver's PTX compiler is missing")
	ErrDeviceLost  = errors.New("the GPU is lost until it is reset")
	ErrClosed      = errors.New("closed, or lost with its device")
)

// Error is a function of the driver that failed. errors.Is finds its Kind.
type Error struct {
	Op     string // C's name of the function: "cuMemAlloc"
	Code   Result
	Name   string // of the code: "CUDA_ERROR_OUT_OF_MEMORY"
	Text   string // the driver's own words
	Device string // as Device.String; "" if the function concerns no device
	Kind   error  // one of the sentinels above; nil = none of them
	Sticky bool   // everything on the device fails from now on, until Device.Reset
	Hint   string // what would help
	JITLog string // what the driver's compiler said
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("driver: " + e.Op)
	if e.Device != "" {
		b.WriteString(" on " + e.Device)
	}
	if e.Code != Success {
		fmt.Fprintf(&b, ": %s (%d)", e.Name, e.Code)
	}
	for _, part := range []string{e.Text, firstLine(e.JITLog), e.Hint} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	return b.String()
}

// Unwrap returns the kind, for errors.Is.
func (e *Error) Unwrap() error { return e.Kind }

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

// newError describes a result other than Success.
func (t *Table) newError(op string, r Result) *Error {
	e := &Error{Op: op, Code: r, Kind: kind(r), Sticky: r.Sticky(), Hint: hints[r], Name: "CUDA error"}
	if t.GetErrorName != nil {
		if name := t.GetErrorName(r); name != "" {
			e.Name = name
		}
	}
	if t.GetErrorString != nil {
		e.Text = t.GetErrorString(r)
	}
	return e
}

func kind(r Result) error {
	switch r {
	case OutOfMemory:
		return ErrOutOfMemory
	case NoDevice:
		return ErrNoDevice
	case NotPermitted:
		return ErrNotPermitted
	case UnsupportedPTX:
		return ErrDriverTooOld
	case InvalidPTX, InvalidImage, NoBinaryForGPU:
		return ErrInvalidPTX
	case JITCompilerNotFound:
		return ErrNoCompiler
	}
	if r.Sticky() {
		return ErrDeviceLost
	}
	return nil
}

// hints say what helps against a result, where something does.
var hints = map[Result]string{
	StubLibrary:          "this libcuda is the stub of a toolkit, made for linking: let the loader find the driver's own library",
	DeviceUnavailable:    "another process holds the device for itself, or its compute mode forbids contexts",
	NoDevice:             "is the kernel module nvidia loaded, and does CUDA_VISIBLE_DEVICES name a device of this host?",
	JITCompilerNotFound:  "libnvidia-ptxjitcompiler.so.1 of the same driver must lie beside libcuda",
	UnsupportedPTX:       "a newer driver is needed",
	SystemNotReady:       "a service that the devices need, such as nvidia-fabricmanager, is not running",
	SystemDriverMismatch: "libcuda and the kernel module are of different versions: reboot, or mount the library that belongs to the module",
	CompatNotSupported:   "the compatibility libcuda does not support this GPU: use the library of the installed driver",
}
