package driver

import (
	"errors"
	"runtime"
)

// Graph is recorded work, ready to be launched as one.
type Graph struct {
	*object
	handle GraphExecHandle
}

// captureThreadLocal is CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads of the process may go on allocating.
const captureThreadLocal = 1

// Capture records what f queues on the stream, instead of running it. f must not wait for the device or allocate. What
// the work uses, modules and memory, must outlive the graph.
func (s *Stream) Capture(f func() error) (*Graph, error) {
	if err := s.enter("cuStreamBeginCapture"); err != nil {
		return nil, err
	}
	defer runtime.UnlockOSThread()
	d := s.device
	if err := d.Check("cuStreamBeginCapture", d.t.StreamBeginCapture(s.handle, captureThreadLocal)); err != nil {
		return nil, err
	}
	err := f()
	var plan GraphHandle
	end := d.t.StreamEndCapture(s.handle, &plan)
	if plan != 0 {
		defer d.t.GraphDestroy(plan)
	}
	if err = errors.Join(err, d.Check("cuStreamEndCapture", end)); err != nil {
		return nil, err
	}
	g := new(Graph)
	if err := d.Check("cuGraphInstantiate", d.t.GraphInstantiate(&g.handle, plan, 0)); err != nil {
		return nil, err
	}
	g.object = d.hold("cuGraphExecDestroy", func() Result { return d.t.GraphExecDestroy(g.handle) })
	return g, nil
}

// Launch queues the graph on a stream of its device.
func (g *Graph) Launch(s *Stream) error {
	return g.doWith(s.object, "cuGraphLaunch", func() Result { return g.device.t.GraphLaunch(g.handle, s.handle) })
}
