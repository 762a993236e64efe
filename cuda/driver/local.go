package driver

import (
	"errors"
	"io/fs"
	"os"
)

// Options is where to find the driver.
type Options struct {
	Library string // path of libcuda; if "", wherever drivers put it
}

// Local opens the driver of this machine. Without one that works it fails with one of the sentinels, and the error says
// what a look at this machine shows to be missing.
func Local(opt Options) (*Driver, error) {
	t, err := Load(opt)
	if err != nil {
		return nil, explainMissing(os.DirFS("/"), opt, err)
	}
	d, err := Open(t)
	if err != nil {
		return nil, explainDead(os.DirFS("/"), err)
	}
	return d, nil
}

// The files by which a host or a container shows that it has the kernel's part of the driver.
const (
	moduleVersion = "proc/driver/nvidia/version"
	controlNode   = "dev/nvidiactl"
	memoryNode    = "dev/nvidia-uvm"
)

// explainMissing adds to the error of a library that did not load why it may not be there.
func explainMissing(root fs.FS, opt Options, err error) error {
	var e *Error
	if opt.Library != "" || !errors.As(err, &e) || e.Hint != "" {
		return err
	}
	switch {
	case exists(root, controlNode):
		e.Hint = "the devices are here but not the library: in a container, allow it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
	case exists(root, moduleVersion):
		e.Hint = "the kernel module is loaded but the library is not here: give the container the GPUs, or install the driver's libcuda"
	default:
		e.Hint = "no NVIDIA driver is installed here"
	}
	return err
}

// explainDead adds to the error of a driver that does not start what the device files show.
func explainDead(root fs.FS, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Op != "cuInit" {
		return err
	}
	for _, name := range []string{controlNode, "dev/nvidia0", memoryNode} {
		f, err := root.Open(name)
		switch {
		case err == nil:
			f.Close()
		case errors.Is(err, fs.ErrPermission):
			e.Kind, e.Hint = ErrNotPermitted, "/"+name+" may not be opened: the user or the container needs access to it"
			return e
		case name == memoryNode && exists(root, controlNode):
			e.Hint = "/" + name + " is missing: load the kernel module nvidia-uvm, or give the container this device too"
		}
	}
	return err
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}
