package memory

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// Record is what a device has, as far as it is known.
type Record struct {
	Device int `json:"device"`
	gpu.Memory
	Basis string `json:"basis"` // "probe": told by the driver; "estimate": reckoned, since the driver did not tell
	// Stale is why this is not of now: the last query failed or did not end. "" = it is of now.
	Stale string `json:"stale,omitempty"`
}

// UsedBytes is what all processes hold.
func (r Record) UsedBytes() uint64 { return below(r.TotalBytes, r.FreeBytes) }

// Query reads the memory of a device.
type Query func() (gpu.Memory, error)

// record holds what a query said last.
type record struct {
	query    Query
	now      func() time.Time
	lifetime time.Duration
	deadline time.Duration
	last     gpu.Memory // At is zero before the first
	valid    bool
	trouble  string
	hangs    atomic.Bool // a query was given up and has not ended
}

// read returns what the device has: as it was told at most a lifetime ago, or else anew.
func (r *record) read() (gpu.Memory, error) {
	if r.valid && r.now().Sub(r.last.At) < r.lifetime {
		return r.last, nil
	}
	return r.fresh()
}

// fresh asks anew. A failure leaves what was known, as stale.
func (r *record) fresh() (gpu.Memory, error) {
	m, err := r.ask()
	if err == nil && (m.TotalBytes == 0 || m.FreeBytes > m.TotalBytes) {
		err = fmt.Errorf("%d bytes free of %d make no sense", m.FreeBytes, m.TotalBytes)
	}
	if err != nil {
		r.valid, r.trouble = false, err.Error()
		return gpu.Memory{}, err
	}
	if m.At.IsZero() {
		m.At = r.now()
	}
	r.last, r.valid, r.trouble = m, true, ""
	return m, nil
}

// ask runs the query. A call of the driver cannot be cancelled: one that takes too long is left to itself, and no other
// is made before it has ended.
func (r *record) ask() (gpu.Memory, error) {
	if r.hangs.Load() {
		return gpu.Memory{}, errors.New(r.trouble)
	}
	type answer struct {
		memory gpu.Memory
		err    error
	}
	answers := make(chan answer, 1)
	r.hangs.Store(true)
	go func() {
		memory, err := r.query()
		r.hangs.Store(false)
		answers <- answer{memory, err}
	}()
	timer := time.NewTimer(r.deadline)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.memory, a.err
	case <-timer.C:
		return gpu.Memory{}, fmt.Errorf("no answer within %v", r.deadline)
	}
}

// drop forgets that what was told is of now.
func (r *record) drop() { r.valid = false }
