//go:build cgo

package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>

// go-nvml leaves the functions of NVML undefined and counts on the dynamic linker to find them when they are first called. Linked
// with -z now, which is the default of some compilers, such a program dies before main on every host without the driver;
// and anywhere it dies, with exit code 127, when it calls a function that its driver lacks. So the functions are defined
// here. Each looks for the library's own, which go-nvml has loaded for all to see, and answers as NVML does if there is none.
enum { function_not_found = 13 }; // NVML_ERROR_FUNCTION_NOT_FOUND

// All functions of NVML take at most six arguments, integers or pointers, which amd64 and arm64 pass in registers.
#define NVML(name)                                                             \
	__attribute__((visibility("hidden"))) int name(long a, long b, long c, long d, long e, long f) { \
		int (*real)(long, long, long, long, long, long) = dlsym(RTLD_DEFAULT, #name); \
		return real ? real(a, b, c, d, e, f) : function_not_found; \
	}
#include "nvml_symbols.h"

__attribute__((visibility("hidden"))) const char *nvmlErrorString(int r) {
	const char *(*real)(int) = dlsym(RTLD_DEFAULT, "nvmlErrorString");
	return real ? real(r) : "unknown error";
}
*/
import "C"

// connect starts NVML.
func connect() (session, error) { return connectTo(nvml.New()) }

func connectTo(lib nvml.Interface) (session, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, errors.New(whyNot(ret))
	}
	return &nvmlSession{lib: lib}, nil
}

// whyNot says why NVML does not start.
func whyNot(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "no NVIDIA driver: there is no libnvidia-ml.so.1"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the NVIDIA kernel module is not loaded, or its devices are not in this container"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission to use the NVIDIA driver: the user or the container needs access to /dev/nvidiactl"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "libnvidia-ml and the NVIDIA kernel module are of different versions: reboot, or mount the library that belongs to the module"
	case nvml.ERROR_FUNCTION_NOT_FOUND:
		return "the NVIDIA driver is too old: its NVML lacks what is needed to start"
	}
	return "NVML does not start: " + reason(ret)
}

// reason is an error of NVML in words and as a number, since some drivers have no words for their newest.
func reason(ret nvml.Return) string { return fmt.Sprintf("%v (%d)", ret.Error(), int32(ret)) }

// nvmlSession is NVML after a successful Init.
type nvmlSession struct{ lib nvml.Interface }

func (s *nvmlSession) close() { s.lib.Shutdown() }

// survey describes every device.
func (s *nvmlSession) survey() Survey {
	var survey Survey
	if version, ret := s.lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		survey.Driver = version
	}
	if version, ret := s.lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		survey.CUDA = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	}
	count, ret := s.lib.DeviceGetCount()
	switch {
	case ret != nvml.SUCCESS:
		survey.Note = "NVML does not count the GPUs: " + reason(ret)
		return survey
	case count == 0:
		survey.Note = "the NVIDIA driver sees no GPU"
		return survey
	}
	var cards []card
	for i := range count {
		device, ret := s.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			survey.GPUs = append(survey.GPUs, GPU{Index: i, Trouble: reason(ret)})
			continue
		}
		cards = append(cards, describe(i, device))
	}
	for i := range cards {
		cards[i].link(cards)
	}
	for _, c := range cards {
		survey.GPUs = append(survey.GPUs, c.usable()...)
	}
	slices.SortStableFunc(survey.GPUs, func(a, b GPU) int { return a.Index - b.Index })
	var troubled []string
	for _, g := range survey.GPUs {
		if g.Trouble != "" {
			troubled = append(troubled, fmt.Sprintf("GPU %d: %s", g.Index, g.Trouble))
		}
	}
	survey.Note = strings.Join(troubled, "; ")
	return survey
}

// card is a device and what is known of it.
type card struct {
	GPU
	device nvml.Device
}

// known reports whether a question was answered, and notes the names of what it left unknown.
func (c *card) known(ret nvml.Return, names ...string) bool {
	if ret == nvml.SUCCESS {
		return true
	}
	if ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED {
		c.Trouble = reason(ret)
	}
	c.Unknown = append(c.Unknown, names...)
	return false
}

