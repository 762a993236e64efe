package ptx

import (
	"bytes"
	"sync"
)

const pageSize = 4096

// A page remembers for each byte of global memory which block stored it last, and where: block + 1 above, instruction
// below. Blocks have no order, so two that store different values to one place have a race. The lock makes blocks that
// store the same value at the same time, which is no fault, no data race of this program either.
type page struct {
	mu    sync.Mutex
	notes [pageSize]uint64
}

// pageCache is the page that a worker used last.
type pageCache struct {
	number uint64
	page   *page
}

// storeGlobal stores, and notes who did. It returns false after a fault.
func (w *warp) storeGlobal(lane int, addr uint64, to, value []byte) bool {
	k := w.b.worker
	g, i := k.run.Launch.Grid, w.b.index
	if g[0]*g[1]*g[2] == 1 {
		copy(to, value)
		return true
	}
	me := uint64(1+i[0]+g[0]*(i[1]+g[1]*i[2]))<<24 | uint64(w.pc)
	p := k.page(addr / pageSize)
	p.mu.Lock()
	defer p.mu.Unlock()
	notes := p.notes[addr%pageSize:][:len(value)]
	for n, before := range notes {
		if before != 0 && before>>24 != me>>24 && !bytes.Equal(to, value) {
			w.failRace(lane, addr, int32(before&(1<<24-1)), "another block stored another value here, and blocks have no order")
			return false
		}
		notes[n] = me
	}
	copy(to, value)
	return true
}

func (k *worker) page(number uint64) *page {
	if k.pages.page == nil || k.pages.number != number {
		p, ok := k.run.stores.Load(number)
		if !ok {
			p, _ = k.run.stores.LoadOrStore(number, new(page))
		}
		k.pages = pageCache{number, p.(*page)}
	}
	return k.pages.page
}
