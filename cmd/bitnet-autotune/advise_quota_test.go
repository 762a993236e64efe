package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
)

// spinningEngine decodes as engines of the llama.cpp family do, with this program's own kernels: threads that share every
// matmul, and wait for each other at a barrier by spinning. It prints how many tokens it decoded:
// llama-server --threads N MILLISECONDS.
func spinningEngine() {
	debug.SetGCPercent(-1) // a collection would wait for threads that spin
	threads, _ := strconv.Atoi(os.Args[2])
	ms, _ := strconv.Atoi(os.Args[3])
	runtime.GOMAXPROCS(threads + 2)
	const n, k, matmuls = 2560, 6912, 4 // of bitnet-b1.58-2b-4t
	codes := make([]int8, n*k)
	for i := range codes {
		codes[i] = int8(i%3 - 1)
	}
	host, err := probe.Local(context.Background())
	if err != nil {
		panic(err)
	}
	list := kernels.Usable(host.CPU.Features)
	kernel := list[slices.IndexFunc(list, func(k kernels.Kernel) bool { return k.Layout == tuner.DefaultLayout })]
	weights, err := kernels.Pack(kernel.Layout, codes, n, k, nil)
	if err != nil {
		panic(err)
	}
	x := kernels.NewActivations(1, k)
	x.Quantize(make([]float32, k))
	dst, end := make([]int32, n), time.Now().Add(time.Duration(ms)*time.Millisecond)
	var arrived, tokens atomic.Int64
	var done atomic.Bool
	var workers sync.WaitGroup
	for id := range threads {
		workers.Go(func() {
			runtime.LockOSThread()
			for passed := int64(0); !done.Load(); {
				for range matmuls {
					kernel.Mul(dst, weights, x, kernels.Rows{From: id * n / threads / 64 * 64, To: (id + 1) * n / threads / 64 * 64}, nil, kernel.Default(1))
					passed++
					arrived.Add(1)
					for arrived.Load() < passed*int64(threads) && !done.Load() {
					}
				}
				if id == 0 {
					tokens.Add(1)
					done.Store(time.Now().After(end))
				}
			}
		})
	}
	workers.Wait()
	fmt.Println(tokens.Load())
}

// quotaGroup makes a control group of this machine that may use so many CPUs. Where that is not possible, the test is
// skipped aloud.
func quotaGroup(t *testing.T, cpus float64) string {
	t.Helper()
	root, files := "/sys/fs/cgroup", map[string]string{"cpu.max": fmt.Sprintf("%.0f 100000", 1e5*cpus)}
	if _, err := os.Stat(root + "/cpu/cpu.cfs_quota_us"); err == nil {
		root, files = root+"/cpu", map[string]string{"cpu.cfs_quota_us": fmt.Sprintf("%.0f", 1e5*cpus)} // of a period of 100 ms
	}
	dir := filepath.Join(root, fmt.Sprintf("bitnet-autotune-advise-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		groupless(t, err)
	}
	t.Cleanup(func() {
		for range 100 { // a group is busy until the last of its processes is gone
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("%s is still there", dir)
	})
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0); err != nil {
			groupless(t, err)
		}
	}
	return dir
}

// groupless skips a test aloud, or fails it where BITNET_AUTOTUNE_REQUIRE asks for cgroup.
func groupless(t *testing.T, err error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), "cgroup") {
		t.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for cgroup: %v", err)
	}
	t.Skipf("NOT TESTED: advice for threads above a real quota, for want of a control group: %v", err)
}

// within is a command that runs in a group, under one of the names of this test binary.
func within(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, dir, link}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// decoded is how many tokens an engine of so many threads decodes in the group.
func decoded(t *testing.T, dir string, threads int) int {
	t.Helper()
	out, err := within(t, dir, "llama-server", "--threads", strconv.Itoa(threads), "400").Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The real case: an engine that runs with more threads than the quota of its control group. advise, told nothing but its
// id, finds it, and what following the advice brings lies within the interval that it stated.
func TestAdviceOnARealQuota(t *testing.T) {
	dir := quotaGroup(t, 1)
	threads := 2 * runtime.NumCPU() // spinning, they lose by a large factor: no other work on the machine can hide it
	engine := within(t, dir, "llama-server", "--threads", strconv.Itoa(threads), "60000")
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	s := adviceOn(t, engine.Process.Pid)
	engine.Process.Kill()
	engine.Wait()
	if s.ID == "" {
		t.Fatalf("an engine with %d threads under a quota of 1 CPU is not found", threads)
	}
	if s.Change["threads"] != "1" || s.Impact != advisor.Critical || s.Basis != advisor.Estimate {
		t.Errorf("%+v, want the critical advice to run 1 thread", s)
	}
	var before, after int
	for range 2 {
		before += decoded(t, dir, threads)
		after += decoded(t, dir, 1)
	}
	stated, gain := *s.Expected.Speed, float64(after)/float64(max(before, 1))
	t.Logf("%d tokens with %d threads, %d with 1: %.1fx; stated %.4gx to %.4gx", before, threads, after, gain, stated.Low, stated.High)
	const few = 10 // tokens, below which the gain is only known to be large
	if gain < stated.Low || gain > stated.High && before >= few {
		t.Errorf("following the advice made it %.2fx as fast, stated were %.4gx to %.4gx", gain, stated.Low, stated.High)
	}
}

// adviceOn is what advise says of the threads of a process, once it is in its group and runs as what it is.
func adviceOn(t *testing.T, pid int) (found advisor.Suggestion) {
	t.Helper()
	for range 200 {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"--store", t.TempDir(), "--format", "json", "advise", "--pid", strconv.Itoa(pid)}, &out, &errs); code != exitDone {
			t.Fatalf("advise: code %d: %s", code, errs.String())
		}
		var report advisor.Report
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		if s, ok := report.Find("threads/above-quota"); ok {
			return s
		}
		time.Sleep(20 * time.Millisecond) // sh has not become the engine yet
	}
	return found
}
