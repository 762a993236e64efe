package probe

import (
	"slices"
	"strings"
)

// readVirtualization names the hypervisor: the caller's word, then that of Xen, the firmware and the CPU's flags.
// "none" is bare metal, "vm" one that does not give its name, "" unknown. Containers do not count.
func readVirtualization(t *tree, in Inputs, info cpuinfo) string {
	if in.Hypervisor != "" {
		return in.Hypervisor
	}
	if kind := t.value("sys/hypervisor/type"); kind != "" {
		return kind
	}
	flags := info.words()
	x86 := info.get(0, "flags") != ""
	if x86 && !flags["hypervisor"] {
		return "none"
	}
	if kind := readFirmware(t); kind != "" {
		return kind
	}
	if x86 {
		return "vm"
	}
	return ""
}

// readFirmware judges by the DMI names that hypervisors and clouds give their machines.
func readFirmware(t *tree) string {
	vendor, product := t.value("sys/class/dmi/id/sys_vendor"), t.value("sys/class/dmi/id/product_name")
	switch {
	case strings.HasSuffix(product, ".metal"):
		return "none"
	case slices.Contains([]string{"QEMU", "Amazon EC2", "Google", "Red Hat"}, vendor):
		return "kvm"
	case strings.HasPrefix(vendor, "VMware"):
		return "vmware"
	case vendor == "Microsoft Corporation" && product == "Virtual Machine":
		return "hyperv"
	case vendor == "innotek GmbH":
		return "virtualbox"
	}
	return ""
}