func describe(index int, device nvml.Device) card {
	c := card{GPU: GPU{Index: index}, device: device}
	c.identify()
	if major, minor, ret := device.GetCudaComputeCapability(); c.known(ret, "compute_capability") {
		c.ComputeCapability = Capability{major, minor}
	}
	var ret nvml.Return
	c.Memory, ret = memoryOf(device)
	c.known(ret, "memory_total_bytes", "memory_free_bytes")
	if u, ret := device.GetUtilizationRates(); c.known(ret, "utilization") {
		c.Utilization = float64(u.Gpu) / 100
	}
	c.readClocks()
	if t, ret := device.GetTemperature(nvml.TEMPERATURE_GPU); c.known(ret, "temperature_celsius") {
		c.TemperatureCelsius = int(t)
	}
	if mw, ret := device.GetPowerUsage(); c.known(ret, "power_watts") {
		c.PowerWatts = float64(mw) / 1000
	}
	if mw, ret := device.GetEnforcedPowerLimit(); c.known(ret, "power_limit_watts") {
		c.PowerLimitWatts = float64(mw) / 1000
	}
	if bits, ret := device.GetCurrentClocksThrottleReasons(); c.known(ret, "throttled") {
		c.Throttled = throttled(bits)
	}
	if mode, ret := device.GetComputeMode(); ret == nvml.SUCCESS && mode == nvml.COMPUTEMODE_PROHIBITED {
		c.Trouble = "its compute mode is prohibited"
	}
	return c
}

func (c *card) identify() {
	if uuid, ret := c.device.GetUUID(); c.known(ret, "uuid") {
		c.UUID = uuid
	}
	if name, ret := c.device.GetName(); c.known(ret, "name") {
		c.Name = name
	}
	if pci, ret := c.device.GetPciInfo(); c.known(ret, "pci") {
		c.PCI = busID(pci)
	}
}

// busID is a PCI address as CUDA and lspci spell it: NVML's domain has eight digits, of which they show four.
func busID(pci nvml.PciInfo) string {
	id, _, _ := bytes.Cut(pci.BusId[:], []byte{0})
	return strings.TrimPrefix(strings.ToLower(string(id)), "0000")
}

// memoryOf asks for the memory, with what the driver keeps for itself if it tells.
func memoryOf(device nvml.Device) (Memory, nvml.Return) {
	at := time.Now().UTC()
	if m, ret := device.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
		return Memory{TotalBytes: m.Total, FreeBytes: m.Free, ReservedBytes: m.Reserved, At: at}, ret
	}
	m, ret := device.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return Memory{}, ret
	}
	return Memory{TotalBytes: m.Total, FreeBytes: m.Free, At: at}, ret
}

func (c *card) readClocks() {
	for _, clock := range []struct {
		to   *int
		name string
		of   nvml.ClockType
		get  func(nvml.ClockType) (uint32, nvml.Return)
	}{
		{&c.Clocks.SM, "sm_mhz", nvml.CLOCK_SM, c.device.GetClockInfo},
		{&c.Clocks.Memory, "memory_mhz", nvml.CLOCK_MEM, c.device.GetClockInfo},
		{&c.Clocks.MaxSM, "max_sm_mhz", nvml.CLOCK_SM, c.device.GetMaxClockInfo},
		{&c.Clocks.MaxMemory, "max_memory_mhz", nvml.CLOCK_MEM, c.device.GetMaxClockInfo},
	} {
		if mhz, ret := clock.get(clock.of); c.known(ret, clock.name) {
			*clock.to = int(mhz)
		}
	}
	bits, ret := c.device.GetMemoryBusWidth()
	if !c.known(ret, "memory_bandwidth_bytes_per_second") || c.Clocks.MaxMemory == 0 {
		return
	}
	// Two transfers a clock: all memories of these cards, as NVML counts the clock, deliver at both edges.
	c.BandwidthBytes = 2 * uint64(c.Clocks.MaxMemory) * 1e6 * uint64(bits) / 8
}

