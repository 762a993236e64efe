package probe

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// readBlock is how many bytes a thread reads between two looks at the clock: some 0.1 ms of work, so that neither the
// clock nor the overrun counts.
const readBlock = 1 << 20

// Bandwidth measures how fast read reads buf with one pinned thread on each of cpus, in bytes per second of wall time.
// Each thread reads a contiguous share of buf, a multiple of 64 bytes, once to warm up and then again and again for
// about d. read must touch every byte it is given; it is called concurrently. For the speed of memory rather than of
// a cache, buf has to be several times the last-level cache, and to have been written to. An error is a CPU that
// cannot be used, an argument that makes no sense, or ctx being done.
func Bandwidth(ctx context.Context, read func([]byte) uint64, buf []byte, cpus []int, d time.Duration) (bytesPerSecond float64, err error) {
	share := 0
	if len(cpus) > 0 {
		share = len(buf) / len(cpus) &^ 63
	}
	if share == 0 || d <= 0 {
		return 0, fmt.Errorf("probe: measure bandwidth: %d bytes on %d CPUs for %v: want a CPU, 64 bytes for each, and time",
			len(buf), len(cpus), d)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		warm, done sync.WaitGroup
		begin      time.Time
		start      = make(chan struct{})
		total      = make([]int64, len(cpus))
	)
	warm.Add(len(cpus))
	for i, cpu := range cpus {
		done.Go(func() {
			restore, err := pin(cpu)
			defer restore()
			if err != nil {
				cancel(err)
			}
			r := reader{read: read, share: buf[i*share : (i+1)*share]}
			for n := 0; n < share && ctx.Err() == nil; n += readBlock {
				r.block()
			}
			warm.Done()
			<-start
			for ctx.Err() == nil && time.Since(begin) < d {
				total[i] += r.block()
			}
		})
	}
	warm.Wait()
	begin = time.Now()
	close(start)
	done.Wait()
	wall := time.Since(begin)
	if ctx.Err() != nil {
		return 0, fmt.Errorf("probe: measure bandwidth: %w", context.Cause(ctx))
	}
	var sum int64
	for _, n := range total {
		sum += n
	}
	return float64(sum) / wall.Seconds(), nil
}

// reader goes round and round its share.
type reader struct {
	read  func([]byte) uint64
	share []byte
	next  int
}

// block reads the next readBlock bytes, beginning again at the end of the share, and returns their number.
func (r *reader) block() int64 {
	for left := readBlock; left > 0; {
		n := min(left, len(r.share)-r.next)
		r.read(r.share[r.next : r.next+n])
		left -= n
		if r.next += n; r.next == len(r.share) {
			r.next = 0
		}
	}
	return readBlock
}
