package memory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// Backing is where the medium pool has its memory from.
type Backing string

// The backings.
const (
	// BackingAuto takes pages where the device has virtual memory functions, and segments elsewhere.
	BackingAuto     Backing = ""
	BackingPages    Backing = "pages"
	BackingSegments Backing = "segments"
	// BackingDirect has no pools: every allocation is one of the driver.
	BackingDirect Backing = "direct"
)

// Options are how a manager works. The zero value is good.
type Options struct {
	Constants Constants // the zero value stands for Defaults
	Backing   Backing
	// BudgetBytes is the most that is taken of the device. If BudgetBytes is 0, only Constants.Usable limits it.
	BudgetBytes uint64
	// Query reads the memory of a device. If Query is nil, the driver is asked.
	Query func(device int) (gpu.Memory, error)
	// Pressure, if not nil, is told of each change of the level. It may free and allocate.
	Pressure func(Pressure)
	Log      *zerolog.Logger  // nil: silent
	Now      func() time.Time // nil: time.Now
}

// Request is what to allocate.
type Request struct {
	Bytes     uint64
	Alignment uint64 // a power of two, at most 2 MiB; if 0, that of the constants
	Name      string // for reports of what was not freed
}

// Allocation is memory on a device.
type Allocation struct {
	Ptr    driver.Ptr
	Bytes  uint64 // asked for, rounded up to the alignment
	Device int
	Owner  string // the pool, or "direct"

	serial uint64
}

// Manager gives out the memory of one device. It is safe for concurrent use.
type Manager struct {
	device     *driver.Device
	table      *driver.Table
	id         int
	total      uint64
	usable     uint64
	constants  Constants
	properties Properties
	log        zerolog.Logger
	now        func() time.Time
	notify     func(Pressure)

	mu        sync.Mutex
	record    record
	pools     []*pool
	pages     *pages // nil without
	spare     *spares
	live      map[driver.Ptr]*block
	serial    uint64
	pending   []pending
	allocated uint64 // bytes of live allocations, rounded up
	taken     uint64 // bytes taken from the driver, for pools and directly
	since     int64  // bytes taken, or given back, since the last record
	level     Level
	counts    Counts
	scratches map[*Scratch]bool
	closed    bool
}

// pending is an allocation that is freed as soon as an event has happened.
type pending struct {
	block *block
	event *driver.Event
}

// NewManager returns the manager of a device of the driver. It makes the device's context, which takes memory by itself.
func NewManager(d *driver.Driver, id int, o Options) (*Manager, error) {
	devices := d.Devices()
	if id < 0 || id >= len(devices) {
		return nil, &DeviceError{Device: id, Count: len(devices)}
	}
	if o.Constants == (Constants{}) {
		o.Constants = Defaults
	}
	if err := o.Constants.Validate(); err != nil {
		return nil, err
	}
	m := &Manager{
		device: devices[id], table: d.Table(), id: id, constants: o.Constants, properties: properties(devices[id]), notify: o.Pressure,
		now: time.Now, log: zerolog.Nop(), spare: new(spares), live: make(map[driver.Ptr]*block), scratches: make(map[*Scratch]bool),
	}
	if o.Now != nil {
		m.now = o.Now
	}
	if o.Log != nil {
		m.log = *o.Log
	}
	m.record.query, m.record.now = m.ask, m.now
	m.record.lifetime, m.record.deadline = m.constants.RecordLifetime, m.constants.QueryDeadline
	if o.Query != nil {
		m.record.query = func() (gpu.Memory, error) { return o.Query(id) }
	}
	// The context takes some hundred MB and, where the driver has to wake up, seconds: so it is made before the first
	// query, which has a deadline, and whose answer is believed for a while.
	if err := m.device.Do(func() error { return nil }); err != nil {
		return nil, &QueryError{Device: id, Err: err}
	}
	first, err := m.record.fresh()
	if err != nil {
		return nil, &QueryError{Device: id, Err: err}
	}
	m.total, m.usable = first.TotalBytes, m.constants.Usable(first.TotalBytes)
	if o.BudgetBytes > 0 {
		m.usable = min(m.usable, o.BudgetBytes)
	}
	if err := m.makePools(o.Backing); err != nil {
		return nil, err
	}
	m.log.Info().Int("device", id).Uint64("total_bytes", m.total).Uint64("usable_bytes", m.usable).
		Uint64("free_bytes", first.FreeBytes).Msg("memory manager")
	m.log.Info().Int("device", id).Str("name", m.properties.Name).Int("pools", len(m.pools)).Msg("memory pools")
	return m, nil
}

