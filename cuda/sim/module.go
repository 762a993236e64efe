package sim

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/cuda/sim/ptx"
)

// module is code on a device.
type module struct {
	ctx       *context
	code      *ptx.Module
	registers int32 // that the JIT was limited to; 0: not
	functions map[string]driver.FunctionHandle
	unloaded  bool
}

// function is a kernel of a module.
type function struct {
	module  *module
	kernel  *ptx.Kernel
	dynamic int32 // shared memory that a launch may ask for
}

func (m *module) owner() *context   { return m.ctx }
func (f *function) owner() *context { return f.module.ctx }

// madeUpRegisters is what a kernel has where nothing limits it: PTX has as many registers as it likes, and only the
// compiler of the real driver knows what becomes of them.
const madeUpRegisters = 40

// defaultShared is the shared memory that a block has unless more is asked for.
const defaultShared = 48 * kib

func (m *Machine) moduleLoadDataEx(handle *driver.ModuleHandle, image unsafe.Pointer, n uint32, options *driver.JITOption, values *uintptr) driver.Result {
	return m.within("ModuleLoadDataEx", jitTime, func(c *context) driver.Result {
		if handle == nil || image == nil || n > 0 && (options == nil || values == nil) {
			return driver.InvalidValue
		}
		if c.forbids() {
			return c.spoil()
		}
		jit := readJIT(unsafe.Slice(options, n), unsafe.Slice(values, n))
		if *(*byte)(image) == 0x7f {
			m.fail("a cubin was loaded on device %d: only PTX can be simulated", c.device.ordinal)
			return driver.InvalidImage
		}
		code, r, err := m.compile(c.device, text(image))
		if err != nil {
			jit.tell(err)
			m.fail("module on device %d: %w", c.device.ordinal, err)
			return r
		}
		loaded := &module{ctx: c, code: code, registers: jit.registers, functions: make(map[string]driver.FunctionHandle)}
		return put(handle, driver.ModuleHandle(m.give(loaded)))
	})
}

// compile reads PTX as the compiler of the driver would for a device.
func (m *Machine) compile(d *device, text string) (*ptx.Module, driver.Result, error) {
	code, err := ptx.Parse(text)
	if err != nil {
		return nil, driver.InvalidPTX, err
	}
	sm := int(10*d.Capability[0] + d.Capability[1])
	switch v := code.Version; {
	case 1000*(v.Major+4)+10*v.Minor > int(m.version):
		return nil, driver.UnsupportedPTX, fmt.Errorf("PTX %s is newer than the driver, which is of CUDA %d.%d", v, m.version/1000, m.version%1000/10)
	case code.Target.SM > sm, code.Target.Exact && code.Target.SM != sm:
		return nil, driver.InvalidPTX, fmt.Errorf("a module for %s does not run on sm_%d", code.Target, sm)
	}
	return code, driver.Success, nil
}

