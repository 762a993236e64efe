//go:build amd64 || arm64

package driver

import (
	"cmp"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// libraries are where the driver's library is looked for: by the dynamic loader, then where it is on WSL and where
// container images of the GKE kind mount it.
var libraries = []string{"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"}

// Load fills a table from the driver's library of this machine. The library stays loaded as long as the process.
func Load(opt Options) (Table, error) {
	places := libraries
	if opt.Library != "" {
		places = []string{opt.Library}
	}
	var refused *Error
	for _, place := range places {
		if _, err := os.Stat(place); err != nil && strings.HasPrefix(place, "/") && opt.Library == "" {
			continue
		}
		lib, err := open(place)
		if err == nil {
			return lib.table(), nil
		}
		refused = cmp.Or(refused, &Error{Op: "load " + place, Kind: ErrNoDriver, Text: err.Error()})
	}
	return Table{}, refused
}

// library is the handle of a loaded library.
type library uintptr

func open(path string) (library, error) {
	runtime.LockOSThread() // what went wrong is kept for the thread
	defer runtime.UnlockOSThread()
	l, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	return library(l), err
}

// symbol returns the address of a function, or 0.
func (l library) symbol(name string) uintptr {
	f, err := purego.Dlsym(uintptr(l), name)
	if err != nil {
		return 0
	}
	return f
}

// table binds every function that the library has.
func (l library) table() Table {
	var t Table
	bind1(l, "cuInit", &t.Init)
	bind1(l, "cuDriverGetVersion", &t.DriverGetVersion)
	bind1(l, "cuDeviceGetCount", &t.DeviceGetCount)
	bind2(l, "cuDeviceGet", &t.DeviceGet)
	bind3(l, "cuDeviceGetName", &t.DeviceGetName)
	bind2(l, "cuDeviceGetUuid_v2", &t.DeviceGetUUID)
	bind3(l, "cuDeviceGetPCIBusId", &t.DeviceGetPCIBusID)
	bind2(l, "cuDeviceTotalMem_v2", &t.DeviceTotalMem)
	bind3(l, "cuDeviceGetAttribute", &t.DeviceGetAttribute)
	bind3(l, "cuDeviceCanAccessPeer", &t.DeviceCanAccessPeer)
	bind2(l, "cuDeviceGetDefaultMemPool", &t.DeviceGetDefaultMemPool)
	bind2(l, "cuDevicePrimaryCtxRetain", &t.DevicePrimaryCtxRetain)
	bind1(l, "cuDevicePrimaryCtxRelease_v2", &t.DevicePrimaryCtxRelease)
	bind1(l, "cuDevicePrimaryCtxReset_v2", &t.DevicePrimaryCtxReset)
	bind1(l, "cuCtxSetCurrent", &t.CtxSetCurrent)
	bind1(l, "cuCtxGetCurrent", &t.CtxGetCurrent)

	bind0(l, "cuCtxSynchronize", &t.CtxSynchronize)
	bind2(l, "cuCtxEnablePeerAccess", &t.CtxEnablePeerAccess)
	bind2(l, "cuMemGetInfo_v2", &t.MemGetInfo)
	bind2(l, "cuMemAlloc_v2", &t.MemAlloc)
	bind1(l, "cuMemFree_v2", &t.MemFree)
	bind2(l, "cuMemAllocHost_v2", &t.MemAllocHost)
	bind1(l, "cuMemFreeHost", &t.MemFreeHost)
	bind3(l, "cuMemAllocAsync", &t.MemAllocAsync)
	bind2(l, "cuMemFreeAsync", &t.MemFreeAsync)
	bind3(l, "cuMemPoolSetAttribute", &t.MemPoolSetAttribute)
	bind2(l, "cuMemPoolTrimTo", &t.MemPoolTrimTo)

	bind3(l, "cuMemGetAllocationGranularity", &t.MemGetAllocationGranularity)
	bind5(l, "cuMemAddressReserve", &t.MemAddressReserve)
	bind2(l, "cuMemAddressFree", &t.MemAddressFree)
	bind4(l, "cuMemCreate", &t.MemCreate)
	bind1(l, "cuMemRelease", &t.MemRelease)
	bind5(l, "cuMemMap", &t.MemMap)
	bind2(l, "cuMemUnmap", &t.MemUnmap)
	bind4(l, "cuMemSetAccess", &t.MemSetAccess)

	bind3(l, "cuMemcpyHtoD_v2", &t.MemcpyHtoD)
	bind3(l, "cuMemcpyDtoH_v2", &t.MemcpyDtoH)
	bind3(l, "cuMemcpyDtoD_v2", &t.MemcpyDtoD)
	bind4(l, "cuMemcpyHtoDAsync_v2", &t.MemcpyHtoDAsync)
	bind4(l, "cuMemcpyDtoHAsync_v2", &t.MemcpyDtoHAsync)
	bind4(l, "cuMemcpyDtoDAsync_v2", &t.MemcpyDtoDAsync)
	bind6(l, "cuMemcpyPeerAsync", &t.MemcpyPeerAsync)
	bind4(l, "cuMemsetD8Async", &t.MemsetD8Async)
	bind4(l, "cuMemsetD32Async", &t.MemsetD32Async)

	bind2(l, "cuStreamCreate", &t.StreamCreate)
	bind1(l, "cuStreamDestroy_v2", &t.StreamDestroy)
	bind1(l, "cuStreamSynchronize", &t.StreamSynchronize)
	bind1(l, "cuStreamQuery", &t.StreamQuery)
	bind3(l, "cuStreamWaitEvent", &t.StreamWaitEvent)
	bind2(l, "cuStreamBeginCapture_v2", &t.StreamBeginCapture)
	bind2(l, "cuStreamEndCapture", &t.StreamEndCapture)
	bind3(l, "cuGraphInstantiateWithFlags", &t.GraphInstantiate)
	bind2(l, "cuGraphLaunch", &t.GraphLaunch)
	bind1(l, "cuGraphExecDestroy", &t.GraphExecDestroy)
	bind1(l, "cuGraphDestroy", &t.GraphDestroy)

	bind2(l, "cuEventCreate", &t.EventCreate)
	bind1(l, "cuEventDestroy_v2", &t.EventDestroy)
	bind2(l, "cuEventRecord", &t.EventRecord)
	bind1(l, "cuEventQuery", &t.EventQuery)
	bind1(l, "cuEventSynchronize", &t.EventSynchronize)
	bind3(l, "cuEventElapsedTime", &t.EventElapsedTime)

	bind5(l, "cuModuleLoadDataEx", &t.ModuleLoadDataEx)
	bind1(l, "cuModuleUnload", &t.ModuleUnload)
	bind3(l, "cuFuncGetAttribute", &t.FuncGetAttribute)
	bind3(l, "cuFuncSetAttribute", &t.FuncSetAttribute)
	bind4(l, "cuOccupancyMaxActiveBlocksPerMultiprocessor", &t.OccupancyMaxBlocks)

	if f := l.symbol("cuGetErrorName"); f != 0 {
		t.GetErrorName = func(r Result) string { return text(f, r) }
	}
	if f := l.symbol("cuGetErrorString"); f != 0 {
		t.GetErrorString = func(r Result) string { return text(f, r) }
	}
	if f := l.symbol("cuModuleGetFunction"); f != 0 {
		t.ModuleGetFunction = func(handle *FunctionHandle, module ModuleHandle, name string) Result {
			bytes := append([]byte(name), 0)
			return call(f, uintptr(unsafe.Pointer(handle)), uintptr(module), uintptr(unsafe.Pointer(&bytes[0])))
		}
	}
	if f := l.symbol("cuLaunchKernel"); f != 0 {
		t.LaunchKernel = func(kernel FunctionHandle, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32,
			stream StreamHandle, params *unsafe.Pointer, extra *LaunchExtra) Result {
			return call(f, uintptr(kernel), uintptr(gridX), uintptr(gridY), uintptr(gridZ), uintptr(blockX), uintptr(blockY), uintptr(blockZ),
				uintptr(sharedBytes), uintptr(stream), uintptr(unsafe.Pointer(params)), uintptr(unsafe.Pointer(extra)))
		}
	}
	return t
}

// call calls a function of C. purego.SyscallN costs about a fifth of a function that purego itself makes of a Go type.
//
//go:uintptrescapes
func call(f uintptr, args ...uintptr) Result {
	r, _, _ := purego.SyscallN(f, args...)
	return Result(int32(r))
}

// text asks for the text of a result, which C returns in a pointer to its own memory.
func text(f uintptr, r Result) string {
	var p *byte
	if call(f, uintptr(r), uintptr(unsafe.Pointer(&p))) != Success {
		return ""
	}
	return unix.BytePtrToString(p)
}

// word is an argument as C takes it. The functions of the table are called through pointers, so the compiler puts
// whatever their arguments point to on the heap, where it does not move; the binds keep it alive for the call.
func word[A any](a A) uintptr {
	switch unsafe.Sizeof(a) {
	case 1:
		return uintptr(*(*uint8)(unsafe.Pointer(&a)))
	case 4:
		return uintptr(*(*uint32)(unsafe.Pointer(&a)))
	default:
		return *(*uintptr)(unsafe.Pointer(&a))
	}
}

func bind0(l library, name string, to *func() Result) {
	if fn := l.symbol(name); fn != 0 {
		*to = func() Result { return call(fn) }
	}
}

func bind1[A any](l library, name string, to *func(A) Result) {
	if fn := l.symbol(name); fn != 0 {
		*to = func(a A) Result {
			r := call(fn, word(a))
			runtime.KeepAlive(a)
			return r
		}
	}
}

func bind2[A, B any](l library, name string, to *func(A, B) Result) {
	if fn := l.symbol(name); fn != 0 {
		*to = func(a A, b B) Result {
			r := call(fn, word(a), word(b))
			runtime.KeepAlive(a)
			runtime.KeepAlive(b)
			return r
		}
	}
}

func bind3[A, B, C any](l library, name string, to *func(A, B, C) Result) {
	if fn := l.symbol(name); fn != 0 {
		*to = func(a A, b B, c C) Result {
			r := call(fn, word(a), word(b), word(c))
			runtime.KeepAlive(a)
			runtime.KeepAlive(b)
			runtime.KeepAlive(c)
			return r
		}
	}
}

func bind4[A, B, C, D any](l library, name string, to *func(A, B, C, D) Result) {
	if fn := l.symbol(name); fn != 0 {
		*to = func(a A, b B, c C, d D) Result {
			r := call(fn, word(a), word(b), word(c), word(d))
			runtime.KeepAlive(a)
			runtime.KeepAlive(b)
			runtime.KeepAlive(c)
			runtime.KeepAlive(d)
			return r
		}
	}
}

func bind5[A, B, C, D, E any](l library, name string, to *func(A, B, C, D, E) Result) {
	if fn := l.symbol(name); fn != 0 {
		*to = func(a A, b B, c C, d D, e E) Result {
			r := call(fn, word(a), word(b), word(c), word(d), word(e))
			runtime.KeepAlive(a)
			runtime.KeepAlive(b)
			runtime.KeepAlive(c)
			runtime.KeepAlive(d)
			runtime.KeepAlive(e)
			return r
		}
	}
}

func bind6[A, B, C, D, E, F any](l library, name string, to *func(A, B, C, D, E, F) Result) {
	if fn := l.symbol(name); fn != 0 {
		*to = func(a A, b B, c C, d D, e E, f F) Result {
			r := call(fn, word(a), word(b), word(c), word(d), word(e), word(f))
			runtime.KeepAlive(a)
			runtime.KeepAlive(b)
			runtime.KeepAlive(c)
			runtime.KeepAlive(d)
			runtime.KeepAlive(e)
			runtime.KeepAlive(f)
			return r
		}
	}
}
