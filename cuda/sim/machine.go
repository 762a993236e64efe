package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// Config is the machine that is simulated.
type Config struct {
	Devices []DeviceSpec
	// DriverVersion is 1000 major + 10 minor of CUDA. If DriverVersion is 0, 12080 is used.
	DriverVersion int32
	// Faults is a plan of failures, such as "MemAlloc:3=2,MemGetInfo:1+=999"; see Machine.Fault.
	Faults string
	// ReplayOnce computes the kernels and copies of a graph in its first launch only; later launches take their time and
	// leave memory as it is. It is for graphs that leave the same result whenever they run, and are timed often.
	ReplayOnce bool
	// KernelTime is how long a kernel takes. If KernelTime is nil, it is Launched.Roofline.
	KernelTime func(Launched) time.Duration
}

// Machine is a simulated machine with GPUs, reached through its Table.
type Machine struct {
	mu         sync.Mutex
	version    int32
	replayOnce bool
	kernelTime func(Launched) time.Duration
	kernels    int // that ran
	ready      bool
	devices    []*device
	current    map[int]*context // by OS thread
	handles    map[uintptr]any
	last       uintptr // the handle given last
	space      space
	pinned     map[*byte][]byte
	now        time.Duration
	calls      map[string]int
	faults     []fault
	trouble    []error
}

// New returns the machine of a config. Close it, or its memory stays taken.
func New(config Config) (*Machine, error) {
	m := &Machine{
		version:    cmp.Or(config.DriverVersion, 12080),
		replayOnce: config.ReplayOnce,
		kernelTime: config.KernelTime,
		current:    make(map[int]*context),
		handles:    make(map[uintptr]any),
		space:      space{next: firstAddress},
		pinned:     make(map[*byte][]byte),
		calls:      make(map[string]int),
	}
	if m.kernelTime == nil {
		m.kernelTime = Launched.Roofline
	}
	for ordinal, spec := range config.Devices {
		d, err := newDevice(m, ordinal, spec)
		if err != nil {
			return nil, err
		}
		m.devices = append(m.devices, d)
	}
	return m, m.Fault(config.Faults)
}

// Close gives the memory of the simulation back. The table is of no use afterwards.
func (m *Machine) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.devices {
		if d.primary != nil {
			d.primary.destroy()
		}
	}
	m.ready = false
}

// Now is the virtual clock of the host: it moves with the calls, and with what they wait for.
func (m *Machine) Now() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Work lets the host be busy for a while, in virtual time.
func (m *Machine) Work(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now += max(d, 0)
}

// Calls counts the calls of a function of the table since the start, failed ones included.
func (m *Machine) Calls(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[name]
}

// Counts are the calls of every function that was called.
func (m *Machine) Counts() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.calls)
}

// Kernels counts the kernels that ran to their end.
func (m *Machine) Kernels() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kernels
}

// Trouble is what went wrong in kernels and modules, in the words of the simulation, which say more than the driver's
// results do.
func (m *Machine) Trouble() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.trouble)
}

// Used are the bytes that are taken of a device's memory, contexts included, and the most that ever were.
func (m *Machine) Used(device int) (now, peak uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.devices[device].used(), m.devices[device].peak
}

// Take lets another process take so many bytes of a device's memory, or give them back again.
func (m *Machine) Take(device int, bytes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.devices[device].foreign = bytes
}

// Leaks names what was not given back: memory, streams, events, modules, graphs and contexts.
func (m *Machine) Leaks() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var leaks []string
	for _, r := range m.space.regions {
		leaks = append(leaks, fmt.Sprintf("%d bytes at %#x by %s on device %d", r.size, r.base, r.by, r.ctx.device.ordinal))
	}
	for _, d := range m.devices {
		if d.primary != nil {
			leaks = append(leaks, fmt.Sprintf("the primary context of device %d, retained %d times", d.ordinal, d.primary.retained))
		}
	}
	for handle, object := range m.handles {
		if kind := kindOf(object); kind != "" {
			leaks = append(leaks, fmt.Sprintf("%s %#x", kind, handle))
		}
	}
	for _, bytes := range m.pinned {
		leaks = append(leaks, fmt.Sprintf("%d bytes of pinned host memory", len(bytes)))
	}
	slices.Sort(leaks)
	return leaks
}

// kindOf names what a handle stands for, or returns "" for what ends with its context or its module.
func kindOf(object any) string {
	switch object.(type) {
	case *stream:
		return "stream"
	case *event:
		return "event"
	case *module:
		return "module"
	case *graph:
		return "graph"
	case *graphExec:
		return "executable graph"
	case *physical:
		return "physical memory"
	}
	return ""
}

// bare runs a function of the driver that needs nothing, not even Init.
func (m *Machine) bare(name string, cost time.Duration, body func() driver.Result) driver.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[name]++
	m.now += cost
	if r := m.strike(name); r != driver.Success {
		return r
	}
	return body()
}

// call runs a function of the driver that needs no context.
func (m *Machine) call(name string, cost time.Duration, body func() driver.Result) driver.Result {
	return m.bare(name, cost, func() driver.Result {
		if !m.ready {
			return driver.NotInitialized
		}
		return body()
	})
}

// on runs a function of the driver that is about a device.
func (m *Machine) on(name string, cost time.Duration, dev driver.DeviceHandle, body func(d *device) driver.Result) driver.Result {
	return m.call(name, cost, func() driver.Result {
		if dev < 0 || int(dev) >= len(m.devices) {
			return driver.InvalidDevice
		}
		return body(m.devices[dev])
	})
}

// within runs a function of the driver in the context of the calling OS thread.
func (m *Machine) within(name string, cost time.Duration, body func(c *context) driver.Result) driver.Result {
	return m.call(name, cost, func() driver.Result {
		c := m.current[syscall.Gettid()]
		if c == nil || c.destroyed {
			return driver.InvalidContext
		}
		if c.lost != driver.Success {
			return c.lost
		}
		return body(c)
	})
}

// give makes a handle for an object.
func (m *Machine) give(object any) uintptr {
	m.last += 0x10
	handle := 0x5000_0000 + m.last
	m.handles[handle] = object
	return handle
}

// object is what a handle stands for; it is of another kind, or was destroyed, where found is false.
func object[T any](m *Machine, handle uintptr) (o T, found bool) {
	o, found = m.handles[handle].(T)
	return o, found
}

// fail records what the simulation knows of a failure.
func (m *Machine) fail(format string, args ...any) {
	m.trouble = append(m.trouble, fmt.Errorf("sim: "+format, args...))
}

// String lists the devices.
func (m *Machine) String() string {
	var text []string
	for _, d := range m.devices {
		text = append(text, fmt.Sprintf("%s (%.1f GiB, simulated)", d.Name, float64(d.TotalBytes)/(1<<30)))
	}
	return strings.Join(text, ", ")
}
