package memory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// Fleet gives out the memory of several devices. It is safe for concurrent use.
type Fleet struct {
	managers []*Manager // by id, ascending

	mu   sync.Mutex
	home map[string]int // device of a tensor
}

// NewFleet returns a manager for each of the devices, which may differ in everything. budgets, by device, are the most
// that is taken of one; a device without has Options.BudgetBytes.
func NewFleet(d *driver.Driver, devices []int, o Options, budgets map[int]uint64) (*Fleet, error) {
	if len(devices) == 0 {
		return nil, errors.New("memory: a fleet of no devices: want at least 1")
	}
	f := &Fleet{home: make(map[string]int)}
	for _, id := range slices.Sorted(slices.Values(devices)) {
		if n := len(f.managers); n > 0 && f.managers[n-1].id == id {
			return nil, errors.Join(fmt.Errorf("memory: device %d is named twice: want each once", id), f.Close())
		}
		own := o
		if budget, found := budgets[id]; found {
			own.BudgetBytes = budget
		}
		m, err := NewManager(d, id, own)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.managers = append(f.managers, m)
	}
	return f, nil
}

// Manager returns the manager of a device, found by its number, not by its place in a list.
func (f *Fleet) Manager(device int) (*Manager, bool) {
	i, found := slices.BinarySearchFunc(f.managers, device, func(m *Manager, id int) int { return cmp.Compare(m.id, id) })
	if !found {
		return nil, false
	}
	return f.managers[i], true
}

// Managers lists the managers by device.
func (f *Fleet) Managers() []*Manager { return slices.Clone(f.managers) }

// Alloc allocates memory for a tensor: on the device that it had before, or if that has no room, on the one that
// Balance prefers, which is remembered then. The error is a *FleetError if no device has room.
func (f *Fleet) Alloc(tensor string, bytes uint64) (Allocation, error) {
	var order []*Manager
	home, known := f.Home(tensor)
	if m, found := f.Manager(home); known && found {
		order = append(order, m)
	}
	for _, m := range f.balance() {
		if !known || m.id != home {
			order = append(order, m)
		}
	}
	failed := &FleetError{Bytes: bytes}
	for _, m := range order {
		a, err := m.Alloc(Request{Bytes: bytes, Name: tensor})
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.home[tensor] = m.id
			return a, nil
		}
		failed.Devices = append(failed.Devices, err)
	}
	return Allocation{}, failed
}

// Home is the device on which a tensor was allocated last.
func (f *Fleet) Home(tensor string) (device int, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	device, known = f.home[tensor]
	return device, known
}

// Free gives an allocation of any of the devices back.
func (f *Fleet) Free(a Allocation) error {
	m, found := f.Manager(a.Device)
	if !found {
		return fmt.Errorf("%w: device %d is not of the fleet", ErrForeign, a.Device)
	}
	return m.Free(a)
}

// Balance returns the device that should hold so many bytes: the one with most of its budget left, then the one that is
// used least, then the first. If none has room, the error names what each has left.
func (f *Fleet) Balance(bytes uint64) (device int, err error) {
	order := f.balance()
	if len(order) > 0 && order[0].left() >= bytes {
		return order[0].id, nil
	}
	failed := &FleetError{Bytes: bytes}
	for _, m := range f.managers {
		failed.Devices = append(failed.Devices, fmt.Errorf("device %d has %d left", m.id, m.left()))
	}
	return 0, failed
}

// balance lists the managers, the preferred one first.
func (f *Fleet) balance() []*Manager {
	type room struct {
		m     *Manager
		left  uint64
		share float64
	}
	var rooms []room
	for _, m := range f.managers {
		left := m.left()
		rooms = append(rooms, room{m, left, 1 - ratio(left, m.usable)})
	}
	slices.SortStableFunc(rooms, func(a, b room) int {
		return cmp.Or(cmp.Compare(b.left, a.left), cmp.Compare(a.share, b.share), cmp.Compare(a.m.id, b.m.id))
	})
	var order []*Manager
	for _, r := range rooms {
		order = append(order, r.m)
	}
	return order
}

// left is how much can still be allocated: of the budget, and as far as is known of what is available. What pools hold
// without using it counts as available.
func (m *Manager) left() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.device.Lost() != nil {
		return 0
	}
	now, _ := m.told(m.record.read()) // stale is better than nothing here: the allocation asks again
	return min(m.usable-m.allocated, m.constants.Available(now.Memory)+m.taken-min(m.taken, m.allocated))
}

// Stats returns the state of all devices.
func (f *Fleet) Stats() []Stats {
	var all []Stats
	for _, m := range f.managers {
		all = append(all, m.Stats())
	}
	return all
}

// Workspaces returns the workspace of a matmul on every device that has room for one. The error is a *FleetError if none
// has.
func (f *Fleet) Workspaces(d Demand) ([]Workspace, error) {
	var all []Workspace
	failed := &FleetError{}
	for _, m := range f.managers {
		w, err := m.Workspace(d)
		if err != nil {
			failed.Devices = append(failed.Devices, err)
			continue
		}
		all = append(all, w)
	}
	if len(all) == 0 {
		return nil, failed
	}
	return all, nil
}

// Close closes all managers and tells what was not freed.
func (f *Fleet) Close() error {
	var errs []error
	for _, m := range f.managers {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
