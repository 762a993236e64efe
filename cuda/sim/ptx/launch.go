package ptx

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// A Launch is a grid of a kernel.
type Launch struct {
	Grid, Block [3]int // a zero counts as 1
	SharedBytes int    // dynamic shared memory of a block
	Params      []byte // the parameters, each at its Offset

	// Workers run blocks at the same time; 0: one for each CPU. Only the order of float additions by atomics between
	// blocks depends on it.
	Workers int
	// MaxInstructions of a warp before it is taken for endless; 0: 100 million.
	MaxInstructions uint64
}

// maxShared is what the largest device gives a block (sm_90).
const maxShared = 227 << 10

// run is a launch under way.
type run struct {
	k       *Kernel
	Launch  Launch
	memory  Memory
	ctx     context.Context
	atomics sync.Mutex // over atomic operations on global memory
	stores  sync.Map   // of *page, by address / pageSize

	next    atomic.Int64 // block
	mu      sync.Mutex   // over what follows
	fault   *Fault
	faulted int64 // the block of fault
	stop    atomic.Bool
	stats   Stats
	counts  []uint64
}

// A worker runs block after block.
type worker struct {
	run     *run
	block   block
	counts  []uint64 // thread-instructions by place in the code
	issued  uint64
	stats   Stats
	request request
	pages   pageCache
	cache   []Region // the region that each memory instruction met last
}

// Launch runs a grid of the kernel to its end. The error is a *Fault for what the kernel did wrong, of the first block
// that did; another error for a launch that no device accepts, and that of ctx when it ended first.
func (k *Kernel) Launch(ctx context.Context, memory Memory, l Launch) (Stats, error) {
	for i := range 3 {
		l.Grid[i], l.Block[i] = max(l.Grid[i], 1), max(l.Block[i], 1)
	}
	if err := k.accepts(l); err != nil {
		return Stats{}, err
	}
	r := &run{k: k, Launch: l, memory: memory, ctx: ctx, counts: make([]uint64, len(k.code))}
	blocks := l.Grid[0] * l.Grid[1] * l.Grid[2]
	workers := l.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for range min(workers, blocks) {
		wg.Go(func() { r.work(int64(blocks)) })
	}
	wg.Wait()
	r.finish()
	if r.fault != nil {
		return r.stats, r.fault
	}
	if r.stop.Load() {
		return r.stats, fmt.Errorf("ptx: kernel %s: %w", k.Name, context.Cause(ctx))
	}
	return r.stats, nil
}

func (k *Kernel) accepts(l Launch) error {
	threads, bound := l.Block[0]*l.Block[1]*l.Block[2], maxBlock
	if k.MaxThreads[0] > 0 {
		bound = min(bound, k.MaxThreads[0]*k.MaxThreads[1]*k.MaxThreads[2])
	}
	switch {
	case l.Block[0] > maxBlock || l.Block[1] > maxBlock || l.Block[2] > 64 || threads > bound:
		return fmt.Errorf("ptx: kernel %s: a block of %v threads: at most %d are allowed", k.Name, l.Block, bound)
	case l.Grid[0] > 1<<31-1 || l.Grid[1] > 1<<16-1 || l.Grid[2] > 1<<16-1:
		return fmt.Errorf("ptx: kernel %s: a grid of %v blocks: at most [2147483647 65535 65535] are allowed", k.Name, l.Grid)
	case len(l.Params) != k.ParamBytes:
		return fmt.Errorf("ptx: kernel %s: %d bytes of parameters: it takes %d", k.Name, len(l.Params), k.ParamBytes)
	case l.SharedBytes < 0 || k.SharedBytes+l.SharedBytes > maxShared:
		return fmt.Errorf("ptx: kernel %s: %d bytes of shared memory: at most %d are allowed", k.Name, k.SharedBytes+l.SharedBytes, maxShared)
	case k.refused != nil:
		return k.refused
	}
	return nil
}