// ask reads the memory from the driver, in the context of the device.
func (m *Manager) ask() (gpu.Memory, error) {
	info, err := m.device.MemoryInfo()
	return gpu.Memory{TotalBytes: info.TotalBytes, FreeBytes: info.FreeBytes, At: m.now()}, err
}

func (m *Manager) makePools(b Backing) error {
	c := m.constants
	if b == BackingAuto {
		b = BackingSegments
		if v, known := m.device.Attribute(driver.VirtualMemorySupported); known && v != 0 && m.granularity() == page {
			b = BackingPages
		}
	}
	if b == BackingDirect {
		return nil
	}
	small := &pool{name: "small", upTo: c.SmallUpToBytes, least: c.SmallFromBytes}
	small.source = &segments{m: m, pool: small, size: c.SmallSegmentBytes}
	medium := &pool{name: "medium", upTo: c.MediumUpToBytes}
	large := &pool{name: "large", whole: true, waste: c.LargeWaste}
	large.source = &segments{m: m, pool: large}
	switch b {
	case BackingPages:
		if m.granularity() != page {
			return fmt.Errorf("memory: device %d has no pages of %d bytes: use backing %q", m.id, page, BackingSegments)
		}
		m.pages = &pages{m: m, pool: medium, handles: make(map[uint64]driver.MemHandle)}
		medium.source = m.pages
	case BackingSegments:
		medium.source = &segments{m: m, pool: medium, size: c.MediumSegmentBytes}
	default:
		return fmt.Errorf("memory: backing %q: want %q, %q, %q or none", b, BackingPages, BackingSegments, BackingDirect)
	}
	m.pools = []*pool{small, medium, large}
	for _, p := range m.pools {
		p.spare, p.counts.Name = m.spare, p.name
	}
	for range c.SmallBlocks + c.MediumBlocks + c.LargeBlocks {
		m.spare.put(new(block))
	}
	return nil
}

// granularity is that of physical memory; 0 if the device has no virtual memory functions.
func (m *Manager) granularity() uint64 {
	prop := driver.MemProp{Type: pinned, LocationType: onDevice, LocationID: int32(m.id)}
	var bytes uint64
	err := m.call("cuMemGetAllocationGranularity", func(t *driver.Table) driver.Result {
		if t.MemGetAllocationGranularity == nil || t.MemAddressReserve == nil || t.MemCreate == nil || t.MemMap == nil ||
			t.MemSetAccess == nil || t.MemUnmap == nil || t.MemRelease == nil || t.MemAddressFree == nil {
			return driver.NotSupported
		}
		return t.MemGetAllocationGranularity(&bytes, &prop, 0)
	})
	if err != nil {
		return 0
	}
	return bytes
}

// Device is the number of the device.
func (m *Manager) Device() int { return m.id }

// Properties are the facts about the device.
func (m *Manager) Properties() Properties { return m.properties }

// Usable is the manager's budget.
func (m *Manager) Usable() uint64 { return m.usable }

// Memory returns what the device has, as it was told within the lifetime of a record. The error is a *QueryError.
func (m *Manager) Memory() (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.told(m.record.read())
}

// Refresh asks anew.
func (m *Manager) Refresh() (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.told(m.record.fresh())
}

func (m *Manager) told(now gpu.Memory, err error) (Record, error) {
	if err != nil {
		return m.reckoned(), &QueryError{Device: m.id, Err: err}
	}
	m.since = 0
	return Record{Device: m.id, Memory: now, Basis: "probe"}, nil
}

// reckoned is what the device should have by the last record and what was taken since.
func (m *Manager) reckoned() Record {
	r := Record{Device: m.id, Memory: m.record.last, Basis: "estimate", Stale: m.record.trouble}
	r.FreeBytes = min(r.TotalBytes, below(r.FreeBytes, uint64(max(m.since, 0)))+uint64(max(-m.since, 0)))
	return r
}

// call runs a function of the driver in the device's context.
func (m *Manager) call(op string, f func(*driver.Table) driver.Result) error {
	return m.device.Do(func() error { return m.device.Check(op, f(m.table)) })
}

// warn tells of a failure that changes nothing for the caller.
func (m *Manager) warn(err error) {
	if err != nil {
		m.log.Warn().Int("device", m.id).Err(err).Msg("giving memory back")
	}
}

