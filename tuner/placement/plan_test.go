package placement_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// want is a model of a family that takes so many GiB and reads half of them for a token.
func want(name, family string, gibibytes uint64) placement.Want {
	return placement.Want{Model: name, Family: family, Need: placement.Need{Bytes: gibibytes * gib, ReadBytes: gibibytes * gib / 2, DiskBytes: gibibytes * gib}}
}

func at(kind placement.Kind, index int) *placement.Place {
	return &placement.Place{Kind: kind, Index: index}
}

func planOf(t *testing.T, wants []placement.Want, devices []placement.Device) placement.Plan {
	t.Helper()
	p, err := placement.DefaultRules.Plan(wants, devices, placement.DefaultMatrix())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// where is the device of each placed model.
func where(p placement.Plan) map[string]string {
	found := map[string]string{}
	for _, at := range p.Placements {
		found[at.Model] = at.Device
	}
	return found
}

func TestPlan(t *testing.T) {
	text, vision, embedding, multimodal := model.TextGeneration, model.Vision, model.Embedding, model.Multimodal
	lost := card(1, 16, 500e9)
	lost.Trouble = "lost"
	busy := card(1, 16, 500e9)
	busy.Utilization = 0.9
	crowded := card(0, 16, 500e9)
	crowded.FreeBytes -= gib
	prefer := func(w placement.Want, p *placement.Place) placement.Want { w.Prefer = p; return w }
	only := func(w placement.Want, kinds ...placement.Kind) placement.Want { w.Kinds = kinds; return w }
	for name, test := range map[string]struct {
		wants   []placement.Want
		devices []placement.Device
		want    map[string]string
	}{
		// R3.23: text generation to the primary GPU, vision to the secondary one, whatever they are called.
		"text and vision on two GPUs":            {[]placement.Want{want("a", vision, 2), want("b", text, 4)}, twoCards(), map[string]string{"a": "cuda:1", "b": "cuda:0"}},
		"vision alone on two GPUs":               {[]placement.Want{want("a", vision, 2)}, twoCards(), map[string]string{"a": "cuda:1"}},
		"text and vision, the first GPU crowded": {[]placement.Want{want("a", vision, 2), want("b", text, 4)}, devicesOf(crowded, card(1, 16, 500e9)), map[string]string{"a": "cuda:1", "b": "cuda:0"}},
		"the larger of two texts is primary":     {[]placement.Want{want("a", text, 2), want("b", text, 4)}, twoCards(), map[string]string{"a": "cuda:1", "b": "cuda:0"}},
		"the larger of two embeddings is first":  {[]placement.Want{want("a", embedding, 2), want("b", embedding, 4)}, twoCards(), map[string]string{"a": "cuda:1", "b": "cuda:0"}},
		"one GPU: all on it":                     {[]placement.Want{want("a", vision, 2), want("b", text, 4)}, devicesOf(card(0, 16, 500e9)), map[string]string{"a": "cuda:0", "b": "cuda:0"}},
		"no GPU: all on the CPU":                 {[]placement.Want{want("a", vision, 2), want("b", text, 4)}, devicesOf(), map[string]string{"a": "cpu", "b": "cpu"}},
		"a quicker second GPU wins":              {[]placement.Want{want("a", text, 4)}, devicesOf(card(0, 16, 300e9), card(1, 16, 900e9)), map[string]string{"a": "cuda:1"}},
		"a primary GPU without room for it":      {[]placement.Want{want("a", text, 10)}, devicesOf(card(0, 8, 500e9), card(1, 16, 500e9)), map[string]string{"a": "cuda:1"}},
		"a lost GPU is left out":                 {[]placement.Want{want("a", vision, 2)}, devicesOf(card(0, 16, 500e9), lost), map[string]string{"a": "cuda:0"}},
		// R3.24: balancing by live usage.
		"a busy GPU is slow": {[]placement.Want{want("a", vision, 2)}, devicesOf(card(0, 16, 500e9), busy), map[string]string{"a": "cuda:0"}},
		// R3.22: preferences.
		"asked for on the secondary GPU":        {[]placement.Want{prefer(want("a", text, 4), at("cuda", 1))}, twoCards(), map[string]string{"a": "cuda:1"}},
		"asked for on the CPU":                  {[]placement.Want{prefer(want("a", text, 4), at("cpu", 0))}, twoCards(), map[string]string{"a": "cpu"}},
		"asked for where it does not exist":     {[]placement.Want{prefer(want("a", text, 4), at("cuda", 5))}, twoCards(), map[string]string{"a": "cuda:0"}},
		"asked for where there is no room":      {[]placement.Want{prefer(want("a", text, 20), at("cuda", 1))}, twoCards(), map[string]string{"a": "cpu"}},
		"both asked for where one fits":         {[]placement.Want{prefer(want("a", text, 8), at("cuda", 0)), prefer(want("b", text, 8), at("cuda", 0))}, twoCards(), map[string]string{"a": "cuda:0", "b": "cuda:1"}},
		"only the CPU is allowed":               {[]placement.Want{only(want("a", text, 4), "cpu")}, twoCards(), map[string]string{"a": "cpu"}},
		"an unknown family is for the CPU":      {[]placement.Want{want("a", model.Unknown, 4)}, twoCards(), map[string]string{"a": "cpu"}},
		"an unknown family, asked for on a GPU": {[]placement.Want{prefer(want("a", model.Unknown, 4), at("cuda", 0))}, twoCards(), map[string]string{"a": "cuda:0"}},
		"more models rather than a larger one":  {[]placement.Want{only(want("a", multimodal, 13), "cuda"), only(want("b", text, 8), "cuda"), only(want("c", text, 5), "cuda")}, devicesOf(card(0, 16, 500e9)), map[string]string{"b": "cuda:0", "c": "cuda:0"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := planOf(t, test.wants, test.devices)
			if diff := cmp.Diff(test.want, where(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Placements)+len(got.Unplaced) != len(test.wants) || !got.Optimal {
				t.Errorf("%+v: want each model once, and a proof", got)
			}
			for _, p := range got.Placements {
				if p.Reason == "" || p.MemoryBasis == "" && p.TimeBasis == "" {
					t.Errorf("%+v: want a reason", p)
				}
			}
			if asked := test.wants[0].Prefer; asked != nil && got.Placements[0].Device != asked.String() && len(got.Warnings) == 0 {
				t.Error("a preference is missed without a warning") // R3.11
			}
		})
	}
}

// R3.22: a model named twice is loaded once.
func TestPlanSharesModels(t *testing.T) {
	got := planOf(t, []placement.Want{want("a", model.TextGeneration, 4), want("b", model.TextGeneration, 4), want("a", model.TextGeneration, 4)}, twoCards())
	if len(got.Placements) != 2 || got.Placements[0].Users != 2 || got.Pool.MemoryBytes != 8*gib {
		t.Errorf("%+v, want a for 2 users and b, 8 GiB together", got)
	}
	other := want("a", model.TextGeneration, 5)
	if _, err := placement.DefaultRules.Plan([]placement.Want{want("a", model.TextGeneration, 4), other}, twoCards(), placement.DefaultMatrix()); err == nil {
		t.Error("one model with two needs was accepted")
	}
	one, two := want("a", model.TextGeneration, 4), want("a", model.TextGeneration, 4)
	one.Prefer, two.Prefer = at("cuda", 0), at("cuda", 1)
	if _, err := placement.DefaultRules.Plan([]placement.Want{one, two}, twoCards(), placement.DefaultMatrix()); err == nil || !strings.Contains(err.Error(), "name one device") {
		t.Errorf("one model on two devices: %v, want an error", err)
	}
}

// R3.21: sums and peak, cores, disk.
func TestPlanPool(t *testing.T) {
	cpu := want("c", model.Embedding, 1)
	cpu.Prefer = at("cpu", 0)
	got := planOf(t, []placement.Want{want("a", model.TextGeneration, 4), want("b", model.Vision, 2), cpu}, twoCards())
	want := placement.Pooled{MemoryBytes: 7 * gib, PeakBytes: 4 * gib, Cores: 2*device.Defaults.GPUThreads + placement.Defaults.CPUCores, DiskBytes: 7 * gib}
	if diff := cmp.Diff(want, got.Pool); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	used := map[string]uint64{}
	for _, d := range got.Devices {
		used[d.ID] = d.UsedBytes
	}
	if diff := cmp.Diff(map[string]uint64{"cuda:0": 4 * gib, "cuda:1": 2 * gib, "cpu": gib}, used); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// R3.21: what does not fit says why and what would make it fit, and that is true.
func TestPlanTellsWhatWouldFit(t *testing.T) {
	m, _ := model.Preset("llama3-8b-1.58")
	s := placement.Subject{Name: m.Name, Model: m}
	use := device.Use{Context: 8192, Batch: 8}
	need, _ := placement.DefaultRules.NeedOf(s, use)
	w := placement.Want{Model: m.Name, Family: m.Family, Need: need, Kinds: []placement.Kind{placement.CUDA},
		Alternatives: placement.DefaultRules.Alternatives(s, use, map[string]uint64{"i2s": m.Bytes()["i2s"], "tl2": m.Bytes()["tl2"]})}
	crowded := card(0, 24, 500e9)
	crowded.FreeBytes = 10 * gib
	devices := devicesOf(crowded)
	got := planOf(t, []placement.Want{w}, devices)
	if len(got.Unplaced) != 1 || !strings.Contains(got.Unplaced[0].Reason, "cuda:0") || !strings.Contains(got.Unplaced[0].Reason, "cpu: only cuda is allowed") {
		t.Fatalf("%+v, want no place, with a reason for each device", got)
	}
	knobs := map[string]bool{}
	for _, remedy := range got.Unplaced[0].WouldFitWith {
		switch {
		case strings.Contains(remedy.Change, "context"):
			knobs["context"] = true
			if remedy.Bytes >= need.Bytes {
				t.Errorf("%+v takes no less than %d", remedy, need.Bytes)
			}
		case strings.Contains(remedy.Change, "batch"):
			knobs["batch"] = true
		case strings.HasPrefix(remedy.Change, "more memory free on cuda:0"):
			knobs["free"] = true
			freed := devices
			freed[0].RoomBytes += remedy.Bytes
			if p := planOf(t, []placement.Want{w}, freed); len(p.Unplaced) > 0 {
				t.Errorf("%+v: still no place with it", remedy)
			}
			freed[0].RoomBytes -= remedy.Bytes
		case strings.HasPrefix(remedy.Change, "one more GPU"):
			knobs["gpu"] = true
			more := card(1, 0, 500e9)
			more.TotalBytes, more.FreeBytes = remedy.Bytes, remedy.Bytes
			if p := planOf(t, []placement.Want{w}, devicesOf(crowded, more)); len(p.Unplaced) > 0 {
				t.Errorf("%+v: still no place with it", remedy)
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"context": true, "batch": true, "free": true, "gpu": true}, knobs); diff != "" {
		t.Errorf("remedies %+v (-want +got):\n%s", got.Unplaced[0].WouldFitWith, diff)
	}
}

// A layout alone helps where little is missing.
func TestPlanSuggestsALayout(t *testing.T) {
	m, _ := model.Preset("llama3-8b-1.58")
	s := placement.Subject{Name: m.Name, Model: m}
	need, _ := placement.DefaultRules.NeedOf(s, device.Use{})
	w := placement.Want{Model: m.Name, Family: m.Family, Need: need, Alternatives: placement.DefaultRules.Alternatives(s, device.Use{}, map[string]uint64{"tl2": m.Bytes()["tl2"]})}
	devices := devicesOf()
	devices[0].RoomBytes = need.Bytes - 1
	got := planOf(t, []placement.Want{w}, devices)
	if len(got.Unplaced) != 1 || len(got.Unplaced[0].WouldFitWith) == 0 || got.Unplaced[0].WouldFitWith[0].Change != "layout tl2" {
		t.Errorf("%+v, want layout tl2 first", got.Unplaced)
	}
}

// randomPool is a set of models and a host with some GPUs.
func randomPool(rng *rand.Rand) ([]placement.Want, []gpu.GPU) {
	var wants []placement.Want
	for i := range 1 + rng.IntN(12) {
		w := want(fmt.Sprint("m", i), placement.Families[rng.IntN(len(placement.Families))], 1)
		w.Need.Bytes, w.Users = 1+rng.Uint64N(12*gib), 1+rng.IntN(2)
		w.Need.ReadBytes = w.Need.Bytes / 2
		if rng.IntN(4) == 0 {
			w.Prefer = at([]placement.Kind{placement.CUDA, placement.CPU}[rng.IntN(2)], 0)
		}
		wants = append(wants, w)
	}
	var cards []gpu.GPU
	for i := range rng.IntN(4) {
		cards = append(cards, card(i, []uint64{2, 4, 8, 16, 24, 48, 80}[rng.IntN(7)], []uint64{0, 300e9, 500e9, 900e9}[rng.IntN(4)]))
		cards[i].FreeBytes -= rng.Uint64N(cards[i].TotalBytes)
	}
	return wants, cards
}

// R3.21: no device is ever given more than its room, and each model has one place at most.
func TestPlanNeverOvercommits(t *testing.T) {
	for n := range placement.Rounds(300) {
		wants, cards := randomPool(rand.New(rand.NewPCG(20, uint64(n))))
		got := planOf(t, wants, devicesOf(cards...))
		used := map[string]uint64{}
		for _, p := range got.Placements {
			used[p.Device] += p.MemoryBytes
		}
		for _, d := range got.Devices {
			if d.UsedBytes != used[d.ID] || d.UsedBytes > d.RoomBytes {
				t.Fatalf("pool %d: %s has %d of models and says %d, room for %d", n, d.ID, used[d.ID], d.UsedBytes, d.RoomBytes)
			}
		}
		if len(got.Placements)+len(got.Unplaced) != len(wants) {
			t.Fatalf("pool %d: %d placed and %d not, of %d", n, len(got.Placements), len(got.Unplaced), len(wants))
		}
	}
}

// R3.21: the plan depends on neither the order of the models nor that of the devices.
func TestPlanIsDeterministic(t *testing.T) {
	for n := range placement.Rounds(100) {
		rng := rand.New(rand.NewPCG(21, uint64(n)))
		wants, cards := randomPool(rng)
		devices := devicesOf(cards...)
		first := planOf(t, wants, devices)
		rng.Shuffle(len(wants), func(i, j int) { wants[i], wants[j] = wants[j], wants[i] })
		rng.Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
		if diff := cmp.Diff(first, planOf(t, wants, devices)); diff != "" {
			t.Fatalf("pool %d: (-first +shuffled):\n%s", n, diff)
		}
	}
}

// R3.21: a GPU more never leaves more models over, nor costs time.
func TestPlanWithAGPUMore(t *testing.T) {
	for n := range placement.Rounds(200) {
		rng := rand.New(rand.NewPCG(22, uint64(n)))
		wants, cards := randomPool(rng)
		before := planOf(t, wants, devicesOf(cards...))
		after := planOf(t, wants, devicesOf(append(cards, card(len(cards), 1+rng.Uint64N(48), 1e9+rng.Uint64N(900e9)))...))
		missed := func(p placement.Plan) (n int) {
			for _, warning := range p.Warnings {
				if strings.Contains(warning, "as asked") {
					n++
				}
			}
			return n
		}
		worse := len(after.Unplaced) > len(before.Unplaced) ||
			len(after.Unplaced) == len(before.Unplaced) && (missed(after) > missed(before) || missed(after) == missed(before) && after.TokenSeconds > before.TokenSeconds)
		if worse {
			t.Fatalf("pool %d: before %d left over, %d wishes missed, %g s; after %d, %d, %g s", n,
				len(before.Unplaced), missed(before), before.TokenSeconds, len(after.Unplaced), missed(after), after.TokenSeconds)
		}
	}
}

func TestPlanRefusesTooManyModels(t *testing.T) {
	var wants []placement.Want
	for i := range 513 {
		wants = append(wants, want(fmt.Sprint(i), model.Embedding, 1))
	}
	if _, err := placement.DefaultRules.Plan(wants, twoCards(), placement.DefaultMatrix()); err == nil || !strings.Contains(err.Error(), "512") {
		t.Errorf("%v, want an error that names the limit", err)
	}
}

func TestPlanOfNothing(t *testing.T) {
	got := planOf(t, nil, nil)
	if got.Placements == nil || got.Unplaced == nil || got.Warnings == nil || !got.Optimal {
		t.Errorf("%+v, want empty lists", got)
	}
	none := planOf(t, []placement.Want{want("a", model.Vision, 1)}, nil)
	if len(none.Unplaced) != 1 || none.Unplaced[0].Reason != "there is no device that can be used" {
		t.Errorf("%+v", none.Unplaced)
	}
}
