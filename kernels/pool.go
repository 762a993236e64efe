package kernels

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a fixed set of workers that share a matmul. Worker 0 is the caller of Run; each of the others is a goroutine
// locked to an OS thread that is pinned to one CPU. A worker without work spins for about workerSpin, so that the next
// matmul of a forward pass starts it within a fraction of a microsecond, and then parks, so that an idle pool costs
// nothing.
//
// A Pool is used by one goroutine at a time. Two calls that overlap, and a call after Close, panic.
type Pool struct {
	cpus     []int
	state    atomic.Uint32 // free, busy or closed
	unpinned atomic.Bool   // the OS refused to pin some worker
	_        [cacheLine]byte

	done    chan struct{} // wakes the caller where it sleeps in join
	workers []worker      // workers[0] is the caller's: only its workspace is used
	ended   sync.WaitGroup

	job  job              // what Mul shares out
	part func(worker int) // p.mulPart, bound once: a method value would be an allocation per call
}

// worker is one worker's mailbox, on cache lines of its own. All talk between the caller and a worker goes through
// word: fan-out is one exchange by the caller, the barrier one exchange by the worker.
type worker struct {
	_       [cacheLine]byte
	word    atomic.Uint32
	task    func(worker int) // written before word, and travels with it
	_       [cacheLine - 16]byte
	wake    chan struct{} // wakes the worker where it is parked
	failure *WorkerPanic
	work    []byte // workspace of Mul, aligned to DataAlign, made by the worker that uses it
}

// cacheLine is two lines of 64 bytes, because x86 prefetches lines in pairs, and one line of some arm64 CPUs.
const cacheLine = 128

// What a worker's word says.
const (
	idle     uint32 = iota // it has no work and spins
	running                // it has work
	awaited                // it has work, and the caller sleeps until it is done
	parked                 // it has no work and sleeps
	quitting               // it must end
)

// What a pool's state says.
const (
	free uint32 = iota
	busy
	closed
)

// How long a worker spins without work, and the caller at the barrier, before it sleeps. The gap between two matmuls of
// a pass is a few µs. The caller waits longer than a wake-up takes, 50-100 µs on a virtual machine: else one late worker
// sends the caller to sleep, the worker parks before the caller is awake, and both wake each other in every call from
// then on (seen: 100-130 µs instead of 21 for 20 µs of work).
const (
	workerSpin = 20 * time.Microsecond
	callerSpin = 200 * time.Microsecond
)

// WorkerPanic is what Run panics with where f panicked on a worker other than the caller.
type WorkerPanic struct {
	Worker int
	Value  any    // what f panicked with
	Stack  []byte // where, as debug.Stack formats it
}

// Error implements error.
func (e *WorkerPanic) Error() string {
	return fmt.Sprintf("kernels: worker %d panicked: %v", e.Worker, e.Value)
}

// Unwrap returns the panic's value where it is an error.
func (e *WorkerPanic) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// NewPool starts a pool of len(cpus) workers, worker i on CPU cpus[i] as the OS numbers them. Where the OS refuses to
// pin, the worker runs unpinned and Pinned says so. The pool holds threads until Close.
func NewPool(cpus []int) (*Pool, error) {
	if len(cpus) == 0 {
		return nil, errors.New("kernels: new pool: no CPUs: want at least one")
	}
	for _, cpu := range cpus {
		if cpu < 0 {
			return nil, fmt.Errorf("kernels: new pool: CPU %d: want 0 or more", cpu)
		}
	}
	p := &Pool{cpus: append([]int(nil), cpus...), done: make(chan struct{}, 1), workers: make([]worker, len(cpus))}
	p.part = p.mulPart
	var started sync.WaitGroup
	for i := 1; i < len(cpus); i++ {
		p.workers[i].wake = make(chan struct{}, 1)
		started.Add(1)
		p.ended.Go(func() { p.serve(i, started.Done) })
	}
	started.Wait()
	return p, nil
}

// Threads returns the number of workers, the caller included.
func (p *Pool) Threads() int { return len(p.cpus) }

