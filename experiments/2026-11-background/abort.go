package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// abort measures how long after load arrives a child that works without rests is gone: all CPUs busy, at a moment by lot.
func (s study) abort(ctx context.Context) (string, error) {
	var took []float64
	for len(took) < s.aborts && ctx.Err() == nil {
		d, err := s.daemon("--quiet-for", "1s", "--max-utilization", "0.5", "--idle-utilization", "0.5")
		if err != nil {
			return "", err
		}
		ms, err := s.abortOne(ctx, d)
		d.kill()
		if errors.Is(err, errGone) || ctx.Err() != nil { // what was measured before it ends is told
			continue
		}
		if err != nil {
			return "", err
		}
		took = append(took, ms)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d times: from the first instruction of the load to the end of the child\n", len(took))
	for _, q := range []float64{0, 0.25, 0.5, 0.75, 0.9, 0.95, 1} {
		fmt.Fprintf(&b, "p%-3g %6.1f ms\n", 100*q, quantile(took, q))
	}
	return b.String(), nil
}

// errGone means that the child ended before the load came: the host was not as idle as it should have been.
var errGone = errors.New("the child ended by itself")

func (s study) abortOne(ctx context.Context, d *daemon) (float64, error) {
	var child []int
	for len(child) == 0 {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
		child = d.children()
	}
	if err := sleep(ctx, time.Second+time.Duration(rand.Int64N(int64(3*time.Second)))); err != nil {
		return 0, err
	}
	fd, err := unix.PidfdOpen(child[0], 0)
	if err != nil {
		return 0, errGone
	}
	defer unix.Close(fd)
	busy, stop := context.WithCancel(ctx)
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	begun := make(chan time.Time, runtime.NumCPU())
	for range runtime.NumCPU() {
		load.Go(func() {
			begun <- time.Now()
			for busy.Err() == nil {
				continue
			}
		})
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	gone := time.Now()
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		gone = time.Now()
	}
	if err != nil || n == 0 {
		return 0, fmt.Errorf("the child is there 10 s after load came: %v", err)
	}
	return float64(gone.Sub(<-begun).Microseconds()) / 1000, nil
}
