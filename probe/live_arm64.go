package probe

import "golang.org/x/sys/cpu"

// liveCPU asks the hardware capabilities that the kernel hands to every process.
func liveCPU() Inputs {
	var have Feature
	if cpu.ARM64.HasASIMD {
		have |= NEON
	}
	if cpu.ARM64.HasASIMDDP {
		have |= DotProd
	}
	if cpu.ARM64.HasI8MM {
		have |= I8MM
	}
	return Inputs{Features: have.Without(^have)}
}