// Pinned reports whether the OS let every worker be pinned so far; the caller is pinned by Enter.
func (p *Pool) Pinned() bool { return !p.unpinned.Load() }

// Enter makes the calling goroutine a full worker 0: it is locked to its OS thread, which is pinned to the first CPU
// of the pool, and a fault in a kernel is a panic instead of the end of the process. leave undoes it; it is called once,
// by the same goroutine. Run works without Enter, only less evenly.
func (p *Pool) Enter() (leave func()) {
	runtime.LockOSThread()
	restore, err := pin(p.cpus[0])
	if err != nil {
		p.unpinned.Store(true)
	}
	fault := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(fault)
		if restore() == nil {
			runtime.UnlockOSThread() // else the thread keeps its odd mask, and ends with this goroutine
		}
	}
}

// Run calls f once on every worker, with the worker's number from 0 to Threads()-1, and returns when all calls have
// returned. What f wrote is visible to the caller. It allocates nothing. If f panics, Run panics, after all workers
// are done: with f's own value from worker 0, else with a *WorkerPanic; the pool stays usable. f must not call
// runtime.Goexit.
func (p *Pool) Run(f func(worker int)) {
	p.acquire()
	defer p.join()
	p.start(f)
	f(0)
}

// Close ends the workers and waits until they have; it may be called again.
func (p *Pool) Close() {
	if p.state.CompareAndSwap(free, closed) {
		for i := 1; i < len(p.workers); i++ {
			p.workers[i].post(quitting)
		}
	} else if p.state.Load() == busy {
		panic("kernels: Close of a Pool in use")
	}
	p.ended.Wait()
}

func (p *Pool) acquire() {
	if p.state.CompareAndSwap(free, busy) {
		return
	}
	if p.state.Load() == closed {
		panic("kernels: use of a closed Pool")
	}
	panic("kernels: concurrent use of a Pool")
}

func (p *Pool) start(f func(worker int)) {
	for i := 1; i < len(p.workers); i++ {
		p.workers[i].task = f
		p.workers[i].post(running)
	}
}

// join is the barrier. It is deferred, so that the workers are done with f also where f panics in the caller.
func (p *Pool) join() {
	var failure *WorkerPanic
	for i := 1; i < len(p.workers); i++ {
		w := &p.workers[i]
		if spin(&w.word, running, callerSpin) && w.word.CompareAndSwap(running, awaited) {
			<-p.done
		}
		if failure == nil {
			failure = w.failure
		}
		w.failure = nil
	}
	p.state.Store(free)
	if failure != nil {
		panic(failure)
	}
}

// serve is the life of worker i. Its thread stays locked and so ends with it. It leaves the process's first thread
// alone: that one cannot end, and its CPUs are what tools take for those of the process.
func (p *Pool) serve(i int, started func()) {
	runtime.LockOSThread()
	if onMainThread() {
		elsewhere := make(chan struct{}) // a goroutine that runs while this one holds the thread is on another
		p.ended.Go(func() { p.serve(i, func() { close(elsewhere) }) })
		<-elsewhere
		runtime.UnlockOSThread()
		started()
		return
	}
	if _, err := pin(p.cpus[i]); err != nil {
		p.unpinned.Store(true)
	}
	debug.SetPanicOnFault(true)
	started()
	w := &p.workers[i]
	for w.next() {
		w.try(i)
		if w.word.Swap(idle) == awaited {
			p.done <- struct{}{}
		}
	}
}

// post gives the worker something to do and wakes it if it sleeps.
func (w *worker) post(what uint32) {
	if w.word.Swap(what) == parked {
		w.wake <- struct{}{}
	}
}

// next waits for work; false means that the worker must end.
func (w *worker) next() bool {
	if spin(&w.word, idle, workerSpin) && w.word.CompareAndSwap(idle, parked) {
		<-w.wake
	}
	return w.word.Load() != quitting
}

func (w *worker) try(i int) {
	defer func() {
		if v := recover(); v != nil {
			w.failure = &WorkerPanic{Worker: i, Value: v, Stack: debug.Stack()}
		}
	}()
	w.task(i)
}

