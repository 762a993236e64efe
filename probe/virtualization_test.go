package probe

import "testing"

func TestVirtualization(t *testing.T) {
	for _, c := range []struct{ flags, xen, vendor, product, want string }{
		{"fpu avx", "", "Dell Inc.", "PowerEdge R750", "none"},
		{"fpu avx", "", "QEMU", "Standard PC", "none"}, // the CPU's word, not the firmware's
		{"fpu hypervisor", "", "QEMU", "Standard PC", "kvm"},
		{"fpu hypervisor", "", "Google", "Google Compute Engine", "kvm"},
		{"fpu hypervisor", "", "VMware, Inc.", "VMware7,1", "vmware"},
		{"fpu hypervisor", "", "Microsoft Corporation", "Virtual Machine", "hyperv"},
		{"fpu hypervisor", "", "Microsoft Corporation", "Surface Pro", "vm"},
		{"fpu hypervisor", "", "innotek GmbH", "VirtualBox", "virtualbox"},
		{"fpu hypervisor", "xen", "Xen", "HVM domU", "xen"},
		{"fpu hypervisor", "", "", "", "vm"},
		{"", "", "Amazon EC2", "c7g.4xlarge", "kvm"}, // ARM: no flag
		{"", "", "Amazon EC2", "c7g.metal", "none"},
		{"", "", "", "", ""},
	} {
		tree := machine(t, "vm-without-caches")
		set("proc/cpuinfo", "processor: 0\nflags: "+c.flags, "sys/hypervisor/type", c.xen,
			"sys/class/dmi/id/sys_vendor", c.vendor, "sys/class/dmi/id/product_name", c.product)(tree, nil)
		if got := read(t, tree, Inputs{Arch: "amd64"}).Virtualization; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
