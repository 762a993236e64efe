package probe

import "github.com/klauspost/cpuid/v2"

// liveCPU asks CPUID and, through XGETBV, what the operating system has enabled in XCR0.
func liveCPU() Inputs {
	var have Feature
	for feature, needs := range map[Feature][]cpuid.FeatureID{
		SSE42:      {cpuid.SSE42},
		AVX:        {cpuid.AVX},
		AVX2:       {cpuid.AVX2},
		AVXVNNI:    {cpuid.AVXVNNI},
		AVX512:     {cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL},
		AVX512VNNI: {cpuid.AVX512VNNI},
		AVX512VBMI: {cpuid.AVX512VBMI},
	} {
		if cpuid.CPU.Supports(needs...) {
			have |= feature
		}
	}
	return Inputs{Features: have.Without(^have), Hypervisor: liveHypervisor()}
}

// liveHypervisor is "none" on bare metal, and "" where a hypervisor hides its name.
func liveHypervisor() string {
	if !cpuid.CPU.VM() {
		return "none"
	}
	return map[cpuid.Vendor]string{
		cpuid.KVM: "kvm", cpuid.QEMU: "qemu", cpuid.MSVM: "hyperv", cpuid.VMware: "vmware", cpuid.XenHVM: "xen", cpuid.Bhyve: "bhyve",
	}[cpuid.CPU.HypervisorVendorID]
}
