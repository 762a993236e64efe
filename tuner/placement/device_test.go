package placement_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

const gib = 1 << 30

// server is a host with 64 GiB, of which half is available.
func server() probe.Host {
	h := probe.Host{OS: "linux", Arch: "amd64", Memory: probe.Memory{TotalBytes: 64 * gib, AvailableBytes: 32 * gib, LimitBytes: 64 * gib}}
	h.CPU = probe.CPU{Model: "cpu of a test", UsablePhysical: 16, UsableCores: 32, NUMANodes: 2, Features: probe.AVX | probe.AVX2}
	return h
}

// card is an idle GPU with so many GiB.
func card(index int, gibibytes, bandwidth uint64) gpu.GPU {
	return gpu.GPU{Index: index, UUID: "GPU-" + string(rune('a'+index)), Name: "card of a test", BandwidthBytes: bandwidth,
		Memory: gpu.Memory{TotalBytes: gibibytes * gib, FreeBytes: gibibytes * gib}}
}

func devicesOf(cards ...gpu.GPU) []placement.Device {
	return placement.DefaultRules.Devices(server(), gpu.Survey{GPUs: cards}, 0)
}

func twoCards() []placement.Device { return devicesOf(card(0, 16, 500e9), card(1, 16, 500e9)) }

func TestDevices(t *testing.T) {
	full := card(2, 16, 0)
	full.FreeBytes = gib
	lost := card(3, 16, 0)
	lost.Trouble = "fell off the bus"
	got := devicesOf(full, card(0, 16, 500e9), lost)
	var ids []string
	for _, d := range got {
		ids = append(ids, d.ID)
	}
	if diff := cmp.Diff([]string{"cuda:0", "cuda:2", "cuda:3", "cpu"}, ids); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	// R3.24, RX.1: room is what the driver says is free, by the limits of cuda/memory, and what the cgroup leaves.
	idle := card(0, 16, 0).Memory
	if want := min(memory.Defaults.Available(idle), memory.Defaults.Usable(idle.TotalBytes)); got[0].RoomBytes != want || want == 0 {
		t.Errorf("room of an idle card is %d, want %d", got[0].RoomBytes, want)
	}
	if got[1].RoomBytes != 0 {
		t.Errorf("room of a card with 1 of 16 GiB free is %d, want 0: it is all reserve", got[1].RoomBytes)
	}
	if got[2].Trouble == "" {
		t.Error("a card that fell off the bus has no trouble")
	}
	if host := got[3]; host.RoomBytes != 32*gib-host.TotalBytes/10 {
		t.Errorf("room of the CPU is %d, want what is available without a tenth of %d", host.RoomBytes, host.TotalBytes)
	}
	if got[0].Bandwidth.Basis != device.Probe || got[1].Bandwidth.Basis != device.Estimate || got[3].Bandwidth.Value != 2*device.Defaults.NodeBandwidth {
		t.Errorf("bandwidths %+v, %+v, %+v", got[0].Bandwidth, got[1].Bandwidth, got[3].Bandwidth)
	}
	measured := placement.DefaultRules.Devices(server(), gpu.Survey{}, 77e9)
	if b := measured[0].Bandwidth; b.Value != 77e9 || b.Basis != device.Measured {
		t.Errorf("measured bandwidth: %+v", b)
	}
	unknown := placement.DefaultRules.Devices(probe.Host{}, gpu.Survey{GPUs: []gpu.GPU{{}}}, 0)
	if unknown[0].Trouble == "" || unknown[1].Trouble == "" {
		t.Errorf("devices of unknown memory: %+v, want trouble", unknown)
	}
}

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]string{"cuda": "cuda:0", "CUDA:1": "cuda:1", "cpu": "cpu", "cpu:0": "cpu", "mps:3": "mps:3"} {
		if got, err := placement.ParsePlace(text); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	// R3.11: a negative or malformed index is an error.
	for _, wrong := range []string{"", "gpu", "cuda:-1", "cuda:", "cuda:x", "cuda:1:2", "cuda:99999999999999999999", "cpu:1"} {
		if got, err := placement.ParsePlace(wrong); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %s, %v; want an error that says what is wanted", wrong, got, err)
		}
	}
	if kinds, err := placement.ParseKinds("cuda, CPU,cuda"); err != nil || !slices.Equal(kinds, []placement.Kind{placement.CUDA, placement.CPU}) {
		t.Errorf("%v, %v", kinds, err)
	}
}

