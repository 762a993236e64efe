package sim

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// fault lets one call of a function fail, or every one from it on.
type fault struct {
	function string
	device   int // -1: any
	from     int // which call, from 1 on
	onwards  bool
	result   driver.Result
	seen     int
}

// Fault adds failures to the plan: "MemAlloc:3=2" lets the third call of MemAlloc from now on return 2 (out of memory),
// "MemGetInfo:1+=999" every one, "MemAlloc@1:2=700" the second one in a context of device 1. A call that fails so has no
// effect; where its result is a sticky one, the context is lost.
func (m *Machine) Fault(plan string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range strings.FieldsFunc(plan, func(r rune) bool { return r == ',' || r == ' ' }) {
		f, err := parseFault(text)
		if err != nil {
			return err
		}
		m.faults = append(m.faults, f)
	}
	return nil
}

// Heal ends all planned failures. What is lost stays lost.
func (m *Machine) Heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = nil
}

func parseFault(text string) (fault, error) {
	wrong := fmt.Errorf("sim: fault %q: want one such as MemAlloc:3=2, MemGetInfo:1+=999 or MemAlloc@1:2=700", text)
	name, rest, ok := strings.Cut(text, ":")
	which, code, ok2 := strings.Cut(rest, "=")
	if !ok || !ok2 {
		return fault{}, wrong
	}
	f := fault{device: -1}
	var at string
	if f.function, at, ok = strings.Cut(name, "@"); ok {
		var err error
		if f.device, err = strconv.Atoi(at); err != nil || f.device < 0 {
			return fault{}, wrong
		}
	}
	which, f.onwards = strings.CutSuffix(which, "+")
	from, err := strconv.Atoi(which)
	result, err2 := strconv.ParseInt(code, 10, 32)
	if err != nil || err2 != nil || from < 1 || !functions[f.function] {
		return fault{}, wrong
	}
	f.from, f.result = from, driver.Result(result)
	return f, nil
}

// strike counts a call and returns the result that is planned for it.
func (m *Machine) strike(function string) driver.Result {
	c := m.current[syscall.Gettid()]
	struck := driver.Success
	for i := range m.faults {
		f := &m.faults[i]
		if f.function != function || f.device >= 0 && (c == nil || c.device.ordinal != f.device) {
			continue
		}
		f.seen++
		if f.seen == f.from || f.onwards && f.seen > f.from {
			struck = f.result
		}
	}
	if struck.Sticky() && c != nil {
		c.lost = struck
	}
	return struck
}
