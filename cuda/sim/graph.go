package sim

import (
	"slices"
	"syscall"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// graph is recorded work.
type graph struct {
	ctx    *context
	nodes  []work
	mode   uint32
	thread int
	spoilt bool
}

// Modes of StreamBeginCapture: who must not call what cannot be recorded.
const (
	captureGlobal      = 0 // nobody
	captureThreadLocal = 1 // the thread that records
	captureRelaxed     = 2
)

// forbids says whether a recording forbids an unsafe call to the calling thread.
func (g *graph) forbids() bool {
	return g.mode == captureGlobal || g.mode == captureThreadLocal && g.thread == syscall.Gettid()
}

// graphExec is work that can be launched.
type graphExec struct {
	ctx   *context
	nodes []work
	took  []time.Duration // by the first launch; nil before
}

func (g *graph) owner() *context     { return g.ctx }
func (g *graphExec) owner() *context { return g.ctx }

func (m *Machine) streamBeginCapture(handle driver.StreamHandle, mode uint32) driver.Result {
	return m.stream("StreamBeginCapture", submitTime, handle, func(c *context, s *stream) driver.Result {
		switch {
		case s == c.legacy:
			return driver.CaptureUnsupported
		case mode > captureRelaxed || s.capture != nil:
			return driver.InvalidValue
		}
		s.capture = &graph{ctx: c, mode: mode, thread: syscall.Gettid()}
		return driver.Success
	})
}

func (m *Machine) streamEndCapture(handle driver.StreamHandle, out *driver.GraphHandle) driver.Result {
	return m.stream("StreamEndCapture", submitTime, handle, func(c *context, s *stream) driver.Result {
		if s.capture == nil || out == nil {
			return driver.InvalidValue
		}
		g := s.capture
		if g.mode != captureRelaxed && g.thread != syscall.Gettid() {
			return captureWrongThread
		}
		s.capture = nil
		if g.spoilt {
			*out = 0
			return captureInvalidated
		}
		return put(out, driver.GraphHandle(m.give(g)))
	})
}

func (m *Machine) graphInstantiate(handle *driver.GraphExecHandle, of driver.GraphHandle, flags uint64) driver.Result {
	return m.within("GraphInstantiate", allocTime, func(c *context) driver.Result {
		g, found := object[*graph](m, uintptr(of))
		switch {
		case !found:
			return driver.InvalidHandle
		case handle == nil:
			return driver.InvalidValue
		}
		return put(handle, driver.GraphExecHandle(m.give(&graphExec{ctx: c, nodes: slices.Clone(g.nodes)})))
	})
}

func (m *Machine) graphLaunch(handle driver.GraphExecHandle, on driver.StreamHandle) driver.Result {
	return m.stream("GraphLaunch", graphTime, on, func(c *context, s *stream) driver.Result {
		g, found := object[*graphExec](m, uintptr(handle))
		switch {
		case !found || g.ctx != c:
			return driver.InvalidHandle
		case s.capture != nil:
			return driver.NotSupported // the driver would make it a node; nothing here asks for that
		}
		s.meet()
		if g.took == nil || !m.replayOnce {
			g.took = nil
			for _, node := range g.nodes {
				took, fault := node.run()
				g.took = append(g.took, took)
				if fault != driver.Success {
					c.lost = fault
					break
				}
			}
		}
		for i, took := range g.took {
			s.pass(g.nodes[i].engine, min(nodeLatency, g.nodes[i].latency)+took)
		}
		return driver.Success
	})
}

func (m *Machine) graphExecDestroy(handle driver.GraphExecHandle) driver.Result {
	return m.within("GraphExecDestroy", submitTime, func(c *context) driver.Result {
		if _, found := object[*graphExec](m, uintptr(handle)); !found {
			return driver.InvalidHandle
		}
		delete(m.handles, uintptr(handle))
		return driver.Success
	})
}

func (m *Machine) graphDestroy(handle driver.GraphHandle) driver.Result {
	return m.within("GraphDestroy", submitTime, func(c *context) driver.Result {
		if _, found := object[*graph](m, uintptr(handle)); !found {
			return driver.InvalidHandle
		}
		delete(m.handles, uintptr(handle))
		return driver.Success
	})
}