// spin waits until word is no longer old, for about limit at most, and reports whether it still is. The first rounds,
// some µs, do without the clock.
func spin(word *atomic.Uint32, old uint32, limit time.Duration) bool {
	var start time.Time
	for round := 0; ; round++ {
		for range 16 {
			if word.Load() != old {
				return false
			}
			pause()
		}
		if round == 2 {
			start = time.Now()
		} else if round > 2 && time.Since(start) > limit {
			return true
		}
	}
}

// job is one Mul, as the workers see it.
type job struct {
	kernel  *Kernel
	dst     []int32
	w       *Packed
	x       *Activations
	opt     Blocking
	bytes   int // of workspace per worker
	_       [cacheLine]byte
	nextRow atomic.Int64 // first row that no worker has taken yet
	_       [cacheLine - 8]byte
}

// Mul shares k.Mul out among the workers. If opt.ChunkRows is 0, each worker has one contiguous share of the rows
// (see Share), the same one in every call, which keeps the read of the weights linear and on the worker's own NUMA
// node; else workers take chunks of that many rows, rounded up to RowAlign, until none is left. It allocates only
// where k wants more workspace than any call before. It panics where w, x, dst and k do not fit together.
func (p *Pool) Mul(k *Kernel, dst []int32, w *Packed, x *Activations, opt Blocking) {
	switch {
	case k.Layout != w.Layout:
		panic("kernels: Mul: weights are in another layout than the kernel's")
	case w.N < 1 || w.K < 1 || w.K > MaxCols: // before Work is asked how much memory that takes
		panic("kernels: Mul: weights without rows or columns, or with more than MaxCols")
	case w.K != x.K:
		panic("kernels: Mul: weights and activations differ in K")
	case !holds(len(dst), x.M, w.N):
		panic("kernels: Mul: dst is shorter than M x N")
	}
	p.acquire()
	defer p.join()
	p.job.kernel, p.job.dst, p.job.w, p.job.x, p.job.opt, p.job.bytes = k, dst, w, x, opt, 0
	if k.Work != nil {
		p.job.bytes = k.Work(Shape{M: x.M, N: w.N, K: w.K})
	}
	p.job.nextRow.Store(0)
	p.start(p.part)
	p.mulPart(0)
}

// mulPart is one worker's part of the job.
func (p *Pool) mulPart(worker int) {
	j := &p.job
	work := p.workers[worker].workspace(j.bytes)
	if j.opt.ChunkRows <= 0 {
		if rows := Share(j.w.N, len(p.workers), worker); rows.From < rows.To {
			j.kernel.Mul(j.dst, j.w, j.x, rows, work, j.opt)
		}
		return
	}
	chunk := ceilDiv(min(j.opt.ChunkRows, j.w.N), RowAlign) * RowAlign
	for {
		from := int(j.nextRow.Add(int64(chunk))) - chunk
		if from >= j.w.N {
			return
		}
		j.kernel.Mul(j.dst, j.w, j.x, Rows{From: from, To: min(from+chunk, j.w.N)}, work, j.opt)
	}
}

func (w *worker) workspace(bytes int) []byte {
	if len(w.work) < bytes {
		w.work = alignedBytes(bytes)
	}
	return w.work[:bytes]
}

// Share returns the contiguous rows of n that belong to one of several workers. Shares meet at multiples of 64 rows
// where that makes the largest share no larger than multiples of RowAlign do, because kernels are best at 64 rows at
// a time. Shares can be empty where there are fewer blocks than workers.
func Share(n, workers, worker int) Rows {
	block := 64
	if largestShare(n, workers, RowAlign) < largestShare(n, workers, block) {
		block = RowAlign
	}
	blocks := ceilDiv(n, block)
	return Rows{
		From: min(n, blocks*worker/workers*block),
		To:   min(n, blocks*(worker+1)/workers*block),
	}
}

// largestShare is in rows.
func largestShare(n, workers, block int) int {
	return min(n, ceilDiv(ceilDiv(n, block), workers)*block)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
