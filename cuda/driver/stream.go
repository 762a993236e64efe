package driver

// Stream is a queue of work that runs in order. Streams wait neither for each other nor for the default stream.
type Stream struct {
	*object
	handle StreamHandle
}

// streamNonBlocking is CU_STREAM_NON_BLOCKING.
const streamNonBlocking = 1

// NewStream makes a stream on the device.
func (d *Device) NewStream() (*Stream, error) {
	s := new(Stream)
	if err := d.do("cuStreamCreate", func() Result { return d.t.StreamCreate(&s.handle, streamNonBlocking) }); err != nil {
		return nil, err
	}
	s.object = d.hold("cuStreamDestroy", func() Result { return d.t.StreamDestroy(s.handle) })
	return s, nil
}

// Handle is the stream for the functions of the table.
func (s *Stream) Handle() StreamHandle { return s.handle }

// Synchronize waits for all work queued so far.
func (s *Stream) Synchronize() error {
	return s.do("cuStreamSynchronize", func() Result { return s.device.t.StreamSynchronize(s.handle) })
}

// Done reports whether all work queued so far has ended.
func (s *Stream) Done() (bool, error) {
	return s.ready("cuStreamQuery", func() Result { return s.device.t.StreamQuery(s.handle) })
}

// ready is do for a question that the driver answers with NotReady.
func (o *object) ready(op string, f func() Result) (bool, error) {
	done := true
	err := o.do(op, func() Result {
		r := f()
		if r == NotReady {
			done, r = false, Success
		}
		return r
	})
	return done && err == nil, err
}

// Wait lets what is queued from now on start only after the event.
func (s *Stream) Wait(e *Event) error {
	return s.doWith(e.object, "cuStreamWaitEvent", func() Result { return s.device.t.StreamWaitEvent(s.handle, e.handle, 0) })
}

// Record lets the event happen when all work queued so far has ended.
func (s *Stream) Record(e *Event) error {
	return s.doWith(e.object, "cuEventRecord", func() Result { return s.device.t.EventRecord(e.handle, s.handle) })
}
