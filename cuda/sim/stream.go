package sim

import (
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// stream is a queue of work. What is submitted is done at once as far as memory goes; its time is that of a queue.
type stream struct {
	ctx         *context
	nonBlocking bool
	busy        time.Duration // until when
	capture     *graph        // being recorded; nil: none
}

func (s *stream) owner() *context { return s.ctx }

// work is something that a device does.
type work struct {
	engine  int
	latency time.Duration // before it, in a stream
	// run does it, and returns how long it takes and the fault that it ends in.
	run func() (time.Duration, driver.Result)
}

// submit queues work, or records it. As with the real driver, a fault shows in later calls.
func (s *stream) submit(w work) driver.Result {
	if s.capture != nil {
		s.capture.nodes = append(s.capture.nodes, w)
		return driver.Success
	}
	if s == s.ctx.legacy && s.ctx.entangled() {
		s.ctx.spoil()
		return captureImplicit
	}
	s.meet()
	took, fault := w.run()
	s.pass(w.engine, w.latency+took)
	if fault != driver.Success {
		s.ctx.lost = fault
	}
	return driver.Success
}

// meet lets what is on its way by the default stream arrive, for which all but the streams that say otherwise wait.
func (s *stream) meet() {
	if !s.nonBlocking {
		s.ctx.arrive()
	}
}

// pass lets an engine be busy for the stream: from when host, stream and engine are ready, and, as legacy streams ask
// for, not beside the default stream.
func (s *stream) pass(engine int, took time.Duration) {
	d := s.ctx.device
	start := max(d.machine.now, s.busy, d.engines[engine])
	if s == s.ctx.legacy {
		for other := range s.ctx.streams {
			if !other.nonBlocking {
				start = max(start, other.busy)
			}
		}
	} else if !s.nonBlocking {
		start = max(start, s.ctx.legacy.busy)
	}
	s.busy = start + took
	d.engines[engine] = s.busy
}

// stream runs a function of the driver on a stream of the current context.
func (m *Machine) stream(name string, cost time.Duration, handle driver.StreamHandle, body func(c *context, s *stream) driver.Result) driver.Result {
	return m.within(name, cost, func(c *context) driver.Result {
		s := c.stream(handle)
		if s == nil {
			return driver.InvalidHandle
		}
		return body(c, s)
	})
}

// stream is the stream of a handle, nil if there is none in this context.
func (c *context) stream(handle driver.StreamHandle) *stream {
	if handle == 0 {
		return c.legacy
	}
	s, found := object[*stream](c.device.machine, uintptr(handle))
	if !found || s.ctx != c {
		return nil
	}
	return s
}

func (m *Machine) streamCreate(handle *driver.StreamHandle, flags uint32) driver.Result {
	return m.within("StreamCreate", submitTime, func(c *context) driver.Result {
		if handle == nil || flags > 1 {
			return driver.InvalidValue
		}
		s := &stream{ctx: c, nonBlocking: flags == 1}
		c.streams[s] = true
		return put(handle, driver.StreamHandle(m.give(s)))
	})
}

func (m *Machine) streamDestroy(handle driver.StreamHandle) driver.Result {
	return m.stream("StreamDestroy", submitTime, handle, func(c *context, s *stream) driver.Result {
		if s == c.legacy {
			return driver.InvalidHandle
		}
		delete(c.streams, s)
		delete(m.handles, uintptr(handle))
		return driver.Success
	})
}

func (m *Machine) streamSynchronize(handle driver.StreamHandle) driver.Result {
	return m.stream("StreamSynchronize", callTime, handle, func(c *context, s *stream) driver.Result {
		if s.capture != nil || c.forbids() {
			return c.spoil()
		}
		if s == c.legacy {
			c.arrive()
		}
		m.now = max(m.now, s.busy)
		c.device.pool.trim(c.device.pool.threshold)
		return c.lost
	})
}

func (m *Machine) streamQuery(handle driver.StreamHandle) driver.Result {
	return m.stream("StreamQuery", submitTime, handle, func(c *context, s *stream) driver.Result {
		switch {
		case s.capture != nil || c.forbids():
			return c.spoil()
		case s.busy > m.now:
			return driver.NotReady
		}
		return driver.Success
	})
}

func (m *Machine) streamWaitEvent(handle driver.StreamHandle, e driver.EventHandle, flags uint32) driver.Result {
	return m.stream("StreamWaitEvent", submitTime, handle, func(c *context, s *stream) driver.Result {
		ev, found := object[*event](m, uintptr(e))
		switch {
		case !found:
			return driver.InvalidHandle
		case flags != 0:
			return driver.InvalidValue
		case s.capture != nil:
			return c.spoil()
		}
		s.busy = max(s.busy, ev.at)
		return driver.Success
	})
}
