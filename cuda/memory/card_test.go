package memory

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
)

// R4.60 R4.62: the same on the cards of this machine, where it has any, and their memory as nvidia-smi tells it.
func TestMemoryOnThisMachinesGPU(t *testing.T) {
	d, err := driver.Local(driver.Options{Library: os.Getenv("BITNET_CUDA_LIBRARY")})
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), "cuda") {
			t.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for cuda: %v", err)
		}
		t.Skipf("NOT TESTED: memory on a card (R4.60, R4.62): %v", err)
	}
	defer d.Close()
	for _, device := range d.Devices() {
		t.Run(device.Name(), func(t *testing.T) {
			if _, err := device.MemoryInfo(); err != nil { // makes the context, which is not what is timed
				t.Fatal(err)
			}
			start := time.Now()
			m, err := NewManager(d, device.Ordinal(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, m)
			t.Logf("R4.50: a manager after %v", time.Since(start))
			onCard(t, m)
			compare(t, m)
		})
	}
}

// onCard is what has to work on any card with some hundred MB free.
func onCard(t *testing.T, m *Manager) {
	t.Helper()
	r, err := m.Memory()
	if err != nil || r.TotalBytes == 0 || r.FreeBytes == 0 || m.Usable() > r.TotalBytes {
		t.Fatalf("%+v, %v; usable %d", r, err, m.Usable())
	}
	if _, err := m.Alloc(Request{Bytes: m.Usable() + 1}); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("more than is usable: %v", err)
	}
	for _, n := range []uint64{1 * kib, 1 * mib, 30*mib + 5, 120 * mib} {
		start := time.Now()
		a := get(t, m, n)
		miss := time.Since(start)
		want := bytes.Repeat([]byte{byte(n), 1, 2, 3, 5}, int(n/5))
		got := make([]byte, len(want))
		if err := errors.Join(m.Upload(a, bytes.NewReader(want), uint64(len(want))), driver.Download(m.device, got, a.Ptr)); err != nil || !bytes.Equal(want, got) {
			t.Errorf("%d bytes in the %s pool: %v, equal %v", n, a.Owner, err, bytes.Equal(want, got))
		}
		drop(t, m, a)
		start = time.Now()
		a = get(t, m, n)
		t.Logf("R4.51: %d bytes (%s): %v with the driver, %v without", n, a.Owner, miss, time.Since(start))
		drop(t, m, a)
	}
}

// compare holds the driver's answer against that of an outside tool. NVML counts what the driver keeps for itself as
// part of the total, CUDA does not, so they differ by some hundred MB.
func compare(t *testing.T, m *Manager) {
	t.Helper()
	out, err := exec.Command("nvidia-smi", "--id="+m.Properties().UUID, "--query-gpu=memory.total,memory.free", "--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Logf("NOT TESTED: against nvidia-smi: %v", err)
		return
	}
	total, free, _ := strings.Cut(strings.TrimSpace(string(out)), ",")
	theirs := [2]float64{}
	for i, text := range []string{total, free} {
		if theirs[i], err = strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil {
			t.Fatalf("nvidia-smi says %q", out)
		}
	}
	ours, err := m.Refresh()
	if err != nil {
		t.Fatal(err)
	}
	for i, bytes := range []uint64{ours.TotalBytes, ours.FreeBytes} {
		if got := float64(bytes) / mib; math.Abs(got-theirs[i]) > 0.02*theirs[0]+512 {
			t.Errorf("%.0f MiB, nvidia-smi says %.0f (total, free: %q)", got, theirs[i], strings.TrimSpace(string(out)))
		}
	}
}
