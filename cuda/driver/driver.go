package driver

import (
	"fmt"
	"reflect"
	"strings"
)

// MinVersion is the oldest driver that is used: CUDA 11.8, the first that takes PTX 7.8, in which the kernels are written.
const MinVersion = 11080

// Driver is an initialised driver and its devices. It is safe for concurrent use.
type Driver struct {
	table   Table
	version int
	devices []*Device
}

// Open initialises the driver behind a table and lists its devices. It makes no context, so it takes no GPU memory.
// Without a device to work with it fails with one of the sentinels.
func Open(t Table) (*Driver, error) {
	d := &Driver{table: t}
	if name := missing(&t); name != "" {
		return nil, &Error{Op: "cu" + name, Kind: ErrDriverTooOld,
			Hint: "the library lacks this function, which a driver of CUDA " + versionString(MinVersion) + " or newer has"}
	}
	if r := t.Init(0); r != Success {
		e := t.newError("cuInit", r)
		if e.Kind == nil {
			e.Kind = ErrNoDriver
		}
		return nil, e
	}
	var version int32
	if r := t.DriverGetVersion(&version); r != Success {
		return nil, t.newError("cuDriverGetVersion", r)
	}
	if d.version = int(version); d.version < MinVersion {
		return nil, &Error{Op: "cuDriverGetVersion", Kind: ErrDriverTooOld,
			Hint: fmt.Sprintf("the driver is of CUDA %s: want %s or newer", versionString(d.version), versionString(MinVersion))}
	}
	var count int32
	if r := t.DeviceGetCount(&count); r != Success {
		return nil, t.newError("cuDeviceGetCount", r)
	}
	if count == 0 {
		return nil, &Error{Op: "cuDeviceGetCount", Kind: ErrNoDevice, Hint: hints[NoDevice]}
	}
	for i := range count {
		device, err := d.describe(i)
		if err != nil {
			return nil, err
		}
		d.devices = append(d.devices, device)
	}
	return d, nil
}

// missing names a function that the table lacks and cannot be done without, or returns "".
func missing(t *Table) string {
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if v.Field(i).IsNil() && field.Tag.Get("cuda") != "optional" {
			return field.Name
		}
	}
	return ""
}

// Version is that of the CUDA which the driver was made for: 12080 is 12.8.
func (d *Driver) Version() int { return d.version }

func versionString(version int) string {
	return fmt.Sprintf("%d.%d", version/1000, version%1000/10)
}

// Table returns the functions, for what has no method here. Call those that need a context within Device.Do, and let
// Device.Check judge their results.
func (d *Driver) Table() *Table { return &d.table }

// Devices lists the devices in the order of the driver, which CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER decide.
func (d *Driver) Devices() []*Device { return d.devices }

// Device returns the device of a UUID, as CUDA or as NVML spells it.
func (d *Driver) Device(uuid string) (*Device, error) {
	var have []string
	for _, device := range d.devices {
		if SameUUID(device.UUID(), uuid) {
			return device, nil
		}
		have = append(have, device.UUID())
	}
	return nil, fmt.Errorf("driver: %w %q: CUDA has %s", ErrNoDevice, uuid, strings.Join(have, ", "))
}

// Close closes every device. The driver is not to be used any more.
func (d *Driver) Close() error {
	var first error
	for _, device := range d.devices {
		if err := device.Close(); first == nil {
			first = err
		}
	}
	return first
}