// text is a string of C.
func text(p unsafe.Pointer) string {
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// jit are the options of a module.
type jit struct {
	registers int32
	log       unsafe.Pointer
	logBytes  uintptr
}

func readJIT(options []driver.JITOption, values []uintptr) (j jit) {
	for i, o := range options {
		switch o {
		case driver.JITMaxRegisters:
			j.registers = int32(values[i])
		case driver.JITErrorLog:
			j.log = *(*unsafe.Pointer)(unsafe.Pointer(&values[i]))
		case driver.JITErrorLogBytes:
			j.logBytes = values[i]
		}
	}
	return j
}

// tell writes an error into the log, cut where the room for it ends.
func (j jit) tell(err error) {
	if j.log != nil && j.logBytes > 0 {
		putText((*byte)(j.log), int32(j.logBytes), "ptxas fatal   : "+err.Error())
	}
}

func (m *Machine) moduleUnload(handle driver.ModuleHandle) driver.Result {
	return m.within("ModuleUnload", freeTime, func(c *context) driver.Result {
		loaded, found := object[*module](m, uintptr(handle))
		if !found || loaded.ctx != c {
			return driver.InvalidHandle
		}
		loaded.unloaded = true
		for _, f := range loaded.functions {
			delete(m.handles, uintptr(f))
		}
		delete(m.handles, uintptr(handle))
		return driver.Success
	})
}

func (m *Machine) moduleGetFunction(f *driver.FunctionHandle, handle driver.ModuleHandle, name string) driver.Result {
	return m.within("ModuleGetFunction", callTime, func(c *context) driver.Result {
		loaded, found := object[*module](m, uintptr(handle))
		if !found || loaded.ctx != c {
			return driver.InvalidHandle
		}
		if known, found := loaded.functions[name]; found {
			return put(f, known)
		}
		kernel, err := loaded.code.Kernel(name)
		if err != nil {
			return driver.NotFound
		}
		fn := &function{module: loaded, kernel: kernel, dynamic: max(0, int32(defaultShared-kernel.SharedBytes))}
		loaded.functions[name] = driver.FunctionHandle(m.give(fn))
		return put(f, loaded.functions[name])
	})
}

// function runs a function of the driver on a kernel.
func (m *Machine) function(name string, cost time.Duration, handle driver.FunctionHandle, body func(c *context, f *function) driver.Result) driver.Result {
	return m.within(name, cost, func(c *context) driver.Result {
		f, found := object[*function](m, uintptr(handle))
		if !found || f.module.ctx != c {
			return driver.InvalidHandle
		}
		return body(c, f)
	})
}

// registers that a thread has.
func (f *function) registers() int32 {
	registers := int32(madeUpRegisters)
	for _, limit := range []int32{int32(f.kernel.MaxRegisters), f.module.registers} {
		if limit > 0 {
			registers = min(registers, limit)
		}
	}
	return registers
}

// threads are the most that a block may have.
func (f *function) threads() int32 {
	if t := f.kernel.MaxThreads; t[0] > 0 {
		return int32(t[0] * max(t[1], 1) * max(t[2], 1))
	}
	return 1024
}

func (m *Machine) funcGetAttribute(value *int32, attribute driver.FuncAttribute, handle driver.FunctionHandle) driver.Result {
	return m.function("FuncGetAttribute", callTime, handle, func(c *context, f *function) driver.Result {
		switch attribute {
		case driver.FuncMaxThreadsPerBlock:
			return put(value, f.threads())
		case driver.FuncStaticSharedBytes:
			return put(value, int32(f.kernel.SharedBytes))
		case driver.FuncLocalBytes:
			return put(value, int32(f.kernel.LocalBytes))
		case driver.FuncRegisters:
			return put(value, f.registers())
		case driver.FuncMaxDynamicShared:
			return put(value, f.dynamic)
		}
		return driver.InvalidValue
	})
}

func (m *Machine) funcSetAttribute(handle driver.FunctionHandle, attribute driver.FuncAttribute, value int32) driver.Result {
	return m.function("FuncSetAttribute", callTime, handle, func(c *context, f *function) driver.Result {
		if attribute != driver.FuncMaxDynamicShared || value < 0 || value+int32(f.kernel.SharedBytes) > c.device.sharedOptin() {
			return driver.InvalidValue
		}
		f.dynamic = value
		return driver.Success
	})
}

func (m *Machine) occupancyMaxBlocks(blocks *int32, handle driver.FunctionHandle, blockSize int32, sharedBytes uint64) driver.Result {
	return m.function("OccupancyMaxBlocks", callTime, handle, func(c *context, f *function) driver.Result {
		if blockSize < 1 {
			return driver.InvalidValue
		}
		if blockSize > f.threads() || sharedBytes > uint64(f.dynamic) {
			return put(blocks, 0)
		}
		shared := int32(sharedBytes) + int32(f.kernel.SharedBytes) + kib // of which the system takes one
		return put(blocks, min(32, c.device.threads()/blockSize, (c.device.sharedOptin()+kib)/shared, 64*kib/(f.registers()*blockSize)))
	})
}

// resultOf is what the driver returns for a fault of a kernel.
func resultOf(err error) driver.Result {
	var fault *ptx.Fault
	if !errors.As(err, &fault) {
		return driver.LaunchFailed
	}
	switch fault.Kind {
	case ptx.OutOfBounds:
		return driver.IllegalAddress
	case ptx.Misaligned:
		return driver.MisalignedAddress
	case ptx.IllegalInstruction:
		return driver.IllegalInstruction
	case ptx.Timeout:
		return driver.LaunchTimeout
	}
	return driver.LaunchFailed
}