// work runs blocks until there are none left, or one has faulted: those before it still run, so that the fault that is
// told is always the same.
func (r *run) work(blocks int64) {
	k := r.newWorker()
	for {
		i := r.next.Add(1) - 1
		if i >= blocks || r.stop.Load() {
			break
		}
		g := r.Launch.Grid
		k.block.index = [3]int{int(i) % g[0], int(i) / g[0] % g[1], int(i) / (g[0] * g[1])}
		if fault := k.block.run(); fault != nil {
			r.failed(i, fault)
			break
		}
		k.stats.Blocks++
		k.stats.Threads += uint64(r.Launch.Block[0] * r.Launch.Block[1] * r.Launch.Block[2])
	}
	k.stats.WarpInstructions = k.issued
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.add(&k.stats)
	for i, n := range k.counts {
		r.counts[i] += n
	}
	if r.fault == nil && !r.stop.Load() { // else it stopped in the middle of a block
		k.run = nil
		r.k.idle.Put(k)
	}
}

func (r *run) failed(block int64, fault *Fault) {
	r.stop.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	if fault.Kind != cancelled && (r.fault == nil || block < r.faulted) {
		r.fault, r.faulted = fault, block
	}
}

func (r *run) finish() {
	r.stats.ByOpcode = map[string]uint64{}
	for i, n := range r.counts {
		if n > 0 && i < len(r.k.code)-1 { // the last one is the end of the code, no instruction
			r.stats.Instructions += n
			r.stats.ByOpcode[r.k.instructions[r.k.code[i].opcode]] += n
		}
	}
}

// newWorker takes one that ended a launch of the same kernel and block, if there is one: registers are megabytes, and
// making them takes longer than a small grid.
func (r *run) newWorker() *worker {
	if k, ok := r.k.idle.Get().(*worker); ok && k.block.dims == r.Launch.Block && len(k.block.shared) == r.k.SharedBytes+r.Launch.SharedBytes {
		clear(k.counts)
		clear(k.cache)
		k.run, k.issued, k.stats, k.pages = r, 0, Stats{}, pageCache{}
		return k
	}
	k := &worker{run: r, counts: make([]uint64, len(r.k.code)), cache: make([]Region, r.k.cacheSlots)}
	b := &k.block
	b.k, b.worker, b.dims = r.k, k, r.Launch.Block
	b.shared = make([]byte, r.k.SharedBytes+r.Launch.SharedBytes)
	threads := b.dims[0] * b.dims[1] * b.dims[2]
	n := (threads + warpSize - 1) / warpSize
	for id := range n {
		w := &warp{
			b: b, id: id,
			r: make([]lanes, r.k.registers), def: make([]uint32, r.k.registers),
			p: make([]uint32, r.k.predicates), pdef: make([]uint32, r.k.predicates),
			clock: make([]uint32, n), local: make([]byte, warpSize*r.k.LocalBytes),
		}
		for _, c := range r.k.constants {
			for i := range w.r[c.register] {
				w.r[c.register][i] = c.value
			}
		}
		b.warps = append(b.warps, w)
	}
	return k
}

// cancelled is the kind of the fault by which a block gives up for its context. It does not leave Launch.
const cancelled FaultKind = "cancelled"

// goOn looks, now and then, whether a warp may go on.
func (k *worker) goOn(w *warp) bool {
	limit := k.run.Launch.MaxInstructions
	if limit == 0 {
		limit = 100e6
	}
	if w.steps > limit {
		w.fail(Timeout, first(w.live), 0, fmt.Sprintf("the warp has run %d instructions", w.steps))
	} else if k.run.ctx.Err() != nil {
		w.fail(cancelled, first(w.live), 0, "")
	}
	return w.fault == nil
}

func (m *Module) text(line int) string {
	if line < 1 || line > len(m.lines) {
		return ""
	}
	return strings.TrimSpace(m.lines[line-1])
}
