package driver

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"
)

// Module is code that was loaded onto a device.
type Module struct {
	*object
	handle ModuleHandle
}

// JIT is how the driver is to compile PTX. The zero value leaves everything to it.
type JIT struct {
	MaxRegisters int // of a thread; if 0, as the PTX says
	Optimization int // 1 to 4; if 0, 4
}

// JITOption is an option of ModuleLoadDataEx: CUjit_option.
type JITOption int32

// The options that are given.
const (
	JITMaxRegisters  JITOption = 0
	JITInfoLog       JITOption = 3
	JITInfoLogBytes  JITOption = 4
	JITErrorLog      JITOption = 5
	JITErrorLogBytes JITOption = 6
	JITOptimization  JITOption = 7
)

// logBytes is the room for what the compiler says; it cuts off what is longer.
const logBytes = 8 << 10

// LoadModule compiles PTX text, or takes a cubin as it is. An error of the compiler has its words in Error.JITLog.
func (d *Device) LoadModule(image []byte, opt JIT) (*Module, error) {
	if need := requiredVersion(image); need > d.driver.version {
		return nil, &Error{Op: "cuModuleLoadDataEx", Device: d.String(), Kind: ErrDriverTooOld,
			Hint: fmt.Sprintf("this PTX needs a driver of CUDA %s: the driver is of %s", versionString(need), versionString(d.driver.version))}
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	image = append(bytes.Clone(image), 0)
	log := make([]byte, logBytes)
	pinner.Pin(&image[0])
	pinner.Pin(&log[0])
	options := []JITOption{JITErrorLog, JITErrorLogBytes}
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), logBytes}
	if opt.MaxRegisters > 0 {
		options, values = append(options, JITMaxRegisters), append(values, uintptr(opt.MaxRegisters))
	}
	if opt.Optimization > 0 {
		options, values = append(options, JITOptimization), append(values, uintptr(opt.Optimization))
	}
	m := new(Module)
	err := d.do("cuModuleLoadDataEx", func() Result {
		return d.t.ModuleLoadDataEx(&m.handle, unsafe.Pointer(&image[0]), uint32(len(options)), &options[0], &values[0])
	})
	if err != nil {
		if e, ok := err.(*Error); ok {
			e.JITLog = cString(log)
		}
		return nil, err
	}
	m.object = d.hold("cuModuleUnload", func() Result { return d.t.ModuleUnload(m.handle) })
	return m, nil
}

// requiredVersion is the oldest driver that takes a PTX text, by its .version; 0 if it has none, as a cubin.
func requiredVersion(image []byte) int {
	for line := range bytes.Lines(image) {
		var major, minor int
		if n, _ := fmt.Sscanf(string(bytes.TrimSpace(line)), ".version %d.%d", &major, &minor); n == 2 {
			return versionOf(major, minor)
		}
		if bytes.HasPrefix(line, []byte(".target")) {
			break
		}
	}
	return 0
}

// versionOf is the CUDA that brought a version of PTX, by the table of releases in NVIDIA's PTX ISA: 7.x came with 11.x,
// 8.0 to 8.5 with 12.0 to 12.5, 8.6 and later with one minor version more, 9.x with 13.x.
func versionOf(major, minor int) int {
	if major < 7 {
		return 0
	}
	if major == 8 && minor >= 6 {
		minor++
	}
	return 1000*(major+4) + 10*minor
}

// Function is a kernel of a module. It lives as long as the module.
type Function struct {
	module *Module
	handle FunctionHandle
	name   string
}

// Function finds a kernel by its symbol.
func (m *Module) Function(name string) (*Function, error) {
	f := &Function{module: m, name: name}
	err := m.do("cuModuleGetFunction", func() Result { return m.device.t.ModuleGetFunction(&f.handle, m.handle, name) })
	if err != nil {
		if e, ok := err.(*Error); ok && e.Code == NotFound {
			e.Hint = fmt.Sprintf("the module has no kernel %q", name)
		}
		return nil, err
	}
	return f, nil
}

// Attribute returns a property of the kernel on its device.
func (f *Function) Attribute(a FuncAttribute) (int, error) {
	var value int32
	m := f.module
	err := m.do("cuFuncGetAttribute", func() Result { return m.device.t.FuncGetAttribute(&value, a, f.handle) })
	return int(value), err
}

// SetAttribute sets a property, such as FuncMaxDynamicShared before a launch that wants more than 48 KiB of it.
func (f *Function) SetAttribute(a FuncAttribute, value int) error {
	m := f.module
	return m.do("cuFuncSetAttribute", func() Result { return m.device.t.FuncSetAttribute(f.handle, a, int32(value)) })
}

// MaxBlocks is how many blocks of so many threads a multiprocessor holds at a time.
func (f *Function) MaxBlocks(blockSize int, sharedBytes uint64) (int, error) {
	var blocks int32
	m := f.module
	err := m.do("cuOccupancyMaxActiveBlocksPerMultiprocessor", func() Result {
		return m.device.t.OccupancyMaxBlocks(&blocks, f.handle, int32(blockSize), sharedBytes)
	})
	return int(blocks), err
}