// Alloc allocates memory: from the first pool that fits and has room, else from the driver. If there is no room, it gives
// back what is free and tries once more. The error is an *OutOfMemoryError or *AllocationError where the device is to
// blame.
func (m *Manager) Alloc(r Request) (Allocation, error) {
	alignment := cmp.Or(r.Alignment, m.constants.AlignmentBytes)
	switch {
	case r.Bytes == 0:
		return Allocation{}, fmt.Errorf("memory: allocation of 0 bytes %q: want at least 1", r.Name)
	case !powerOfTwo(alignment) || alignment > page:
		return Allocation{}, fmt.Errorf("memory: alignment %d: want a power of two, at most %d", alignment, page)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Allocation{}, ErrClosed
	}
	bytes := roundUp(r.Bytes, alignment)
	if bytes < r.Bytes || bytes > m.usable-m.allocated {
		m.counts.OutOfMemory++
		return Allocation{}, m.outOfMemory(max(bytes, r.Bytes), "the budget ends there", nil)
	}
	b, err := m.try(r.Bytes, bytes, alignment)
	if errors.Is(err, driver.ErrOutOfMemory) {
		m.counts.Retries++
		m.warn(m.device.Synchronize())
		m.warn(m.trim(true))
		b, err = m.try(r.Bytes, bytes, alignment)
	}
	if err != nil {
		return Allocation{}, m.failed(bytes, err)
	}
	return m.hand(b, r.Name, alignment), nil
}

// try allocates a block.
func (m *Manager) try(wanted, bytes, alignment uint64) (*block, error) {
	if len(m.pending) > manyPending {
		m.collect()
	}
	for _, p := range m.pools {
		if !p.fits(bytes) {
			continue
		}
		if len(m.pending) > 0 && p.find(p.room(bytes, alignment)) == nil {
			m.collect()
		}
		b, err := p.alloc(wanted, bytes, alignment)
		if err == nil || m.device.Lost() != nil {
			return b, err
		}
	}
	if m.pools != nil {
		m.log.Debug().Int("device", m.id).Uint64("bytes", bytes).Msg("no pool has room: direct allocation")
	}
	size := roundUp(bytes, grain) + max(alignment, grain) - grain
	p, err := m.take(size)
	if err != nil {
		return nil, err
	}
	m.counts.Direct++
	b := m.spare.get()
	*b = block{addr: uint64(p), size: size, state: used, wanted: wanted, bytes: bytes}
	return b, nil
}

// hand gives a block out.
func (m *Manager) hand(b *block, name string, alignment uint64) Allocation {
	m.serial++
	b.serial, b.request = m.serial, name
	a := Allocation{Ptr: driver.Ptr(roundUp(b.addr, alignment)), Bytes: b.bytes, Device: m.id, Owner: "direct", serial: m.serial}
	if b.pool != nil {
		a.Owner = b.pool.name
	}
	m.live[a.Ptr] = b
	m.allocated += b.bytes
	m.counts.Allocations++
	if m.allocated > m.counts.PeakBytes {
		m.counts.PeakBytes, m.counts.TakenAtPeakBytes = m.allocated, m.taken
	}
	m.log.Debug().Int("device", m.id).Uint64("bytes", b.bytes).Uint64("allocated_bytes", m.allocated).Msg("allocated")
	return a
}

// Free gives an allocation back. What the device still does with it must have ended: see FreeAfter.
func (m *Manager) Free(a Allocation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.claim(a)
	if err != nil {
		return err
	}
	m.putBack(b)
	return nil
}

// FreeAfter gives an allocation back when an event has happened, which was recorded behind its last use. If the event is
// closed before, that is when all work of the device has ended.
func (m *Manager) FreeAfter(a Allocation, e *driver.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.claim(a)
	if err != nil {
		return err
	}
	m.pending = append(m.pending, pending{b, e})
	return nil
}

// manyPending is from when on every allocation asks for events that have happened; fewer wait until memory is short.
const manyPending = 64

// collect frees what waits for events that have happened, in the order in which it was given back.
func (m *Manager) collect() {
	waiting := m.pending[:0]
	for _, p := range m.pending {
		done, err := p.event.Done()
		if errors.Is(err, driver.ErrClosed) {
			done = m.device.Synchronize() == nil
		}
		if done {
			m.putBack(p.block)
		} else {
			waiting = append(waiting, p)
		}
	}
	m.pending = waiting
}

// claim takes an allocation out of those that live.
func (m *Manager) claim(a Allocation) (*block, error) {
	b := m.live[a.Ptr]
	switch {
	case m.closed:
		return nil, ErrClosed
	case a.Device != m.id || a.serial == 0 || a.serial > m.serial:
		return nil, fmt.Errorf("%w: %#x on device %d, this one is %d", ErrForeign, a.Ptr, a.Device, m.id)
	case b == nil || b.serial != a.serial:
		return nil, fmt.Errorf("%w: %#x on device %d", ErrDoubleFree, a.Ptr, m.id)
	}
	delete(m.live, a.Ptr)
	m.allocated -= b.bytes
	m.counts.Frees++
	m.log.Debug().Int("device", m.id).Uint64("bytes", b.bytes).Uint64("allocated_bytes", m.allocated).Msg("freed")
	return b, nil
}

