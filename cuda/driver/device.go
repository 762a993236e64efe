package driver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Device is one GPU and its primary context, which the first Do makes and Close releases. It is safe for concurrent use.
type Device struct {
	driver     *Driver
	t          *Table
	handle     DeviceHandle
	uuid       string
	pci        string
	name       string
	total      uint64
	attributes map[Attribute]int

	lost atomic.Pointer[Error]         // why nothing works on it any more
	ctx  atomic.Pointer[ContextHandle] // nil before the first use

	mu   sync.Mutex // of what follows, and of making and releasing ctx
	live map[*object]struct{}
	made uint64 // objects so far
}

// describe reads what can be known of a device without a context. What cannot be read stays unknown.
func (d *Driver) describe(ordinal int32) (*Device, error) {
	t := &d.table
	device := &Device{driver: d, t: t, attributes: map[Attribute]int{}, live: map[*object]struct{}{}}
	if r := t.DeviceGet(&device.handle, ordinal); r != Success {
		return nil, t.newError("cuDeviceGet", r)
	}
	var text [256]byte
	if t.DeviceGetName(&text[0], int32(len(text)), device.handle) == Success {
		device.name = cString(text[:])
	}
	text = [256]byte{}
	if t.DeviceGetPCIBusID(&text[0], int32(len(text)), device.handle) == Success {
		device.pci = strings.ToLower(cString(text[:]))
	}
	var id [16]byte
	if t.DeviceGetUUID(&id, device.handle) == Success {
		device.uuid = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	}
	if t.DeviceTotalMem(&device.total, device.handle) != Success {
		device.total = 0
	}
	for a := range attributeNames {
		var value int32
		if t.DeviceGetAttribute(&value, a, device.handle) == Success {
			device.attributes[a] = int(value)
		}
	}
	return device, nil
}

func cString(text []byte) string {
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	return string(text)
}

// SameUUID reports whether two spellings mean one device. CUDA does not tell "GPU-" and "MIG-" apart. Unknown is nobody's.
func SameUUID(a, b string) bool {
	bare := func(s string) string {
		s = strings.ToLower(s)
		return strings.TrimPrefix(strings.TrimPrefix(s, "gpu-"), "mig-")
	}
	return a != "" && bare(a) == bare(b)
}

// Ordinal is the driver's number of the device, good within this process.
func (d *Device) Ordinal() int { return int(d.handle) }

// Handle is the same for the functions of the table.
func (d *Device) Handle() DeviceHandle { return d.handle }

// UUID is the device's identity, "GPU-" and 32 hex digits; "" is unknown.
func (d *Device) UUID() string { return d.uuid }

// PCI is the device's place on the bus, such as "0000:81:00.0"; "" is unknown.
func (d *Device) PCI() string { return d.pci }

// Name is the product's name; "" is unknown.
func (d *Device) Name() string { return d.name }

// TotalBytes is the size of the device's memory; 0 is unknown.
func (d *Device) TotalBytes() uint64 { return d.total }

// String returns "device 0 (NVIDIA H200)".
func (d *Device) String() string {
	if d.name == "" {
		return fmt.Sprintf("device %d", d.handle)
	}
	return fmt.Sprintf("device %d (%s)", d.handle, d.name)
}

// Attribute returns a property. One that the driver did not tell is absent, not 0.
func (d *Device) Attribute(a Attribute) (value int, known bool) {
	value, known = d.attributes[a]
	return value, known
}

// Attributes returns all properties that the driver told.
func (d *Device) Attributes() map[Attribute]int { return maps.Clone(d.attributes) }

// Capability is the compute capability; known is false if the driver did not tell it.
func (d *Device) Capability() (major, minor int, known bool) {
	major, known = d.Attribute(CapabilityMajor)
	minor, alsoKnown := d.Attribute(CapabilityMinor)
	if !known || !alsoKnown {
		return 0, 0, false
	}
	return major, minor, true
}

// Do runs f with the device's context current. The context belongs to the OS thread, so f's goroutine keeps its thread
// meanwhile: functions of the table belong in f itself, not in goroutines that f starts.
func (d *Device) Do(f func() error) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer runtime.UnlockOSThread()
	return f()
}

// enter locks the thread and makes the context current, or does neither.
func (d *Device) enter() error {
	if lost := d.lost.Load(); lost != nil {
		return fmt.Errorf("driver: %s was lost earlier: %w", d, lost)
	}
	ctx := d.ctx.Load()
	if ctx == nil {
		var err error
		if ctx, err = d.retain(); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	if r := d.t.CtxSetCurrent(*ctx); r != Success {
		runtime.UnlockOSThread()
		return d.Check("cuCtxSetCurrent", r)
	}
	return nil
}

func (d *Device) retain() (*ContextHandle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx := d.ctx.Load(); ctx != nil {
		return ctx, nil
	}
	ctx := new(ContextHandle)
	if err := d.Check("cuDevicePrimaryCtxRetain", d.t.DevicePrimaryCtxRetain(ctx, d.handle)); err != nil {
		return nil, err
	}
	d.ctx.Store(ctx)
	return ctx, nil
}

// do runs one function of the table in the context.
func (d *Device) do(op string, f func() Result) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer runtime.UnlockOSThread()
	return d.Check(op, f())
}

// Check turns the result of a function of the table, named as in C, into an *Error, or into nil for Success. After a
// sticky one the device is lost: it refuses everything until Reset, so that nothing is believed that it says.
func (d *Device) Check(op string, r Result) error {
	if r == Success {
		return nil
	}
	e := d.t.newError(op, r)
	e.Device = d.String()
	if e.Sticky {
		d.lost.CompareAndSwap(nil, e)
	}
	return e
}

// Lost returns why the device refuses everything, or nil.
func (d *Device) Lost() error {
	if lost := d.lost.Load(); lost != nil {
		return lost
	}
	return nil
}

// Synchronize waits for all work on the device.
func (d *Device) Synchronize() error { return d.do("cuCtxSynchronize", d.t.CtxSynchronize) }

// Reset throws the context away, with all memory, streams, events, modules and graphs of this process on the device, and
// tries a new one. Nothing else may use the device meanwhile. Some errors end only with the process: then the device
// stays lost, and Reset says so.
func (d *Device) Reset() error {
	d.mu.Lock()
	for o := range d.live {
		o.open.Store(false) // gone with the context
	}
	clear(d.live)
	r := d.t.DevicePrimaryCtxReset(d.handle)
	if d.ctx.Swap(nil) != nil {
		d.t.DevicePrimaryCtxRelease(d.handle)
	}
	d.mu.Unlock()
	if err := d.Check("cuDevicePrimaryCtxReset", r); err != nil {
		return err
	}
	d.lost.Store(nil)
	return d.Synchronize()
}

// Close releases what was made on the device and its context. Use after Close makes a new context.
func (d *Device) Close() error {
	var errs []error
	for _, o := range d.objects() {
		errs = append(errs, o.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Swap(nil) != nil {
		errs = append(errs, d.Check("cuDevicePrimaryCtxRelease", d.t.DevicePrimaryCtxRelease(d.handle)))
	}
	return errors.Join(errs...)
}

// objects lists what is open in the order in which it may be closed: what was made last goes first, so that a graph goes
// before its kernels' module.
func (d *Device) objects() []*object {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Keys(d.live), func(a, b *object) int { return cmp.Compare(b.serial, a.serial) })
}
