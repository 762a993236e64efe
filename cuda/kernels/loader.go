package kernels

import (
	"errors"
	"fmt"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// Loader compiles kernels for one device, each when it is first asked for.
type Loader struct {
	device    *driver.Device
	have      Capability
	functions map[loaded]*driver.Function
	modules   []*driver.Module
}

// loaded is a kernel as it was compiled.
type loaded struct {
	symbol string
	jit    driver.JIT
}

// CapabilityOf returns that of a device.
func CapabilityOf(d *driver.Device) (Capability, error) {
	major, minor, known := d.Capability()
	if !known {
		return 0, fmt.Errorf("kernels: %s does not tell its compute capability", d)
	}
	return Capability(10*major + minor), nil
}

// NewLoader returns one for a device.
func NewLoader(d *driver.Device) (*Loader, error) {
	have, err := CapabilityOf(d)
	if err != nil {
		return nil, err
	}
	return &Loader{device: d, have: have, functions: map[loaded]*driver.Function{}}, nil
}

// Function returns a Kernel or a Quantizer as the driver compiled it. It lives until Close.
func (l *Loader) Function(e Entry, jit driver.JIT) (*driver.Function, error) {
	key := loaded{e.Symbol(), jit}
	if f, ok := l.functions[key]; ok {
		return f, nil
	}
	text, err := Text(e, l.have)
	if err != nil {
		return nil, err
	}
	module, err := l.device.LoadModule(text, jit)
	if err != nil {
		return nil, fmt.Errorf("kernels: load %s: %w", e.Symbol(), err)
	}
	f, err := module.Function(e.Symbol())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kernels: load %s: %w", e.Symbol(), err), module.Close())
	}
	l.modules = append(l.modules, module)
	l.functions[key] = f
	return f, nil
}

// Close unloads all of them.
func (l *Loader) Close() error {
	var errs []error
	for _, m := range l.modules {
		errs = append(errs, m.Close())
	}
	l.modules = nil
	clear(l.functions)
	return errors.Join(errs...)
}

// Launch queues a product on a stream; f is what a Loader made of k. With columns split into more than one part it clears
// dst first. It does not allocate.
func (k Kernel) Launch(s *driver.Stream, f *driver.Function, p *MulParams, split int) error {
	shape, err := k.Shape(cpu.Shape{M: int(p.M), N: int(p.N), K: int(p.K)}, split)
	if err != nil {
		return err
	}
	if split > 1 {
		if err := s.Fill32(p.Dst, 0, uint64(p.M)*uint64(p.N)); err != nil {
			return err
		}
	}
	return f.Launch(s, shape, driver.Params(p))
}

// Launch queues the tokens of p on a stream; f is what a Loader made of q.
func (q Quantizer) Launch(s *driver.Stream, f *driver.Function, p *QuantizeParams, m int) error {
	if m < 1 || p.K < 1 || int(p.K) > cpu.MaxCols {
		return fmt.Errorf("kernels: %s of %dx%d: want at least 1 token and 1 to %d columns", q.Name, m, p.K, cpu.MaxCols)
	}
	return f.Launch(s, q.Shape(m), driver.Params(p))
}
