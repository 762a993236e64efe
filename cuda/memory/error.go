package memory

import "fmt"

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
