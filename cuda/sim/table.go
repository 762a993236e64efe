package sim

import (
	"reflect"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// functions are the names of the functions of a table, of which a plan of faults may speak.
var functions = func() map[string]bool {
	set := make(map[string]bool)
	for i, t := 0, reflect.TypeFor[driver.Table](); i < t.NumField(); i++ {
		set[t.Field(i).Name] = true
	}
	return set
}()

// Table returns the driver of the machine.
func (m *Machine) Table() driver.Table {
	return driver.Table{
		Init:                    m.init,
		DriverGetVersion:        m.driverGetVersion,
		DeviceGetCount:          m.deviceGetCount,
		DeviceGet:               m.deviceGet,
		DeviceGetName:           m.deviceGetName,
		DeviceGetUUID:           m.deviceGetUUID,
		DeviceGetPCIBusID:       m.deviceGetPCIBusID,
		DeviceTotalMem:          m.deviceTotalMem,
		DeviceGetAttribute:      m.deviceGetAttribute,
		DeviceCanAccessPeer:     m.deviceCanAccessPeer,
		DeviceGetDefaultMemPool: m.deviceGetDefaultMemPool,
		DevicePrimaryCtxRetain:  m.devicePrimaryCtxRetain,
		DevicePrimaryCtxRelease: m.devicePrimaryCtxRelease,
		DevicePrimaryCtxReset:   m.devicePrimaryCtxReset,
		CtxSetCurrent:           m.ctxSetCurrent,
		CtxGetCurrent:           m.ctxGetCurrent,
		GetErrorName:            errorName,
		GetErrorString:          errorString,

		CtxSynchronize:      m.ctxSynchronize,
		CtxEnablePeerAccess: m.ctxEnablePeerAccess,
		MemGetInfo:          m.memGetInfo,
		MemAlloc:            m.memAlloc,
		MemFree:             m.memFree,
		MemAllocHost:        m.memAllocHost,
		MemFreeHost:         m.memFreeHost,
		MemAllocAsync:       m.memAllocAsync,
		MemFreeAsync:        m.memFreeAsync,
		MemPoolSetAttribute: m.memPoolSetAttribute,
		MemPoolTrimTo:       m.memPoolTrimTo,

		MemGetAllocationGranularity: m.memGetAllocationGranularity,
		MemAddressReserve:           m.memAddressReserve,
		MemAddressFree:              m.memAddressFree,
		MemCreate:                   m.memCreate,
		MemRelease:                  m.memRelease,
		MemMap:                      m.memMap,
		MemUnmap:                    m.memUnmap,
		MemSetAccess:                m.memSetAccess,

		MemcpyHtoD:      m.memcpyHtoD,
		MemcpyDtoH:      m.memcpyDtoH,
		MemcpyDtoD:      m.memcpyDtoD,
		MemcpyHtoDAsync: m.memcpyHtoDAsync,
		MemcpyDtoHAsync: m.memcpyDtoHAsync,
		MemcpyDtoDAsync: m.memcpyDtoDAsync,
		MemcpyPeerAsync: m.memcpyPeerAsync,
		MemsetD8Async:   m.memsetD8Async,
		MemsetD32Async:  m.memsetD32Async,

		StreamCreate:       m.streamCreate,
		StreamDestroy:      m.streamDestroy,
		StreamSynchronize:  m.streamSynchronize,
		StreamQuery:        m.streamQuery,
		StreamWaitEvent:    m.streamWaitEvent,
		StreamBeginCapture: m.streamBeginCapture,
		StreamEndCapture:   m.streamEndCapture,
		GraphInstantiate:   m.graphInstantiate,
		GraphLaunch:        m.graphLaunch,
		GraphExecDestroy:   m.graphExecDestroy,
		GraphDestroy:       m.graphDestroy,

		EventCreate:      m.eventCreate,
		EventDestroy:     m.eventDestroy,
		EventRecord:      m.eventRecord,
		EventQuery:       m.eventQuery,
		EventSynchronize: m.eventSynchronize,
		EventElapsedTime: m.eventElapsedTime,

		ModuleLoadDataEx:   m.moduleLoadDataEx,
		ModuleUnload:       m.moduleUnload,
		ModuleGetFunction:  m.moduleGetFunction,
		FuncGetAttribute:   m.funcGetAttribute,
		FuncSetAttribute:   m.funcSetAttribute,
		OccupancyMaxBlocks: m.occupancyMaxBlocks,
		LaunchKernel:       m.launchKernel,
	}
}

func (m *Machine) init(flags uint32) driver.Result {
	return m.bare("Init", initTime, func() driver.Result {
		switch {
		case flags != 0:
			return driver.InvalidValue
		case len(m.devices) == 0:
			return driver.NoDevice
		}
		m.ready = true
		return driver.Success
	})
}

func (m *Machine) driverGetVersion(version *int32) driver.Result {
	return m.bare("DriverGetVersion", callTime, func() driver.Result { return put(version, m.version) })
}

func (m *Machine) deviceGetCount(count *int32) driver.Result {
	return m.call("DeviceGetCount", callTime, func() driver.Result { return put(count, int32(len(m.devices))) })
}

func (m *Machine) deviceGet(dev *driver.DeviceHandle, ordinal int32) driver.Result {
	return m.on("DeviceGet", callTime, driver.DeviceHandle(ordinal), func(d *device) driver.Result {
		return put(dev, driver.DeviceHandle(ordinal))
	})
}