// R3.10: the first kind that is there, and within it the index; R3.11: explained fallbacks; R3.13: what was given out
// takes part.
func TestSelect(t *testing.T) {
	lost := card(1, 16, 0)
	lost.Trouble = "lost"
	devices := devicesOf(card(0, 16, 0), lost, card(3, 16, 0))
	cuda, mps, cpu := placement.CUDA, placement.MPS, placement.CPU
	for name, test := range map[string]struct {
		kinds     []placement.Kind
		index     int
		taken     map[int]uint64 // by index of devices
		bytes     uint64
		want      string
		fallbacks []string
	}{
		"the index of the first kind":             {[]placement.Kind{cuda, cpu}, 3, nil, gib, "cuda:3", nil},
		"the second kind":                         {[]placement.Kind{mps, cuda}, 0, nil, gib, "cuda:0", []string{"there is no mps here"}},
		"an index between: the next higher":       {[]placement.Kind{cuda}, 2, nil, gib, "cuda:3", []string{"cuda:2 does not exist"}},
		"an index beyond: the first":              {[]placement.Kind{cuda}, 7, nil, gib, "cuda:0", []string{"cuda:7 does not exist"}},
		"an index that cannot be used":            {[]placement.Kind{cuda}, 1, nil, gib, "cuda:3", []string{"cuda:1 cannot be used: lost"}},
		"full: the next":                          {[]placement.Kind{cuda}, 3, map[int]uint64{2: 14 * gib}, 2 * gib, "cuda:0", []string{"cuda:3 has no room"}},
		"all full: the CPU, though not asked for": {[]placement.Kind{cuda}, 0, nil, 20 * gib, "cpu", []string{"cuda:0 has no room", "cuda:1 cannot", "cuda:3 has no room"}},
		"CPU first":                               {[]placement.Kind{cpu, cuda}, 0, nil, gib, "cpu", nil},
		"CPU with an index of a GPU":              {[]placement.Kind{cpu}, 1, nil, gib, "cpu", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var ledger placement.Ledger
			for at, bytes := range test.taken {
				if _, _, err := ledger.Select(devices[at:at+1], []placement.Kind{cuda}, devices[at].Index, bytes); err != nil {
					t.Fatal(err)
				}
			}
			got, fallbacks, err := ledger.Select(devices, test.kinds, test.index, test.bytes)
			if err != nil || got.ID != test.want {
				t.Fatalf("%s, %v; want %s", got.ID, err, test.want)
			}
			if len(fallbacks) != len(test.fallbacks) {
				t.Fatalf("fallbacks %q, want %q", fallbacks, test.fallbacks)
			}
			for i, want := range test.fallbacks {
				if !strings.HasPrefix(fallbacks[i], want) {
					t.Errorf("fallback %q, want %q", fallbacks[i], want)
				}
			}
		})
	}
	var ledger placement.Ledger
	if _, _, err := ledger.Select(devices, []placement.Kind{cuda}, -1, 1); err == nil || errors.Is(err, placement.ErrNoDevice) {
		t.Errorf("index -1: %v, want an error of its own", err) // R3.11
	}
	if _, fallbacks, err := ledger.Select(devices, []placement.Kind{cuda}, 0, 999*gib); !errors.Is(err, placement.ErrNoDevice) || len(fallbacks) != 4 {
		t.Errorf("999 GiB: %q, %v; want ErrNoDevice with a reason for each device", fallbacks, err)
	}
}

func TestLedgerReturns(t *testing.T) {
	var ledger placement.Ledger
	d, _, err := ledger.Select(twoCards(), []placement.Kind{placement.CUDA}, 1, 5)
	if err != nil || ledger.Used(d) != 5 {
		t.Fatalf("%d given out, %v", ledger.Used(d), err)
	}
	ledger.Return(d, 5)
	if ledger.Used(d) != 0 {
		t.Errorf("%d still given out", ledger.Used(d))
	}
	defer func() {
		if recover() == nil {
			t.Error("what was never taken was taken back")
		}
	}()
	ledger.Return(d, 1)
}

// Instances of a card that MIG splits share its index; each is a device of its own all the same, here and in a profile.
func TestInstancesOfOneCard(t *testing.T) {
	first, second := card(0, 16, 500e9), card(0, 16, 500e9)
	first.UUID, second.UUID = "MIG-a", "MIG-b"
	devices := devicesOf(first, card(1, 16, 500e9), second)
	var ids, uuids []string
	for _, d := range devices {
		ids, uuids = append(ids, d.ID), append(uuids, d.UUID)
	}
	if diff := cmp.Diff([]string{"cuda:0", "cuda:1", "cuda:2", "cpu"}, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"MIG-a", "GPU-b", "MIG-b", ""}, uuids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	before := placement.ProfileOf(server(), gpu.Survey{GPUs: []gpu.GPU{first, second}}, placement.DefaultMatrix())
	first.UUID = "MIG-c"
	after := placement.ProfileOf(server(), gpu.Survey{GPUs: []gpu.GPU{first, second}}, placement.DefaultMatrix())
	if found := before.Verify(after); len(found) != 1 || found[0].Stored != "MIG-a" || found[0].Now != "MIG-c" {
		t.Errorf("%+v: want the instance that was replaced", found)
	}
}

// What takes more than 64 bits can count fits nowhere, and no GPU is offered for it.
func TestPlanOfWhatCannotBeCounted(t *testing.T) {
	m, _ := model.Preset("bitnet-b1.58-2b-4t")
	s := placement.Subject{Name: m.Name, Model: m}
	for _, use := range []device.Use{{Context: 1 << 62, Batch: 1 << 62}, {Context: 1 << 50, Batch: 1000}, {Batch: 1 << 50}} {
		need, _ := placement.DefaultRules.NeedOf(s, use)
		plan := planOf(t, []placement.Want{{Model: m.Name, Family: m.Family, Need: need}}, twoCards())
		if len(plan.Unplaced) != 1 || len(plan.Unplaced[0].WouldFitWith) != 0 {
			t.Errorf("%+v: %+v, want no place and no remedy", use, plan.Unplaced)
		}
	}
}
