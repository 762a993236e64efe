package sim

import (
	"bytes"
	stdcontext "context"
	"time"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim/ptx"
)

// Launched is a kernel that ran.
type Launched struct {
	Device      DeviceSpec
	Kernel      string
	Grid, Block [3]int
	Registers   int
	Stats       ptx.Stats
}

// Roofline is how long the kernel takes if either the memory or the cores are the limit: every sector that it asks for
// comes from memory, and every multiprocessor that has a block issues 128 instructions of threads in a cycle. No cache,
// no latency: it is good for what is far apart, and no figure of any card.
func (l Launched) Roofline() time.Duration {
	sectors := l.Stats.GlobalLoads.Sectors + l.Stats.GlobalStores.Sectors
	busy := min(uint64(l.Device.SMs), max(l.Stats.Blocks, 1))
	return max(at(32*sectors, l.Device.BandwidthBytes), at(l.Stats.Instructions, busy*128*l.Device.ClockHz))
}

// memory is that of a device as its kernels see it. During a launch nothing changes it.
type memory struct {
	space  *space
	device *device
}

// Find implements ptx.Memory.
func (m memory) Find(address uint64) (ptx.Region, bool) {
	r := m.space.find(driver.Ptr(address))
	if r == nil {
		return ptx.Region{}, false
	}
	if !r.reserved {
		if !m.device.reads(r.ctx.device) {
			return ptx.Region{}, false
		}
		return ptx.Region{Base: r.base, Bytes: r.store.slice()}, true
	}
	mapped := r.mapped(address - r.base)
	if mapped == nil || !mapped.access[m.device] {
		return ptx.Region{}, false
	}
	return ptx.Region{Base: r.base + mapped.offset, Bytes: mapped.memory.store.slice()}, true
}

func (m *Machine) launchKernel(handle driver.FunctionHandle, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, s driver.StreamHandle, params *unsafe.Pointer, extra *driver.LaunchExtra) driver.Result {
	return m.function("LaunchKernel", launchTime, handle, func(c *context, f *function) driver.Result {
		queue := c.stream(s)
		if queue == nil {
			return driver.InvalidHandle
		}
		grid, block := [3]int{int(gridX), int(gridY), int(gridZ)}, [3]int{int(blockX), int(blockY), int(blockZ)}
		threads := block[0] * block[1] * block[2]
		arguments := f.arguments(params, extra)
		switch {
		case arguments == nil, grid[0]*grid[1]*grid[2] == 0, threads == 0, threads > 1024, block[2] > 64,
			gridX > 1<<31-1, gridY > 1<<16-1, gridZ > 1<<16-1, int64(sharedBytes) > int64(f.dynamic):
			return driver.InvalidValue
		case threads > int(f.threads()):
			return driver.LaunchOutOfResources
		}
		launch := ptx.Launch{Grid: grid, Block: block, SharedBytes: int(sharedBytes), Params: arguments}
		return queue.submit(work{engine: compute, latency: kernelLatency, run: func() (time.Duration, driver.Result) {
			if f.module.unloaded { // after it was recorded: graphs do not keep modules
				m.fail("device %d: a graph launches %s, whose module was unloaded", c.device.ordinal, f.kernel.Name)
				return 0, driver.IllegalAddress
			}
			stats, err := f.kernel.Launch(stdcontext.Background(), memory{&m.space, c.device}, launch)
			if err != nil {
				m.fail("device %d: %w", c.device.ordinal, err)
				return 0, resultOf(err)
			}
			m.kernels++
			ran := Launched{Device: c.device.DeviceSpec, Kernel: f.kernel.Name, Grid: grid, Block: block, Registers: int(f.registers()), Stats: stats}
			return m.kernelTime(ran), driver.Success
		}})
	})
}

// arguments packs the parameters of a kernel; nil where they are not those that it has.
func (f *function) arguments(params *unsafe.Pointer, extra *driver.LaunchExtra) []byte {
	packed := make([]byte, f.kernel.ParamBytes)
	if extra != nil {
		if params != nil || extra.BufferTag != 1 || extra.SizeTag != 2 || extra.End != 0 || extra.Size == nil || *extra.Size != uint64(len(packed)) {
			return nil
		}
		return bytes.Clone(unsafe.Slice((*byte)(extra.Buffer), len(packed)))
	}
	if params == nil {
		if len(packed) > 0 {
			return nil
		}
		return packed
	}
	for i, p := range unsafe.Slice(params, len(f.kernel.Params)) {
		into := f.kernel.Params[i]
		if p == nil {
			return nil
		}
		copy(packed[into.Offset:into.Offset+into.Size], unsafe.Slice((*byte)(p), into.Size))
	}
	return packed
}