func (m *Manager) putBack(b *block) {
	if b.pool != nil {
		b.pool.free(b)
		return
	}
	m.warn(m.giveBack(driver.Ptr(b.addr), b.size))
	m.spare.put(b)
}

// take allocates with the driver.
func (m *Manager) take(bytes uint64) (driver.Ptr, error) {
	if err := m.room(bytes); err != nil {
		return 0, err
	}
	p, err := m.device.Alloc(bytes)
	if err != nil {
		m.record.drop()
		return 0, err
	}
	if uint64(p)%grain != 0 { // which CUDA promises; blocks rest on it
		return 0, errors.Join(fmt.Errorf("the driver gave the address %#x: want a multiple of %d", p, grain), m.device.Free(p))
	}
	m.took(bytes)
	return p, nil
}

// giveBack frees with the driver. A failure is told, and the memory is taken for gone.
func (m *Manager) giveBack(p driver.Ptr, bytes uint64) error {
	m.gave(bytes)
	return m.device.Free(p)
}

func (m *Manager) took(bytes uint64) {
	m.taken += bytes
	m.since += int64(bytes)
	m.counts.PeakTakenBytes = max(m.counts.PeakTakenBytes, m.taken)
	m.record.drop()
}

func (m *Manager) gave(bytes uint64) {
	m.taken -= bytes
	m.since -= int64(bytes)
	m.record.drop()
}

// room says whether so much more may be taken from the driver: by the budget, by what is available now, and by the
// level of pressure.
func (m *Manager) room(bytes uint64) error {
	if m.taken+bytes > m.usable {
		return fmt.Errorf("%w: %d bytes are held and %d usable", driver.ErrOutOfMemory, m.taken, m.usable)
	}
	if m.level == Refuse {
		return fmt.Errorf("%w: under pressure nothing more is taken", driver.ErrOutOfMemory)
	}
	now, err := m.told(m.record.read())
	if err != nil {
		m.log.Warn().Err(err).Uint64("free_bytes", now.FreeBytes).Msg("allocating by the last known memory")
	}
	if available := m.constants.Available(now.Memory); bytes > available {
		return fmt.Errorf("%w: %d bytes are available now (%s)", driver.ErrOutOfMemory, available, now.Basis)
	}
	return nil
}

// Trim gives back to the driver what is free: all of it, or only what is cheap to get again.
func (m *Manager) Trim(all bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trim(all)
}

func (m *Manager) trim(all bool) error {
	m.collect()
	var errs []error
	for _, p := range m.pools {
		errs = append(errs, p.source.reclaim(all))
	}
	m.counts.Trims++
	return errors.Join(errs...)
}

// failed makes the error of an allocation.
func (m *Manager) failed(bytes uint64, err error) error {
	if errors.Is(err, driver.ErrOutOfMemory) {
		m.counts.OutOfMemory++
		return m.outOfMemory(bytes, err.Error(), err)
	}
	m.counts.Failures++
	return &AllocationError{Device: m.id, Bytes: bytes, Err: err}
}

func (m *Manager) outOfMemory(bytes uint64, reason string, err error) error {
	return &OutOfMemoryError{Device: m.id, Bytes: bytes, AllocatedBytes: m.allocated, UsableBytes: m.usable, Reason: reason,
		Snapshot: m.stats(m.reckoned()), Err: err}
}

// Close gives everything back to the driver, also what was not freed, of which the error tells: a *LeakError. On a lost
// device there is nothing to give back.
func (m *Manager) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	var leaks []Leak
	for p, b := range m.live {
		leaks = append(leaks, Leak{Name: b.request, Ptr: p, Bytes: b.bytes})
	}
	slices.SortFunc(leaks, func(a, b Leak) int { return cmp.Compare(a.Ptr, b.Ptr) })
	if lost := m.device.Lost(); lost != nil {
		m.closed = true
		return lost
	}
	m.warn(m.device.Synchronize())
	for _, p := range m.pending {
		m.putBack(p.block)
	}
	for _, b := range m.live {
		m.putBack(b)
	}
	m.warn(m.trim(true))
	if m.pages != nil {
		m.pages.close()
	}
	m.closed = true
	if len(leaks) > 0 {
		return &LeakError{Device: m.id, Leaks: leaks}
	}
	return nil
}
