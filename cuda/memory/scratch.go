package memory

import (
	"sync"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// Workspace returns the workspace that d would get now: by what is available on the device, what is free in the pools,
// and what is left of the budget.
func (m *Manager) Workspace(d Demand) (Workspace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workspace(d, 0)
}

// workspace counts own bytes, which the asker has already, as free.
func (m *Manager) workspace(d Demand, own uint64) (Workspace, error) {
	now, err := m.told(m.record.read())
	if err != nil {
		return Workspace{}, err
	}
	var idle uint64
	for _, p := range m.pools {
		idle += p.source.releasable()
	}
	budget := m.usable - m.allocated + own + share(now.TotalBytes, m.constants.ReserveShare)
	now.FreeBytes = min(now.TotalBytes, now.FreeBytes+idle+own, budget)
	w, err := m.constants.Workspace(d, m.id, now.Memory)
	m.log.Debug().Int("device", m.id).Uint64("workspace_bytes", w.Bytes).Int("batch", w.Batch).
		Uint64("available_bytes", m.constants.Available(now.Memory)).Str("quantization", string(d.Quantization)).Err(err).Msg("workspace")
	return w, err
}

// Scratch is a workspace that is held on a device, and follows the memory that there is: under pressure it shrinks, and
// its batch with it; later it grows again, in steps. It is safe for concurrent use.
type Scratch struct {
	m      *Manager
	demand Demand
	full   int // the batch that it began with, beyond which it does not grow

	using   sync.RWMutex // work holds it for reading
	space   Workspace
	memory  Allocation // none for a workspace of no bytes or on the CPU
	changed time.Time
	reason  string
	closed  bool
}

// Scratch allocates the workspace of a matmul. Manager.Check and Manager.Watch adjust it from then on.
func (m *Manager) Scratch(d Demand) (*Scratch, error) {
	w, err := m.Workspace(d)
	if err != nil {
		return nil, err
	}
	s := &Scratch{m: m, demand: d, full: w.Batch}
	if err := s.allocate(w); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scratches[s] = true
	return s, nil
}

// Use runs work in the workspace, which keeps its size meanwhile: what f starts on the device must have ended when f
// returns. Where the workspace had to go to the CPU, p is 0 and w.Limit is "no cuda".
func (s *Scratch) Use(f func(p driver.Ptr, w Workspace) error) error {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return f(s.memory.Ptr, s.space)
}

// Now returns the workspace, and why it is on the CPU; "" = it is not.
func (s *Scratch) Now() (Workspace, string) {
	s.using.RLock()
	defer s.using.RUnlock()
	return s.space, s.reason
}

// Adjust looks at what is available, waits until running work has ended, and makes the workspace smaller if it has to
// be, or larger again if it may be.
func (s *Scratch) Adjust() {
	s.using.Lock()
	defer s.using.Unlock()
	if s.closed || s.m.device.Lost() != nil {
		return
	}
	s.m.mu.Lock()
	now, err := s.m.told(s.m.record.read())
	level := s.m.level
	s.m.mu.Unlock()
	if err != nil {
		return // what is not known is no reason to change
	}
	available := s.m.constants.Available(now.Memory)
	switch {
	case s.reason == "" && (available < s.space.Bytes || level >= Shrink):
		s.m.log.Warn().Int("device", s.m.id).Uint64("available_bytes", available).Uint64("workspace_bytes", s.space.Bytes).
			Msg("memory pressure on a workspace")
		s.m.count(&s.m.counts.PressureEvents)
		s.shrink()
	case s.space.Batch < s.full || s.reason != "":
		if level == Calm && s.m.now().Sub(s.changed) >= s.m.constants.GrowthHold {
			s.grow()
		}
	}
}

// shrink takes the workspace for what there is now. If not even a batch of 1 has room, the work goes to the CPU.
func (s *Scratch) shrink() {
	s.m.mu.Lock()
	w, err := s.m.workspace(s.demand, s.space.Bytes)
	s.m.mu.Unlock()
	if err != nil {
		w = s.single()
	}
	if w.Bytes >= s.space.Bytes {
		return
	}
	s.release()
	err = s.allocate(w)
	if err != nil && w.Batch > 1 {
		err = s.allocate(s.single())
	}
	if err != nil {
		s.space, s.reason = s.m.constants.WithoutCUDA(s.demand), err.Error()
		s.changed = s.m.now()
		s.m.count(&s.m.counts.Fallbacks)
		s.m.log.Warn().Int("device", s.m.id).Err(err).Msg("a workspace goes to the CPU")
		return
	}
	s.m.count(&s.m.counts.Shrinks)
}

// single is the workspace of a batch of 1, as large as it is now at most.
func (s *Scratch) single() Workspace {
	w := s.space
	w.Batch, w.Limit = 1, "memory"
	w.Bytes = w.FixedBytes + w.SampleBytes
	if s.demand.Stated == nil {
		w.Bytes = max(w.Bytes, s.m.constants.MinWorkspaceBytes)
	}
	return w
}

// grow makes the batch larger by one step, towards that of the beginning. The old workspace stays until the new one is
// there.
func (s *Scratch) grow() {
	d := s.demand
	batch := s.space.Batch
	if s.reason != "" {
		batch = 1
	}
	d.MaxBatch = min(s.full, batch*s.m.constants.GrowthFactor)
	w, err := s.m.Workspace(d)
	if err != nil || s.reason == "" && w.Batch <= s.space.Batch {
		return
	}
	old := s.memory
	if err := s.allocate(w); err != nil {
		s.changed = s.m.now() // not again at once
		return
	}
	if old != (Allocation{}) {
		s.m.warn(s.m.Free(old))
	}
	s.m.count(&s.m.counts.Growths)
}

// allocate makes w the workspace.
func (s *Scratch) allocate(w Workspace) error {
	var memory Allocation
	if w.Bytes > 0 {
		var err error
		if memory, err = s.m.Alloc(Request{Bytes: w.Bytes, Name: "workspace"}); err != nil {
			return err
		}
	}
	s.space, s.memory, s.reason, s.changed = w, memory, "", s.m.now()
	return nil
}

// release gives the memory back, to the driver where that is possible.
func (s *Scratch) release() {
	if s.memory == (Allocation{}) {
		return
	}
	s.m.warn(s.m.Free(s.memory))
	s.m.warn(s.m.Trim(true))
	s.memory = Allocation{}
}

// Close frees the workspace, when running work has ended.
func (s *Scratch) Close() error {
	s.using.Lock()
	defer s.using.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.m.mu.Lock()
	delete(s.m.scratches, s)
	s.m.mu.Unlock()
	if s.memory == (Allocation{}) {
		return nil
	}
	return s.m.Free(s.memory)
}

// count adds 1 to a counter.
func (m *Manager) count(counter *uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*counter++
}
