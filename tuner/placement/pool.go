package placement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Pool loads models onto devices, each once, and shares them. T is what a constructor makes of a model. It is safe for
// concurrent use.
type Pool[T any] struct {
	rules   Rules
	devices []Device
	matrix  *Matrix
	ledger  Ledger

	mu     sync.Mutex
	loaded map[string]*load[T]
}

// load is a model that is loaded or being loaded.
type load[T any] struct {
	done   chan struct{} // closed when value or err is there
	value  T
	err    error
	device Device
	bytes  uint64
	users  int
}

// NewPool returns an empty pool over devices.
func NewPool[T any](r Rules, devices []Device, m *Matrix) *Pool[T] {
	return &Pool[T]{rules: r, devices: devices, matrix: m, loaded: make(map[string]*load[T])}
}

// Lease is one user's hold on a model of a pool.
type Lease[T any] struct {
	Value     T
	Device    Device
	Fallbacks []string // why it is not on the device that was asked for; of whom it was loaded for
	pool      *Pool[T]
	model     string
	load      *load[T]
	once      sync.Once
}

// Release gives the model up, and reports whether that was its last user: the caller then closes Value. The memory counts
// as free from then on. A second Release does nothing.
func (l *Lease[T]) Release() (last bool) {
	l.once.Do(func() { last = l.pool.drop(l.model, l.load) })
	return last
}

// Load returns the model called w.Model, which construct makes on the device that is chosen for it: the one that w prefers
// or, without a preference, by family and need. Whoever asks for a loaded model shares it; whoever asks while it is being
// loaded waits. A failed construct is not kept. An error is construct's, the context's, or ErrNoDevice.
func (p *Pool[T]) Load(ctx context.Context, w Want, construct func(context.Context, Device) (T, error)) (*Lease[T], error) {
	p.mu.Lock()
	entry, known := p.loaded[w.Model]
	var fallbacks []string
	if !known {
		var err error
		entry = &load[T]{done: make(chan struct{})}
		if fallbacks, err = p.claim(entry, w); err != nil {
			p.mu.Unlock()
			return nil, err
		}
		p.loaded[w.Model] = entry
	}
	entry.users++
	p.mu.Unlock()
	if !known {
		p.fill(ctx, w.Model, entry, construct)
	}
	lease := &Lease[T]{Device: entry.device, Fallbacks: fallbacks, pool: p, model: w.Model, load: entry}
	select {
	case <-entry.done:
	case <-ctx.Done():
		if p.leave(entry) {
			return nil, fmt.Errorf("placement: load %s: %w", w.Model, ctx.Err())
		}
	}
	if entry.err != nil {
		lease.Release()
		return nil, fmt.Errorf("placement: load %s on %s: %w", w.Model, entry.device.ID, entry.err)
	}
	lease.Value = entry.value
	return lease, nil
}

// errPanicked is what those who wait for a model get whose constructor panicked.
var errPanicked = errors.New("its constructor panicked")

// fill constructs a model, and forgets one that failed, so that the next who asks tries again.
func (p *Pool[T]) fill(ctx context.Context, name string, entry *load[T], construct func(context.Context, Device) (T, error)) {
	entry.err = errPanicked
	defer func() {
		if entry.err != nil {
			p.mu.Lock()
			delete(p.loaded, name)
			p.mu.Unlock()
		}
		close(entry.done)
		if entry.err == errPanicked {
			p.drop(name, entry) // the caller's hold: it gets no lease to release
		}
	}()
	entry.value, entry.err = construct(ctx, entry.device)
}

// claim takes the memory for a model on the device that is best for it now.
func (p *Pool[T]) claim(entry *load[T], w Want) (fallbacks []string, err error) {
	if w.Prefer == nil {
		now := make([]Device, len(p.devices))
		for i, d := range p.devices {
			now[i] = d
			now[i].RoomBytes -= p.ledger.Used(d)
		}
		plan, err := p.rules.Plan([]Want{w}, now, p.matrix)
		if err != nil {
			return nil, err
		}
		if len(plan.Placements) == 0 {
			return nil, fmt.Errorf("placement: load %s: %w: %s", w.Model, ErrNoDevice, plan.Unplaced[0].Reason)
		}
		place, err := ParsePlace(plan.Placements[0].Device)
		if err != nil {
			return nil, err
		}
		w.Prefer = &place
	}
	kinds := []Kind{w.Prefer.Kind}
	for _, k := range p.matrix.Recommend(w.Family, KindsOf(p.devices)) {
		if k != w.Prefer.Kind && (len(w.Kinds) == 0 || slices.Contains(w.Kinds, k)) {
			kinds = append(kinds, k)
		}
	}
	allowed := slices.DeleteFunc(slices.Clone(p.devices), func(d Device) bool { return len(w.Kinds) > 0 && !slices.Contains(w.Kinds, d.Kind) })
	entry.device, fallbacks, err = p.ledger.selectFor(allowed, kinds, w.Prefer.Index, w.Need.on)
	entry.bytes = w.Need.on(entry.device.Kind)
	return fallbacks, err
}

// leave gives up waiting for a model that is not there yet; whoever loads it still holds it. False is that it is there by now:
// then the caller holds it, and may be the last who could close it.
func (p *Pool[T]) leave(entry *load[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-entry.done:
		return false
	default:
		entry.users--
		return true
	}
}

// drop takes one user off a model, and the model out of the pool with its last one.
func (p *Pool[T]) drop(name string, entry *load[T]) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry.users--; entry.users > 0 {
		return false
	}
	p.ledger.Return(entry.device, entry.bytes)
	if p.loaded[name] == entry {
		delete(p.loaded, name)
	}
	return true
}
