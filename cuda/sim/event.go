package sim

import (
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// event is a moment in a stream.
type event struct {
	ctx      *context
	untimed  bool
	recorded bool
	at       time.Duration
}

func (e *event) owner() *context { return e.ctx }

// Flags of EventCreate.
const (
	eventBlockingSync  = 1
	eventDisableTiming = 2
)

func (m *Machine) eventCreate(handle *driver.EventHandle, flags uint32) driver.Result {
	return m.within("EventCreate", submitTime, func(c *context) driver.Result {
		if handle == nil || flags&^(eventBlockingSync|eventDisableTiming) != 0 {
			return driver.InvalidValue
		}
		return put(handle, driver.EventHandle(m.give(&event{ctx: c, untimed: flags&eventDisableTiming != 0})))
	})
}

// event runs a function of the driver on an event.
func (m *Machine) event(name string, handle driver.EventHandle, body func(c *context, e *event) driver.Result) driver.Result {
	return m.within(name, submitTime, func(c *context) driver.Result {
		e, found := object[*event](m, uintptr(handle))
		if !found {
			return driver.InvalidHandle
		}
		return body(c, e)
	})
}

func (m *Machine) eventDestroy(handle driver.EventHandle) driver.Result {
	return m.event("EventDestroy", handle, func(c *context, e *event) driver.Result {
		delete(m.handles, uintptr(handle))
		return driver.Success
	})
}

// eventRecord refuses a stream that is recorded: the driver would take the event as a node of the graph, which this
// simulation does not have.
func (m *Machine) eventRecord(handle driver.EventHandle, on driver.StreamHandle) driver.Result {
	return m.event("EventRecord", handle, func(c *context, e *event) driver.Result {
		s := c.stream(on)
		switch {
		case s == nil || e.ctx != c:
			return driver.InvalidHandle
		case s.capture != nil:
			return c.spoil()
		}
		e.at, e.recorded = max(m.now, s.busy), true
		if s == c.legacy {
			c.arrive()
			e.at = max(m.now, c.busy())
		}
		return driver.Success
	})
}

func (m *Machine) eventQuery(handle driver.EventHandle) driver.Result {
	return m.event("EventQuery", handle, func(c *context, e *event) driver.Result {
		switch {
		case c.forbids():
			return c.spoil()
		case e.at > m.now:
			return driver.NotReady
		}
		return driver.Success
	})
}

func (m *Machine) eventSynchronize(handle driver.EventHandle) driver.Result {
	return m.event("EventSynchronize", handle, func(c *context, e *event) driver.Result {
		if c.forbids() {
			return c.spoil()
		}
		m.now = max(m.now, e.at)
		return c.lost
	})
}

func (m *Machine) eventElapsedTime(milliseconds *float32, start, end driver.EventHandle) driver.Result {
	return m.event("EventElapsedTime", start, func(c *context, a *event) driver.Result {
		b, found := object[*event](m, uintptr(end))
		switch {
		case milliseconds == nil:
			return driver.InvalidValue
		case !found || a.untimed || b.untimed || !a.recorded || !b.recorded:
			return driver.InvalidHandle
		case a.at > m.now || b.at > m.now:
			return driver.NotReady
		}
		elapsed := b.at.Round(eventStep) - a.at.Round(eventStep)
		return put(milliseconds, float32(elapsed.Seconds()*1000))
	})
}
