package probe

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sum is a read loop in plain Go.
func sum(b []byte) uint64 {
	var s uint64
	for _, x := range b {
		s += uint64(x)
	}
	return s
}

// The rate is bytes that were truly read over wall time; every byte is read, by one thread on the CPU of its share.
func TestBandwidth(t *testing.T) {
	cpus := liveAffinity()[:min(2, len(liveAffinity()))]
	for _, size := range []int{64 * len(cpus), 100_000, 5 << 20} {
		buf := make([]byte, size)
		share := size / len(cpus) &^ 63
		var bytes atomic.Int64
		var mu sync.Mutex
		touched := make([]bool, size)
		strays := 0
		read := func(b []byte) uint64 {
			at := int(uintptr(unsafe.Pointer(&b[0])) - uintptr(unsafe.Pointer(&buf[0])))
			set := unix.NewCPUSet(maxCPU + 1)
			err := unix.SchedGetaffinityDynamic(0, set)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || set.Count() != 1 || !set.IsSet(cpus[at/share]) || (at+len(b)-1)/share != at/share {
				strays++
			}
			for i := range b {
				touched[at+i] = true
			}
			bytes.Add(int64(len(b)))
			return 0
		}
		const d = 20 * time.Millisecond
		began := time.Now()
		rate, err := Bandwidth(context.Background(), read, buf, cpus, d)
		took := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		if strays > 0 {
			t.Errorf("%d bytes: %d reads on another CPU or across shares", size, strays)
		}
		if i := slices.Index(touched[:share*len(cpus)], false); i >= 0 {
			t.Errorf("%d bytes: byte %d was never read", size, i)
		}
		measured := time.Duration(float64(bytes.Load()) / rate * float64(time.Second)) // and the warm-up, in bytes
		if rate <= 0 || measured < d {
			t.Errorf("%d bytes: a rate of %g for %d bytes is a time of %v, less than %v", size, rate, bytes.Load(), measured, d)
		}
		if least := float64(bytes.Load()-int64(len(cpus))*int64(share+readBlock)) / took.Seconds(); rate < least {
			t.Errorf("%d bytes: a rate of %g, but %g over all of %v", size, rate, least, took)
		}
	}
}

func TestBandwidthLeavesNothingBehind(t *testing.T) {
	goroutines, affinity := runtime.NumGoroutine(), liveAffinity()
	if _, err := Bandwidth(context.Background(), sum, make([]byte, 1<<16), affinity[:1], time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, before %d", n, goroutines)
	}
	if now := liveAffinity(); !slices.Equal(now, affinity) {
		t.Errorf("affinity %v, before %v", now, affinity)
	}
}

// Whether a reader runs on the process's first thread is the scheduler's choice; over 200 calls it is all but certain.
func TestBandwidthLeavesTheFirstThreadAsItWas(t *testing.T) {
	all := liveAffinity()
	if len(all) == 1 {
		unavailable(t, "cpus", errors.New("this process has only one"))
	}
	cpus := slices.Repeat(all[:1], 8)
	set := unix.NewCPUSet(maxCPU + 1)
	for range 200 {
		if _, err := Bandwidth(context.Background(), sum, make([]byte, 4096), cpus, time.Microsecond); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedGetaffinityDynamic(os.Getpid(), set); err != nil {
			t.Fatal(err)
		}
		if set.Count() != len(all) {
			t.Fatalf("the first thread is left on %d CPUs of %d", set.Count(), len(all))
		}
	}
}

func TestBandwidthCancelled(t *testing.T) {
	for name, after := range map[string]int64{"before": 0, "in the warm-up": 1, "while measuring": 40} {
		ctx, cancel := context.WithCancel(context.Background())
		var calls atomic.Int64
		if after == 0 {
			cancel()
		}
		read := func(b []byte) uint64 {
			if calls.Add(1) == after {
				cancel()
			}
			return 0
		}
		_, err := Bandwidth(ctx, read, make([]byte, 20<<20), liveAffinity()[:1], time.Hour)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", name, err)
		}
		if n := calls.Load(); n > after+1 {
			t.Errorf("%s: %d reads after the end", name, n-after)
		}
		cancel()
	}
}

func TestBandwidthRefuses(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		bytes int
		cpus  []int
		d     time.Duration
		want  string
	}{
		"no CPU":          {64, nil, 1, "0 CPUs"},
		"an empty buffer": {0, []int{0}, 1, "64 bytes for each"},
		"too few bytes":   {127, []int{0, 1}, 1, "64 bytes for each"},
		"no time":         {64, []int{0}, 0, "and time"},
		"a missing CPU":   {64, []int{maxCPU}, time.Hour, "CPU 8191: invalid argument"},
		"no CPU number":   {64, []int{-1}, time.Hour, "want 0 to 8191"},
	} {
		_, err := Bandwidth(ctx, sum, make([]byte, c.bytes), c.cpus, c.d)
		if err == nil || !strings.HasPrefix(err.Error(), "probe: measure bandwidth: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}
