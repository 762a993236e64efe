package driver

import "unsafe"

// Handles and addresses of the driver, as wide as in C.
type (
	DeviceHandle    int32   // CUdevice: an ordinal, not an identity; see Table.DeviceGetUUID
	ContextHandle   uintptr // CUcontext
	ModuleHandle    uintptr // CUmodule
	FunctionHandle  uintptr // CUfunction
	StreamHandle    uintptr // CUstream; 0 is the legacy default stream
	EventHandle     uintptr // CUevent
	GraphHandle     uintptr // CUgraph
	GraphExecHandle uintptr // CUgraphExec
	PoolHandle      uintptr // CUmemoryPool
	Ptr             uint64  // CUdeviceptr: an address on a device
	MemHandle       uint64  // CUmemGenericAllocationHandle: physical memory without an address
)

// Table is the part of the CUDA driver API that this project uses, each function with C's arguments: pointers are
// out-parameters, and a result other than Success leaves them as they were. Load fills it from the library of the
// machine; a test fills it from a simulator. A nil function is one that this driver does not have; only those marked
// optional may be nil.
//
// Functions from CtxSynchronize on work in the context that is current on the calling OS thread.
type Table struct {
	Init                    func(flags uint32) Result
	DriverGetVersion        func(version *int32) Result // 1000 major + 10 minor
	DeviceGetCount          func(count *int32) Result
	DeviceGet               func(dev *DeviceHandle, ordinal int32) Result
	DeviceGetName           func(name *byte, size int32, dev DeviceHandle) Result // ends in a zero byte
	DeviceGetUUID           func(uuid *[16]byte, dev DeviceHandle) Result
	DeviceGetPCIBusID       func(id *byte, size int32, dev DeviceHandle) Result // "0000:81:00.0" and a zero byte
	DeviceTotalMem          func(bytes *uint64, dev DeviceHandle) Result
	DeviceGetAttribute      func(value *int32, attribute Attribute, dev DeviceHandle) Result
	DeviceCanAccessPeer     func(can *int32, dev, peer DeviceHandle) Result `cuda:"optional"`
	DeviceGetDefaultMemPool func(pool *PoolHandle, dev DeviceHandle) Result `cuda:"optional"`
	DevicePrimaryCtxRetain  func(ctx *ContextHandle, dev DeviceHandle) Result
	DevicePrimaryCtxRelease func(dev DeviceHandle) Result
	DevicePrimaryCtxReset   func(dev DeviceHandle) Result
	CtxSetCurrent           func(ctx ContextHandle) Result
	CtxGetCurrent           func(ctx *ContextHandle) Result
	GetErrorName            func(result Result) string `cuda:"optional"`
	GetErrorString          func(result Result) string `cuda:"optional"`

	CtxSynchronize      func() Result
	CtxEnablePeerAccess func(peer ContextHandle, flags uint32) Result `cuda:"optional"`
	MemGetInfo          func(free, total *uint64) Result
	MemAlloc            func(p *Ptr, bytes uint64) Result
	MemFree             func(p Ptr) Result
	MemAllocHost        func(p *unsafe.Pointer, bytes uint64) Result                        `cuda:"optional"` // pinned
	MemFreeHost         func(p unsafe.Pointer) Result                                       `cuda:"optional"`
	MemAllocAsync       func(p *Ptr, bytes uint64, stream StreamHandle) Result              `cuda:"optional"`
	MemFreeAsync        func(p Ptr, stream StreamHandle) Result                             `cuda:"optional"`
	MemPoolSetAttribute func(pool PoolHandle, attribute int32, value unsafe.Pointer) Result `cuda:"optional"`
	MemPoolTrimTo       func(pool PoolHandle, keep uint64) Result                           `cuda:"optional"`

	// Virtual memory: addresses, physical memory and their connection apart.
	MemGetAllocationGranularity func(bytes *uint64, prop *MemProp, option uint32) Result                  `cuda:"optional"`
	MemAddressReserve           func(p *Ptr, bytes, alignment uint64, hint Ptr, flags uint64) Result      `cuda:"optional"`
	MemAddressFree              func(p Ptr, bytes uint64) Result                                          `cuda:"optional"`
	MemCreate                   func(handle *MemHandle, bytes uint64, prop *MemProp, flags uint64) Result `cuda:"optional"`
	MemRelease                  func(handle MemHandle) Result                                             `cuda:"optional"`
	MemMap                      func(p Ptr, bytes, offset uint64, handle MemHandle, flags uint64) Result  `cuda:"optional"`
	MemUnmap                    func(p Ptr, bytes uint64) Result                                          `cuda:"optional"`
	MemSetAccess                func(p Ptr, bytes uint64, desc *MemAccess, count uint64) Result           `cuda:"optional"`

	MemcpyHtoD      func(dst Ptr, src unsafe.Pointer, bytes uint64) Result
	MemcpyDtoH      func(dst unsafe.Pointer, src Ptr, bytes uint64) Result
	MemcpyDtoD      func(dst, src Ptr, bytes uint64) Result
	MemcpyHtoDAsync func(dst Ptr, src unsafe.Pointer, bytes uint64, stream StreamHandle) Result
	MemcpyDtoHAsync func(dst unsafe.Pointer, src Ptr, bytes uint64, stream StreamHandle) Result
	MemcpyDtoDAsync func(dst, src Ptr, bytes uint64, stream StreamHandle) Result
	MemcpyPeerAsync func(dst Ptr, dstCtx ContextHandle, src Ptr, srcCtx ContextHandle, bytes uint64, stream StreamHandle) Result `cuda:"optional"`
	MemsetD8Async   func(dst Ptr, value uint8, bytes uint64, stream StreamHandle) Result
	MemsetD32Async  func(dst Ptr, value uint32, words uint64, stream StreamHandle) Result

	StreamCreate       func(stream *StreamHandle, flags uint32) Result
	StreamDestroy      func(stream StreamHandle) Result
	StreamSynchronize  func(stream StreamHandle) Result
	StreamQuery        func(stream StreamHandle) Result
	StreamWaitEvent    func(stream StreamHandle, event EventHandle, flags uint32) Result
	StreamBeginCapture func(stream StreamHandle, mode uint32) Result
	StreamEndCapture   func(stream StreamHandle, graph *GraphHandle) Result
	GraphInstantiate   func(exec *GraphExecHandle, graph GraphHandle, flags uint64) Result
	GraphLaunch        func(exec GraphExecHandle, stream StreamHandle) Result
	GraphExecDestroy   func(exec GraphExecHandle) Result
	GraphDestroy       func(graph GraphHandle) Result

	EventCreate      func(event *EventHandle, flags uint32) Result
	EventDestroy     func(event EventHandle) Result
	EventRecord      func(event EventHandle, stream StreamHandle) Result
	EventQuery       func(event EventHandle) Result
	EventSynchronize func(event EventHandle) Result
	EventElapsedTime func(milliseconds *float32, start, end EventHandle) Result

	// ModuleLoadDataEx takes PTX text that ends in a zero byte, or a cubin. The values of pointer options are pointers,
	// the others are the number itself in the word.
	ModuleLoadDataEx   func(module *ModuleHandle, image unsafe.Pointer, n uint32, options *JITOption, values *uintptr) Result
	ModuleUnload       func(module ModuleHandle) Result
	ModuleGetFunction  func(f *FunctionHandle, module ModuleHandle, name string) Result
	FuncGetAttribute   func(value *int32, attribute FuncAttribute, f FunctionHandle) Result
	FuncSetAttribute   func(f FunctionHandle, attribute FuncAttribute, value int32) Result
	OccupancyMaxBlocks func(blocks *int32, f FunctionHandle, blockSize int32, sharedBytes uint64) Result
	LaunchKernel       func(f FunctionHandle, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, stream StreamHandle, params *unsafe.Pointer, extra *LaunchExtra) Result
}

// LaunchExtra is the extra argument of LaunchKernel, C's list of five words, as the project fills it: all parameters of
// the kernel packed into one buffer, each aligned to its own size.
type LaunchExtra struct {
	BufferTag uintptr // 1: the next word is the buffer
	Buffer    unsafe.Pointer
	SizeTag   uintptr // 2: the next word is where its size stands
	Size      *uint64
	End       uintptr // 0
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
