package sim

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// DeviceSpec is a device. What is zero is that of a card of the middle, by its documents.
type DeviceSpec struct {
	Name           string
	UUID           [16]byte // if zero, made from the ordinal
	PCI            string   // if "", made from the ordinal
	TotalBytes     uint64   // if 0, 16 GiB
	Capability     [2]int32 // if zero, 8.0
	SMs            int32    // if 0, 108
	ClockHz        uint64   // if 0, 1.41e9
	BandwidthBytes uint64   // of its memory in a second; if 0, 1.5e12
	LinkBytes      uint64   // of a copy between it and the host or a peer in a second; if 0, 25e9
	L2Bytes        int32    // if 0, 40 MiB
	ContextBytes   uint64   // what a primary context takes; if 0, 256 MiB, at most a sixteenth of the total
	NoVirtual      bool     // the device has no virtual memory functions
	NoPools        bool     // the device has no memory pools
	NoPeers        bool     // no device can reach its memory
	// Unreadable are attributes that the driver does not tell of it.
	Unreadable []driver.Attribute
}

// device is a device and what is taken of it.
type device struct {
	DeviceSpec
	machine *Machine
	ordinal int
	primary *context
	pool    *pool
	peers   map[*device]bool // whose memory its kernels may use

	large, small uint64 // bytes of allocations of 1 MiB and more, and of smaller ones
	foreign      uint64 // by other processes
	peak         uint64
	engines      [3]time.Duration // until when they are busy
}

// The engines of a device: each does one thing at a time, beside the others.
const (
	compute = iota
	upload
	download
)

func newDevice(m *Machine, ordinal int, spec DeviceSpec) (*device, error) {
	if spec.Name == "" {
		spec.Name = "Simulated GPU"
	}
	if spec.UUID == [16]byte{} {
		sum := sha256.Sum256(fmt.Appendf(nil, "simulated device %d", ordinal))
		copy(spec.UUID[:], sum[:])
	}
	if spec.Capability == [2]int32{} {
		spec.Capability = [2]int32{8, 0}
	}
	spec.PCI = cmp.Or(spec.PCI, fmt.Sprintf("0000:%02x:00.0", ordinal+1))
	spec.TotalBytes = cmp.Or(spec.TotalBytes, 16*gib)
	spec.SMs = cmp.Or(spec.SMs, 108)
	spec.ClockHz = cmp.Or(spec.ClockHz, 1_410_000_000)
	spec.BandwidthBytes = cmp.Or(spec.BandwidthBytes, 1_500_000_000_000)
	spec.LinkBytes = cmp.Or(spec.LinkBytes, 25_000_000_000)
	spec.L2Bytes = cmp.Or(spec.L2Bytes, 40*mib)
	spec.ContextBytes = cmp.Or(spec.ContextBytes, min(256*mib, spec.TotalBytes/16))
	if spec.ContextBytes > spec.TotalBytes {
		return nil, fmt.Errorf("sim: device %d: a context of %d bytes on a device of %d: want it smaller", ordinal, spec.ContextBytes, spec.TotalBytes)
	}
	d := &device{DeviceSpec: spec, machine: m, ordinal: ordinal, peers: make(map[*device]bool)}
	d.pool = &pool{device: d}
	d.pool.handle = m.give(d.pool)
	return d, nil
}

// used are the bytes that are taken. Small allocations share pages of 2 MiB.
func (d *device) used() uint64 {
	used := d.foreign + d.large + roundUp(d.small, 2*mib) + d.pool.held
	if d.primary != nil {
		used += d.ContextBytes
	}
	return used
}

// take counts bytes as taken, or returns OutOfMemory.
func (d *device) take(bytes uint64) driver.Result {
	counter := d.counter(bytes)
	before := *counter
	*counter += bytes
	if bytes > d.TotalBytes || d.used() > d.TotalBytes {
		*counter = before
		return driver.OutOfMemory
	}
	d.peak = max(d.peak, d.used())
	return driver.Success
}

func (d *device) giveBack(bytes uint64) { *d.counter(bytes) -= bytes }

func (d *device) counter(bytes uint64) *uint64 {
	if bytes < mib {
		return &d.small
	}
	return &d.large
}

func (d *device) free() uint64 { return d.TotalBytes - min(d.TotalBytes, d.used()) }

// reads says whether its kernels may use the memory of other.
func (d *device) reads(other *device) bool { return d == other || d.peers[other] }

