package driver

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// object is something that lives in the context of a device and must be released there.
type object struct {
	device  *Device
	serial  uint64 // of its making
	op      string // the function that releases it
	release func() Result
	open    atomic.Bool
}

// hold notes a new object, which Device.Close closes if nobody else does.
func (d *Device) hold(op string, release func() Result) *object {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made++
	o := &object{device: d, serial: d.made, op: op, release: release}
	o.open.Store(true)
	d.live[o] = struct{}{}
	return o
}

// Close releases the object. A second Close, or one after the device was reset, does nothing.
func (o *object) Close() error {
	if !o.open.CompareAndSwap(true, false) {
		return nil
	}
	o.device.mu.Lock()
	delete(o.device.live, o)
	o.device.mu.Unlock()
	if o.device.Lost() != nil {
		return nil // gone already, and the driver would only repeat the error
	}
	return o.device.do(o.op, o.release)
}

// usable fails if the object is closed: the driver must not see its handle again.
func (o *object) usable(op string) error {
	if o.device.Lost() == nil && !o.open.Load() {
		return fmt.Errorf("driver: %s on %s: %w", op, o.device, ErrClosed)
	}
	return nil
}

// enter makes the context of the object current on the thread and locks it, unless the object is closed.
func (o *object) enter(op string) error {
	if err := o.usable(op); err != nil {
		return err
	}
	return o.device.enter()
}

// doWith is do for a function that takes another object too.
func (o *object) doWith(other *object, op string, f func() Result) error {
	if err := other.usable(op); err != nil {
		return err
	}
	return o.do(op, f)
}

// do runs one function of the table on the object.
func (o *object) do(op string, f func() Result) error {
	if err := o.enter(op); err != nil {
		return err
	}
	defer runtime.UnlockOSThread()
	return o.device.Check(op, f())
}
