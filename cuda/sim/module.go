package sim

import (
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// module is code on a device.
type module struct {
	ctx *context
}

func (m *module) owner() *context { return m.ctx }

func (m *Machine) moduleLoadDataEx(handle *driver.ModuleHandle, image unsafe.Pointer, n uint32, options *driver.JITOption, values *uintptr) driver.Result {
	return m.within("ModuleLoadDataEx", jitTime, func(c *context) driver.Result { return driver.NotSupported })
}

func (m *Machine) moduleUnload(handle driver.ModuleHandle) driver.Result {
	return m.within("ModuleUnload", freeTime, func(c *context) driver.Result { return driver.InvalidHandle })
}

func (m *Machine) moduleGetFunction(f *driver.FunctionHandle, handle driver.ModuleHandle, name string) driver.Result {
	return m.within("ModuleGetFunction", callTime, func(c *context) driver.Result { return driver.InvalidHandle })
}

func (m *Machine) funcGetAttribute(value *int32, attribute driver.FuncAttribute, f driver.FunctionHandle) driver.Result {
	return m.within("FuncGetAttribute", callTime, func(c *context) driver.Result { return driver.InvalidHandle })
}

func (m *Machine) funcSetAttribute(f driver.FunctionHandle, attribute driver.FuncAttribute, value int32) driver.Result {
	return m.within("FuncSetAttribute", callTime, func(c *context) driver.Result { return driver.InvalidHandle })
}

func (m *Machine) occupancyMaxBlocks(blocks *int32, f driver.FunctionHandle, blockSize int32, sharedBytes uint64) driver.Result {
	return m.within("OccupancyMaxBlocks", callTime, func(c *context) driver.Result { return driver.InvalidHandle })
}

func (m *Machine) launchKernel(f driver.FunctionHandle, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, s driver.StreamHandle, params *unsafe.Pointer, extra *driver.LaunchExtra) driver.Result {
	return m.within("LaunchKernel", launchTime, func(c *context) driver.Result { return driver.InvalidHandle })
}
