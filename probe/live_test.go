package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/mem"
	"golang.org/x/sys/unix"
)

// inGroup makes this test binary a process that describes its host once its parent has put it into a cgroup.
const inGroup = "BITNET_AUTOTUNE_TEST_IN_GROUP"

func TestMain(m *testing.M) {
	if os.Getenv(inGroup) == "" {
		os.Exit(m.Run())
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	h, err := Local(context.Background())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(h)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// unavailable skips the test aloud, or fails it where BITNET_AUTOTUNE_REQUIRE names what is missing.
func unavailable(t *testing.T, what string, why error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), what) {
		t.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for %s: %v", what, why)
	}
	t.Skipf("NOT RUN for want of %s: %v", what, why)
}

func TestLocal(t *testing.T) {
	h, err := Local(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if h.OS != runtime.GOOS || h.Arch != runtime.GOARCH || h.Kernel == "" {
		t.Errorf("%s/%s, kernel %q", h.OS, h.Arch, h.Kernel)
	}
	if n := len(h.CPU.CPUs); n != runtime.NumCPU() {
		t.Errorf("%d CPUs allowed, the runtime sees %d", n, runtime.NumCPU())
	}
	logical, err := cpu.Counts(true)
	if err != nil || h.CPU.LogicalCores != logical {
		t.Errorf("%d logical cores, gopsutil sees %d, %v", h.CPU.LogicalCores, logical, err)
	}
	physical, err := cpu.Counts(false)
	if err != nil || h.CPU.PhysicalCores != physical {
		t.Errorf("%d physical cores, gopsutil sees %d, %v", h.CPU.PhysicalCores, physical, err)
	}
	memory, err := mem.VirtualMemory()
	if err != nil || h.Memory.TotalBytes < memory.Total || h.Memory.LimitBytes > h.Memory.TotalBytes || h.Memory.AvailableBytes > h.Memory.LimitBytes {
		t.Errorf("memory %+v, gopsutil sees %d, %v", h.Memory, memory.Total, err)
	}
	again, err := Local(context.Background())
	if err != nil || again.Fingerprint() != h.Fingerprint() {
		t.Errorf("fingerprints %s and %s, %v", h.Fingerprint(), again.Fingerprint(), err)
	}
}

// A main thread that was pinned, and stays so, does not narrow what the process may use.
func TestLocalWithPinnedMainThread(t *testing.T) {
	before := liveAffinity()
	was := unix.NewCPUSet(maxCPU + 1)
	if err := unix.SchedGetaffinityDynamic(os.Getpid(), was); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.SchedSetaffinityDynamic(os.Getpid(), was) })
	one := unix.NewCPUSet(maxCPU + 1)
	one.Set(before[0])
	if err := unix.SchedSetaffinityDynamic(os.Getpid(), one); err != nil {
		t.Fatal(err)
	}
	if now := liveAffinity(); !slices.Equal(now, before) {
		t.Errorf("affinity %v, before %v", now, before)
	}
}

// What CPUID and XCR0 (or the hardware capabilities) say is what the kernel says in proc/cpuinfo.
func TestLiveFeaturesAgreeWithCPUInfo(t *testing.T) {
	info := readCPUInfo(&tree{fsys: os.DirFS("/")})
	if len(info.words()) == 0 {
		unavailable(t, "cpuinfo", fmt.Errorf("proc/cpuinfo has no flags"))
	}
	if live, told := liveCPU().Features, info.features(); live != told {
		t.Errorf("the CPU says %v, the kernel %v", live, told)
	}
}

// A process in a real group with 1.5 CPUs sees one usable CPU, on the machine that its parent sees.
func TestLocalInRealGroup(t *testing.T) {
	rd := &tree{fsys: os.DirFS("/")}
	b := readBranches(rd).cpu
	if b.dirs == nil {
		unavailable(t, "cgroup", fmt.Errorf("no cgroup with a CPU controller: %q", rd.warnings))
	}
	dir := filepath.Join("/", b.dirs[len(b.dirs)-1], fmt.Sprintf("bitnet-autotune-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		unavailable(t, "cgroup", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	quota := map[string]string{"cpu.max": "150000 100000"}
	if b.version == 1 {
		quota = map[string]string{"cpu.cfs_quota_us": "150000"} // the period is 100000 in a new group
	}
	for name, text := range quota {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0); err != nil {
			unavailable(t, "cgroup", err)
		}
	}
	got := localIn(t, dir)
	if got.CPU.UsableCores != 1 || got.CPU.UsablePhysical != 1 || got.Cgroup.QuotaCPUs != 1.5 || got.Cgroup.Path != "/"+filepath.Base(dir) {
		t.Errorf("usable %d and %d of %+v; want 1 and 1 with a quota of 1.5", got.CPU.UsableCores, got.CPU.UsablePhysical, got.Cgroup)
	}
	if want, err := Local(context.Background()); err != nil || got.Fingerprint() != want.Fingerprint() {
		t.Errorf("fingerprint %s, outside %s, %v", got.Fingerprint(), want.Fingerprint(), err)
	}
}

// localIn returns what Local says in a process in the group at dir.
func localIn(t *testing.T, dir string) Host {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), inGroup+"=1")
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	child.Stdout = &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	err = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(child.Process.Pid)), 0)
	stdin.Close()
	if wait := child.Wait(); wait != nil {
		t.Fatal(wait)
	}
	if err != nil {
		unavailable(t, "cgroup", err)
	}
	var h Host
	if err := json.Unmarshal([]byte(out.String()), &h); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return h
}

func BenchmarkLocal(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Local(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
