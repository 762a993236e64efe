package driver

import "unsafe"

// Handles and addresses of the driver, as wide as in C.
type (
	Device    int32   // CUdevice: an ordinal, not an identity; see Table.DeviceGetUUID
	Context   uintptr // CUcontext
	Module    uintptr // CUmodule
	Function  uintptr // CUfunction
	Stream    uintptr // CUstream; 0 is the legacy default stream
	Event     uintptr // CUevent
	Graph     uintptr // CUgraph
	GraphExec uintptr // CUgraphExec
	MemPool   uintptr // CUmemoryPool
	Ptr       uint64  // CUdeviceptr: an address on a device
	MemHandle uint64  // CUmemGenericAllocationHandle: physical memory without an address
)

// Table is the part of the CUDA driver API that this project uses, each function with C's arguments: pointers are
// out-parameters, and a result other than Success leaves them as they were. Load fills it from the library of the
// machine; a test fills it from a simulator. A nil function is one that this driver does not have.
//
// Functions from CtxSynchronize on work in the context that is current on the calling OS thread.
type Table struct {
	Init                    func(flags uint32) Result
	DriverGetVersion        func(version *int32) Result // 1000 major + 10 minor
	DeviceGetCount          func(count *int32) Result
	DeviceGet               func(dev *Device, ordinal int32) Result
	DeviceGetName           func(name *byte, size int32, dev Device) Result // ends in a zero byte
	DeviceGetUUID           func(uuid *[16]byte, dev Device) Result
	DeviceGetPCIBusID       func(id *byte, size int32, dev Device) Result // "0000:81:00.0" and a zero byte
	DeviceTotalMem          func(bytes *uint64, dev Device) Result
	DeviceGetAttribute      func(value *int32, attribute Attribute, dev Device) Result
	DeviceCanAccessPeer     func(can *int32, dev, peer Device) Result
	DeviceGetDefaultMemPool func(pool *MemPool, dev Device) Result
	DevicePrimaryCtxRetain  func(ctx *Context, dev Device) Result
	DevicePrimaryCtxRelease func(dev Device) Result
	DevicePrimaryCtxReset   func(dev Device) Result
	CtxSetCurrent           func(ctx Context) Result
	CtxGetCurrent           func(ctx *Context) Result
	GetErrorName            func(result Result) string
	GetErrorString          func(result Result) string

	CtxSynchronize      func() Result
	CtxEnablePeerAccess func(peer Context, flags uint32) Result
	MemGetInfo          func(free, total *uint64) Result
	MemAlloc            func(p *Ptr, bytes uint64) Result
	MemFree             func(p Ptr) Result
	MemAllocHost        func(p *unsafe.Pointer, bytes uint64) Result // pinned
	MemFreeHost         func(p unsafe.Pointer) Result
	MemAllocAsync       func(p *Ptr, bytes uint64, stream Stream) Result
	MemFreeAsync        func(p Ptr, stream Stream) Result
	MemPoolSetAttribute func(pool MemPool, attribute int32, value unsafe.Pointer) Result
	MemPoolTrimTo       func(pool MemPool, keep uint64) Result

	// Virtual memory: addresses, physical memory and their connection apart.
	MemGetAllocationGranularity func(bytes *uint64, prop *MemProp, option uint32) Result
	MemAddressReserve           func(p *Ptr, bytes, alignment uint64, hint Ptr, flags uint64) Result
	MemAddressFree              func(p Ptr, bytes uint64) Result
	MemCreate                   func(handle *MemHandle, bytes uint64, prop *MemProp, flags uint64) Result
	MemRelease                  func(handle MemHandle) Result
	MemMap                      func(p Ptr, bytes, offset uint64, handle MemHandle, flags uint64) Result
	MemUnmap                    func(p Ptr, bytes uint64) Result
	MemSetAccess                func(p Ptr, bytes uint64, desc *MemAccess, count uint64) Result

	MemcpyHtoD      func(dst Ptr, src unsafe.Pointer, bytes uint64) Result
	MemcpyDtoH      func(dst unsafe.Pointer, src Ptr, bytes uint64) Result
	MemcpyDtoD      func(dst, src Ptr, bytes uint64) Result
	MemcpyHtoDAsync func(dst Ptr, src unsafe.Pointer, bytes uint64, stream Stream) Result
	MemcpyDtoHAsync func(dst unsafe.Pointer, src Ptr, bytes uint64, stream Stream) Result
	MemcpyDtoDAsync func(dst, src Ptr, bytes uint64, stream Stream) Result
	MemcpyPeerAsync func(dst Ptr, dstCtx Context, src Ptr, srcCtx Context, bytes uint64, stream Stream) Result
	MemsetD8Async   func(dst Ptr, value uint8, bytes uint64, stream Stream) Result
	MemsetD32Async  func(dst Ptr, value uint32, words uint64, stream Stream) Result

	StreamCreate       func(stream *Stream, flags uint32) Result
	StreamDestroy      func(stream Stream) Result
	StreamSynchronize  func(stream Stream) Result
	StreamQuery        func(stream Stream) Result
	StreamWaitEvent    func(stream Stream, event Event, flags uint32) Result
	StreamBeginCapture func(stream Stream, mode uint32) Result
	StreamEndCapture   func(stream Stream, graph *Graph) Result
	GraphInstantiate   func(exec *GraphExec, graph Graph, flags uint64) Result
	GraphLaunch        func(exec GraphExec, stream Stream) Result
	GraphExecDestroy   func(exec GraphExec) Result
	GraphDestroy       func(graph Graph) Result

	EventCreate      func(event *Event, flags uint32) Result
	EventDestroy     func(event Event) Result
	EventRecord      func(event Event, stream Stream) Result
	EventQuery       func(event Event) Result
	EventSynchronize func(event Event) Result
	EventElapsedTime func(milliseconds *float32, start, end Event) Result

	// ModuleLoadDataEx takes PTX text that ends in a zero byte, or a cubin. The values of pointer options are pointers,
	// the others are the number itself in the word.
	ModuleLoadDataEx   func(module *Module, image unsafe.Pointer, n uint32, options *JITOption, values *uintptr) Result
	ModuleUnload       func(module Module) Result
	ModuleGetFunction  func(f *Function, module Module, name string) Result
	FuncGetAttribute   func(value *int32, attribute FuncAttribute, f Function) Result
	FuncSetAttribute   func(f Function, attribute FuncAttribute, value int32) Result
	OccupancyMaxBlocks func(blocks *int32, f Function, blockSize int32, sharedBytes uint64) Result
	LaunchKernel       func(f Function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, stream Stream, params *unsafe.Pointer, extra *unsafe.Pointer) Result
}

// MemProp says what physical memory to make: CUmemAllocationProp, of which Type 1 (pinned) and Location 1 (device) are
// used.
type MemProp struct {
	Type, HandleTypes, LocationType int32
	LocationID                      int32
	Win32                           uintptr
	Flags                           [8]byte
}

// MemAccess lets a device use mapped memory: CUmemAccessDesc. Access 3 is reading and writing.
type MemAccess struct {
	LocationType, LocationID, Access int32
}
