package sim

import "github.com/bitnet-autotune/bitnet-autotune/cuda/driver"

// names are those of the results, without CUDA_ERROR_, and the driver's words for them.
var names = map[driver.Result][2]string{
	driver.InvalidValue:         {"INVALID_VALUE", "invalid argument"},
	driver.OutOfMemory:          {"OUT_OF_MEMORY", "out of memory"},
	driver.NotInitialized:       {"NOT_INITIALIZED", "initialization error"},
	driver.Deinitialized:        {"DEINITIALIZED", "driver shutting down"},
	driver.StubLibrary:          {"STUB_LIBRARY", "CUDA driver is a stub library"},
	driver.NoDevice:             {"NO_DEVICE", "no CUDA-capable device is detected"},
	driver.InvalidDevice:        {"INVALID_DEVICE", "invalid device ordinal"},
	driver.InvalidImage:         {"INVALID_IMAGE", "device kernel image is invalid"},
	driver.InvalidContext:       {"INVALID_CONTEXT", "invalid device context"},
	driver.NoBinaryForGPU:       {"NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
	peerAccessUnsupported:       {"PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
	driver.InvalidPTX:           {"INVALID_PTX", "a PTX JIT compilation failed"},
	driver.JITCompilerNotFound:  {"JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
	driver.UnsupportedPTX:       {"UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
	driver.InvalidHandle:        {"INVALID_HANDLE", "invalid resource handle"},
	driver.NotFound:             {"NOT_FOUND", "named symbol not found"},
	driver.NotReady:             {"NOT_READY", "device not ready"},
	driver.IllegalAddress:       {"ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	driver.LaunchOutOfResources: {"LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	driver.LaunchTimeout:        {"LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
	peerAccessAlreadyEnabled:    {"PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
	driver.IllegalInstruction:   {"ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
	driver.MisalignedAddress:    {"MISALIGNED_ADDRESS", "misaligned address"},
	driver.LaunchFailed:         {"LAUNCH_FAILED", "unspecified launch failure"},
	driver.NotPermitted:         {"NOT_PERMITTED", "operation not permitted"},
	driver.NotSupported:         {"NOT_SUPPORTED", "operation not supported"},
	driver.CaptureUnsupported:   {"STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	captureInvalidated:          {"STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
	captureImplicit:             {"STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"},
	captureWrongThread:          {"STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread"},
	driver.Unknown:              {"UNKNOWN", "unknown error"},
}

func errorName(r driver.Result) string {
	if r == driver.Success {
		return "CUDA_SUCCESS"
	}
	if name, found := names[r]; found {
		return "CUDA_ERROR_" + name[0]
	}
	return ""
}

func errorString(r driver.Result) string {
	if r == driver.Success {
		return "no error"
	}
	return names[r][1]
}
