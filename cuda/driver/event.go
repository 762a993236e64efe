package driver

import "time"

// Event is a point in a stream's work.
type Event struct {
	*object
	handle EventHandle
}

// eventDisableTiming is CU_EVENT_DISABLE_TIMING.
const eventDisableTiming = 2

// NewEvent makes an event that knows when it happened, to half a microsecond or so.
func (d *Device) NewEvent() (*Event, error) { return d.newEvent(0) }

// NewFence makes an event that only tells whether it happened, which costs the device less.
func (d *Device) NewFence() (*Event, error) { return d.newEvent(eventDisableTiming) }

func (d *Device) newEvent(flags uint32) (*Event, error) {
	e := new(Event)
	if err := d.do("cuEventCreate", func() Result { return d.t.EventCreate(&e.handle, flags) }); err != nil {
		return nil, err
	}
	e.object = d.hold("cuEventDestroy", func() Result { return d.t.EventDestroy(e.handle) })
	return e, nil
}

// Handle is the event for the functions of the table.
func (e *Event) Handle() EventHandle { return e.handle }

// Synchronize waits for the event.
func (e *Event) Synchronize() error {
	return e.do("cuEventSynchronize", func() Result { return e.device.t.EventSynchronize(e.handle) })
}

// Done reports whether the event happened.
func (e *Event) Done() (bool, error) {
	return e.ready("cuEventQuery", func() Result { return e.device.t.EventQuery(e.handle) })
}

// Since returns the time on the device from start to e, both of which must have happened.
func (e *Event) Since(start *Event) (time.Duration, error) {
	var ms float32
	err := e.doWith(start.object, "cuEventElapsedTime", func() Result { return e.device.t.EventElapsedTime(&ms, start.handle, e.handle) })
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}