// throttled names the bits that mean that the clocks are held down. An idle GPU, bit 0, is not.
func throttled(bits uint64) []string {
	var names []string
	for i, name := range []string{"", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
		"hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting"} {
		if bits&(1<<i) != 0 && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// link finds out how a card reaches the others.
func (c *card) link(cards []card) {
	direct := map[string]int{} // by PCI address
	for n := range nvml.NVLINK_MAX_LINKS {
		state, ret := c.device.GetNvLinkState(n)
		if ret != nvml.SUCCESS {
			break // it has no more, or none at all
		}
		if state != nvml.FEATURE_ENABLED {
			continue
		}
		c.NVLinks++
		if remote, ret := c.device.GetNvLinkRemotePciInfo(n); ret == nvml.SUCCESS {
			direct[busID(remote)]++
		}
	}
	for _, other := range cards {
		if other.Index == c.Index {
			continue
		}
		peer := Peer{UUID: other.UUID}
		if other.PCI != "" {
			peer.NVLinks = direct[other.PCI]
		}
		if status, ret := c.device.GetP2PStatus(other.device, nvml.P2P_CAPS_INDEX_READ); ret == nvml.SUCCESS {
			peer.P2P = p2pNames[status]
		}
		if level, ret := c.device.GetTopologyCommonAncestor(other.device); ret == nvml.SUCCESS {
			peer.Distance = distanceNames[level]
		}
		c.Peers = append(c.Peers, peer)
	}
}

var p2pNames = map[nvml.GpuP2PStatus]string{
	nvml.P2P_STATUS_OK:                         "ok",
	nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED:      "chipset_not_supported",
	nvml.P2P_STATUS_GPU_NOT_SUPPORTED:          "gpu_not_supported",
	nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: "topology_not_supported",
	nvml.P2P_STATUS_DISABLED_BY_REGKEY:         "disabled",
	nvml.P2P_STATUS_NOT_SUPPORTED:              "not_supported",
}

var distanceNames = map[nvml.GpuTopologyLevel]string{
	nvml.TOPOLOGY_INTERNAL:   "board",
	nvml.TOPOLOGY_SINGLE:     "switch",
	nvml.TOPOLOGY_MULTIPLE:   "switches",
	nvml.TOPOLOGY_HOSTBRIDGE: "host_bridge",
	nvml.TOPOLOGY_NODE:       "node",
	nvml.TOPOLOGY_SYSTEM:     "system",
}

// usable returns what CUDA can use of a card: the card, or the instances into which MIG splits it.
func (c *card) usable() []GPU {
	mode, _, ret := c.device.GetMigMode()
	if ret != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return []GPU{c.GPU}
	}
	var instances []GPU
	count, ret := c.device.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		count = 0
	}
	for i := range count {
		device, ret := c.device.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // not every place is taken
		}
		instances = append(instances, c.instance(device))
	}
	if instances == nil {
		c.Trouble = "MIG is on and the card has no instance"
		return []GPU{c.GPU}
	}
	return instances
}

// cardOnly are the facts that NVML tells of a card and not of its instances.
var cardOnly = []string{"utilization", "sm_mhz", "memory_mhz", "max_sm_mhz", "max_memory_mhz", "memory_bandwidth_bytes_per_second",
	"temperature_celsius", "power_watts", "power_limit_watts", "throttled"}

// instance describes a part of a card. What NVML tells only of cards stays unknown, the capability is the card's.
func (c *card) instance(device nvml.Device) GPU {
	part := card{GPU: GPU{Index: c.Index, PCI: c.PCI, ComputeCapability: c.ComputeCapability, MIGParent: c.UUID, Unknown: slices.Clone(cardOnly)}, device: device}
	if uuid, ret := device.GetUUID(); part.known(ret, "uuid") {
		part.UUID = uuid
	}
	if name, ret := device.GetName(); part.known(ret, "name") {
		part.Name = name
	}
	var ret nvml.Return
	part.Memory, ret = memoryOf(device)
	part.known(ret, "memory_total_bytes", "memory_free_bytes")
	return part.GPU
}

// uuids lists the devices that have one.
func (s *nvmlSession) uuids() []string {
	var list []string
	count, ret := s.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	for i := range count {
		device, ret := s.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		c := card{device: device}
		c.identify()
		for _, g := range c.usable() {
			if g.UUID != "" {
				list = append(list, g.UUID)
			}
		}
	}
	return list
}

// memory asks for the memory of one device, and how much it is used: 0 where the driver does not tell, as of a MIG instance.
func (s *nvmlSession) memory(uuid string) (m Memory, utilization float64, err error) {
	device, ret := s.lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return Memory{}, 0, &QueryError{UUID: uuid, Code: int(ret), Text: ret.Error()}
	}
	if m, ret = memoryOf(device); ret != nvml.SUCCESS {
		return Memory{}, 0, &QueryError{UUID: uuid, Code: int(ret), Text: ret.Error()}
	}
	if u, ret := device.GetUtilizationRates(); ret == nvml.SUCCESS {
		utilization = float64(u.Gpu) / 100
	}
	return m, utilization, nil
}
