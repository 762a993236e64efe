package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrNoDevice is wrapped by the error of Select where no device has room, not even the CPU.
var ErrNoDevice = errors.New("no device has room")

// Ledger is the memory that was given out so far. It is safe for concurrent use, and its zero value is empty.
type Ledger struct {
	mu   sync.Mutex
	used map[string]uint64 // by Device.ID
}

// Used is what was given out of a device.
func (l *Ledger) Used(d Device) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[d.ID]
}

// take gives out bytes of d if they are there.
func (l *Ledger) take(d Device, bytes uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if used := l.used[d.ID]; used > d.RoomBytes || bytes > d.RoomBytes-used {
		return false
	}
	if l.used == nil {
		l.used = make(map[string]uint64)
	}
	l.used[d.ID] += bytes
	return true
}

// Return takes back bytes of d that were given out.
func (l *Ledger) Return(d Device, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes > l.used[d.ID] {
		panic("placement: more returned to a ledger than was taken")
	}
	l.used[d.ID] -= bytes
}

// Select takes bytes of a device: of the first kind of the list that has one with room, and within it of the device of
// that index. Where that cannot be, it is the next one that can: a higher index of the kind, else a lower one, else the next
// kind, else the CPU. Each step of that is in fallbacks, for the log. A negative index or an empty list is an error, and so
// is having no room anywhere, which is ErrNoDevice.
func (l *Ledger) Select(devices []Device, kinds []Kind, index int, bytes uint64) (chosen Device, fallbacks []string, err error) {
	return l.selectFor(devices, kinds, index, func(Kind) uint64 { return bytes })
}

// selectFor is Select of something that takes on each kind as much as on says.
func (l *Ledger) selectFor(devices []Device, kinds []Kind, index int, on func(Kind) uint64) (chosen Device, fallbacks []string, err error) {
	if index < 0 || len(kinds) == 0 {
		return Device{}, nil, fmt.Errorf("placement: select index %d of %d kinds: want an index from 0 and at least one kind", index, len(kinds))
	}
	if !slices.Contains(kinds, CPU) {
		kinds = append(slices.Clone(kinds), CPU)
	}
	for _, kind := range kinds {
		bytes := on(kind)
		for at, d := range from(devices, kind, index) {
			if at == 0 && d.Index != index && kind != CPU {
				fallbacks = append(fallbacks, fmt.Sprintf("%s does not exist", Place{kind, index}))
			}
			if d.Trouble != "" {
				fallbacks = append(fallbacks, fmt.Sprintf("%s cannot be used: %s", d.ID, d.Trouble))
			} else if l.take(d, bytes) {
				return d, fallbacks, nil
			} else {
				fallbacks = append(fallbacks, fmt.Sprintf("%s has no room: %d bytes wanted, %d of %d given out", d.ID, bytes, l.Used(d), d.RoomBytes))
			}
		}
		if len(from(devices, kind, index)) == 0 {
			fallbacks = append(fallbacks, fmt.Sprintf("there is no %s here", kind))
		}
	}
	return Device{}, fallbacks, fmt.Errorf("placement: select a device for %d bytes: %w: free memory, or want less", on(kinds[0]), ErrNoDevice)
}

// from are the devices of a kind, from an index up and then those below it.
func from(devices []Device, kind Kind, index int) []Device {
	list := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return d.Kind != kind })
	slices.SortStableFunc(list, func(a, b Device) int {
		if belowA, belowB := a.Index < index, b.Index < index; belowA != belowB {
			if belowA {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Index, b.Index)
	})
	return list
}
