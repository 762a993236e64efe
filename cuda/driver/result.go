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
	DeviceUnavailable    Result = 46
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
	SystemNotReady       Result = 802
	SystemDriverMismatch Result = 803
	CompatNotSupported   Result = 804
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
