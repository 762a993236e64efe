package driver

// Result is what every function of the driver returns: CUresult.
type Result int32

// The results that the project tells apart.
const (
	Success              Result = 0
	InvalidValue         Result = 1
	OutOfMemory          Result = 2
	NotInitialized       Result = 3
	Deinitialized        Result = 4
	StubLibrary          Result = 34
	NoDevice             Result = 100
	InvalidDevice        Result = 101
	InvalidImage         Result = 200
	InvalidContext       Result = 201
	MapFailed            Result = 205
	NoBinaryForGPU       Result = 209
	ECCUncorrectable     Result = 214
	InvalidPTX           Result = 218
	JITCompilerNotFound  Result = 221
	UnsupportedPTX       Result = 222
	InvalidHandle        Result = 400
	NotFound             Result = 500
	NotReady             Result = 600
	IllegalAddress       Result = 700
	LaunchOutOfResources Result = 701
	LaunchTimeout        Result = 702
	Assert               Result = 710
	HardwareStackError   Result = 714
	IllegalInstruction   Result = 715
	MisalignedAddress    Result = 716
	InvalidAddressSpace  Result = 717
	InvalidPC            Result = 718
	LaunchFailed         Result = 719
	NotPermitted         Result = 800
	NotSupported         Result = 801
	SystemDriverMismatch Result = 803
	CaptureUnsupported   Result = 900
	Unknown              Result = 999
)

// Sticky reports whether the context is lost after r: every later call fails until it is reset.
func (r Result) Sticky() bool {
	switch r {
	case IllegalAddress, LaunchTimeout, Assert, ECCUncorrectable:
		return true
	}
	return r >= HardwareStackError && r <= LaunchFailed
}

// Attribute is a property of a device: CUdevice_attribute.
type Attribute int32

// The attributes that are read.
const (
	MaxThreadsPerBlock       Attribute = 1
	MaxSharedMemoryPerBlock  Attribute = 8
	TotalConstantMemory      Attribute = 9
	WarpSize                 Attribute = 10
	MaxRegistersPerBlock     Attribute = 12
	ClockRateKHz             Attribute = 13
	MultiprocessorCount      Attribute = 16
	MemoryClockRateKHz       Attribute = 36
	MemoryBusWidthBits       Attribute = 37
	L2CacheBytes             Attribute = 38
	MaxThreadsPerMultiproc   Attribute = 39
	UnifiedAddressing        Attribute = 41
	CapabilityMajor          Attribute = 75
	CapabilityMinor          Attribute = 76
	MaxSharedPerMultiproc    Attribute = 81
	MaxRegistersPerMultiproc Attribute = 82
	MaxSharedPerBlockOptin   Attribute = 97
	VirtualMemorySupported   Attribute = 102
	MemoryPoolsSupported     Attribute = 115
)

// FuncAttribute is a property of a function: CUfunction_attribute.
type FuncAttribute int32

// The function attributes that are read or set.
const (
	FuncMaxThreadsPerBlock FuncAttribute = 0
	FuncStaticSharedBytes  FuncAttribute = 1
	FuncLocalBytes         FuncAttribute = 3 // spilled registers
	FuncRegisters          FuncAttribute = 4
	FuncMaxDynamicShared   FuncAttribute = 8
)

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