// attribute is what the driver tells of it; found is false for what it does not.
func (d *device) attribute(a driver.Attribute) (value int32, found bool) {
	if slices.Contains(d.Unreadable, a) {
		return 0, false
	}
	value, found = map[driver.Attribute]int32{
		driver.MaxThreadsPerBlock:       1024,
		driver.MaxSharedMemoryPerBlock:  48 * kib,
		driver.TotalConstantMemory:      64 * kib,
		driver.WarpSize:                 32,
		driver.MaxRegistersPerBlock:     64 * kib,
		driver.ClockRateKHz:             int32(d.ClockHz / 1000),
		driver.MultiprocessorCount:      d.SMs,
		driver.MemoryClockRateKHz:       int32(d.BandwidthBytes / (2 * 5120 / 8) / 1000), // two transfers a clock, 5120 bits
		driver.MemoryBusWidthBits:       5120,
		driver.L2CacheBytes:             d.L2Bytes,
		driver.MaxThreadsPerMultiproc:   d.threads(),
		driver.UnifiedAddressing:        1,
		driver.CapabilityMajor:          d.Capability[0],
		driver.CapabilityMinor:          d.Capability[1],
		driver.MaxSharedPerMultiproc:    d.sharedOptin() + kib,
		driver.MaxRegistersPerMultiproc: 64 * kib,
		driver.MaxSharedPerBlockOptin:   d.sharedOptin(),
		driver.VirtualMemorySupported:   number(!d.NoVirtual),
		driver.MemoryPoolsSupported:     number(!d.NoPools),
	}[a]
	return value, found
}

// threads are the most that a multiprocessor holds, by capability (CUDA C++ programming guide, compute capabilities).
func (d *device) threads() int32 {
	switch d.Capability {
	case [2]int32{7, 5}:
		return 1024
	case [2]int32{8, 6}, [2]int32{8, 7}, [2]int32{8, 9}:
		return 1536
	}
	return 2048
}

// sharedOptin is the shared memory that a block may ask for, by capability (from the same table).
func (d *device) sharedOptin() int32 {
	switch {
	case d.Capability[0] < 7:
		return 48 * kib
	case d.Capability == [2]int32{7, 0}:
		return 96 * kib
	case d.Capability == [2]int32{7, 5}:
		return 64 * kib
	case d.Capability == [2]int32{8, 0}, d.Capability == [2]int32{8, 7}:
		return 163 * kib
	case d.Capability[0] == 8:
		return 99 * kib
	}
	return 227 * kib
}

func (m *Machine) deviceGetName(name *byte, size int32, dev driver.DeviceHandle) driver.Result {
	return m.on("DeviceGetName", callTime, dev, func(d *device) driver.Result { return putText(name, size, d.Name) })
}

func (m *Machine) deviceGetPCIBusID(id *byte, size int32, dev driver.DeviceHandle) driver.Result {
	return m.on("DeviceGetPCIBusID", callTime, dev, func(d *device) driver.Result { return putText(id, size, d.PCI) })
}

func (m *Machine) deviceGetUUID(uuid *[16]byte, dev driver.DeviceHandle) driver.Result {
	return m.on("DeviceGetUUID", callTime, dev, func(d *device) driver.Result { return put(uuid, d.UUID) })
}

func (m *Machine) deviceTotalMem(bytes *uint64, dev driver.DeviceHandle) driver.Result {
	return m.on("DeviceTotalMem", callTime, dev, func(d *device) driver.Result { return put(bytes, d.TotalBytes) })
}

func (m *Machine) deviceGetAttribute(value *int32, a driver.Attribute, dev driver.DeviceHandle) driver.Result {
	return m.on("DeviceGetAttribute", callTime, dev, func(d *device) driver.Result {
		v, found := d.attribute(a)
		if !found {
			return driver.InvalidValue
		}
		return put(value, v)
	})
}

func (m *Machine) deviceCanAccessPeer(can *int32, dev, peer driver.DeviceHandle) driver.Result {
	return m.on("DeviceCanAccessPeer", callTime, dev, func(d *device) driver.Result {
		if peer < 0 || int(peer) >= len(m.devices) {
			return driver.InvalidDevice
		}
		return put(can, number(peer != dev && !d.NoPeers && !m.devices[peer].NoPeers))
	})
}

// put sets an out-parameter.
func put[T any](p *T, value T) driver.Result {
	if p == nil {
		return driver.InvalidValue
	}
	*p = value
	return driver.Success
}

// putText sets a text of C, cut where the room for it ends.
func putText(p *byte, size int32, text string) driver.Result {
	if p == nil || size <= 0 {
		return driver.InvalidValue
	}
	room := unsafe.Slice(p, size)
	room[copy(room[:size-1], text)] = 0
	return driver.Success
}

func number(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// roundUp rounds n up to a multiple of step.
func roundUp(n, step uint64) uint64 { return (n + step - 1) / step * step }
