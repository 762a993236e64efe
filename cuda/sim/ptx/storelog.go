package ptx

import (
	"bytes"
	"sync/atomic"
)

const pageSize = 4096

// A page remembers for each byte of global memory which block stored it last, and where: block + 1 above, instruction
// below. Blocks have no order, so two that store different values to one place have a race.
type page [pageSize]atomic.Uint64

// pageCache is the page that a worker used last.
type pageCache struct {
	number uint64
	page   *page
}

// logStore notes a plain store. It returns false after a fault.
func (w *warp) logStore(lane int, addr uint64, old, fresh []byte) bool {
	k := w.b.worker
	if g := k.run.Launch.Grid; g[0]*g[1]*g[2] == 1 {
		return true
	}
	if number := addr / pageSize; k.pages.page == nil || k.pages.number != number {
		p, ok := k.run.stores.Load(number)
		if !ok {
			p, _ = k.run.stores.LoadOrStore(number, new(page))
		}
		k.pages = pageCache{number, p.(*page)}
	}
	g, i := k.run.Launch.Grid, w.b.index
	me := uint64(1+i[0]+g[0]*(i[1]+g[1]*i[2]))<<24 | uint64(w.pc)
	for n := range fresh {
		before := k.pages.page[addr%pageSize+uint64(n)].Swap(me)
		if before != 0 && before>>24 != me>>24 && !bytes.Equal(old, fresh) {
			w.failRace(lane, addr, int32(before&(1<<24-1)), "another block stored another value here, and blocks have no order")
			return false
		}
	}
	return true
}
