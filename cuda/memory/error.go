package memory

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// Wrong use of a manager.
var (
	ErrClosed     = errors.New("memory: the manager is closed")
	ErrDoubleFree = errors.New("memory: freed already")
	ErrForeign    = errors.New("memory: not of this manager")
)

// A DeviceError says that there is no device of a number.
type DeviceError struct{ Device, Count int }

func (e *DeviceError) Error() string {
	return fmt.Sprintf("memory: device %d: the driver has %d, numbered from 0 on", e.Device, e.Count)
}

// An OutOfMemoryError says that an allocation has no room, also after everything free was given back. It is
// driver.ErrOutOfMemory as well.
type OutOfMemoryError struct {
	Device         int
	Bytes          uint64 // of the allocation, rounded up
	AllocatedBytes uint64
	UsableBytes    uint64
	Reason         string
	Snapshot       Stats // of the moment when it failed
	Err            error // the driver's; nil if it was not asked
}

func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("memory: device %d has no room for %d bytes: %d of %d usable bytes are allocated: %s",
		e.Device, e.Bytes, e.AllocatedBytes, e.UsableBytes, e.Reason)
}

func (e *OutOfMemoryError) Unwrap() []error {
	if e.Err == nil {
		return []error{driver.ErrOutOfMemory}
	}
	return []error{driver.ErrOutOfMemory, e.Err}
}

// An AllocationError says that the driver failed, with something else than a lack of memory.
type AllocationError struct {
	Device int
	Bytes  uint64
	Err    error
}

func (e *AllocationError) Error() string {
	return fmt.Sprintf("memory: allocation of %d bytes on device %d: %v", e.Bytes, e.Device, e.Err)
}

func (e *AllocationError) Unwrap() error { return e.Err }

// A LeakError says what was not freed when a manager was closed.
type LeakError struct {
	Device int
	Leaks  []Leak
}

// Leak is an allocation that was not freed.
type Leak struct {
	Name  string // "" if it had none
	Ptr   driver.Ptr
	Bytes uint64
}

func (e *LeakError) Error() string {
	var leaks []string
	for _, l := range e.Leaks {
		leaks = append(leaks, fmt.Sprintf("%d bytes at %#x %q", l.Bytes, l.Ptr, l.Name))
	}
	const shown = 8
	more := ""
	if len(leaks) > shown {
		leaks, more = leaks[:shown], ", ..."
	}
	return fmt.Sprintf("memory: %d allocations on device %d were not freed: %s%s", len(e.Leaks), e.Device, strings.Join(leaks, ", "), more)
}

// A FleetError says that no device has room, and why each has not.
type FleetError struct {
	Bytes   uint64
	Devices []error
}

func (e *FleetError) Error() string {
	var why []string
	for _, err := range e.Devices {
		why = append(why, err.Error())
	}
	return fmt.Sprintf("memory: no device has room for %d bytes: %s", e.Bytes, strings.Join(why, "; "))
}

func (e *FleetError) Unwrap() []error { return e.Devices }

// A QueryError says that what a device has could not be read.
type QueryError struct {
	Device int
	Err    error // the driver's, or why the record is of no use
}

func (e *QueryError) Error() string {
	return fmt.Sprintf("memory: query of device %d: %v", e.Device, e.Err)
}

func (e *QueryError) Unwrap() error { return e.Err }

// An InsufficientError says that a device has no room for the least workspace of a matmul.
type InsufficientError struct {
	Device         int
	RequiredBytes  uint64 // dequantised weights and the least workspace
	AvailableBytes uint64 // free without the reserve
	UsableBytes    uint64 // the share of it that a workspace may take
}

func (e *InsufficientError) Error() string {
	return fmt.Sprintf("memory: device %d has no room for a workspace: %d bytes are required, %d are available, of which %d may be used",
		e.Device, e.RequiredBytes, e.AvailableBytes, e.UsableBytes)
}

// A WorkspaceError says that a workspace would have to be cut below what is of use.
type WorkspaceError struct {
	Device         int
	RequestedBytes uint64
	AvailableBytes uint64
	MinimumBytes   uint64 // for a batch of 1
}

func (e *WorkspaceError) Error() string {
	return fmt.Sprintf("memory: no workspace on device %d: %d bytes are wanted and at least %d, %d are available",
		e.Device, e.RequestedBytes, e.MinimumBytes, e.AvailableBytes)
}
