package model_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// published are sizes of the published models over all ternary tensors: weights in millions, then MB (10^6 bytes) in
// each layout, rounded to 0.1; 0 = the layout cannot hold the model. f16 is the embedding with the head.
var published = []struct {
	name                                       string
	tensors                                    int
	weights                                    float64
	i2s, tl1, tl2, tq1, tq2, iq1bn, iq2bn, f16 float64
}{
	{"bitnet-b1.58-2b-4t", 210, 2084.0, 521.0, 521.0, 441.5, 439.6, 537.3, 424.7, 523.7, 656.7},
	{"bitnet-b1.58-large", 168, 679.5, 169.9, 169.9, 145.6, 143.3, 175.2, 138.8, 171.4, 98.3},
	{"bitnet-b1.58-3b", 182, 3221.5, 0, 805.4, 680.4, 0, 0, 656.1, 808.8, 204.8},
	{"llama3-8b-1.58", 224, 6979.3, 1744.8, 1744.8, 1468.7, 1472.2, 1799.4, 1420.4, 1750.3, 2101.3},
	{"falcon3-1b-1.58", 126, 1132.5, 283.1, 283.1, 240.7, 238.9, 292.0, 230.9, 284.9, 1073.7},
	{"falcon3-3b-1.58", 154, 2422.2, 605.6, 605.6, 511.6, 510.9, 624.5, 493.3, 608.2, 1610.6},
	{"falcon3-7b-1.58", 196, 6650.1, 1662.5, 1662.5, 1402.6, 1402.7, 1714.5, 1354.0, 1668.9, 1610.7},
	{"falcon3-10b-1.58", 280, 9500.1, 2375.0, 2375.0, 2003.7, 2003.9, 2449.2, 1934.3, 2384.2, 1610.6},
	{"falcon-e-1b", 168, 1585.4, 396.4, 396.4, 336.7, 334.4, 408.7, 323.2, 398.8, 268.4},
	{"falcon-e-3b", 224, 2919.2, 729.8, 729.8, 619.5, 615.8, 752.6, 595.1, 734.1, 268.4},
	{"bitnet-embedding-0.6b", 196, 440.4, 110.1, 0, 0, 92.9, 113.5, 90.1, 111.5, 311.2},
	{"bitnet-embedding-270m", 126, 100.3, 25.1, 0, 0, 0, 0, 20.6, 25.6, 335.5},
}

func TestPresetSizes(t *testing.T) {
	if got := len(model.Presets()); got != len(published) {
		t.Errorf("%d presets, want %d", got, len(published))
	}
	for _, want := range published {
		t.Run(want.name, func(t *testing.T) {
			m, ok := model.Preset(want.name)
			if !ok {
				t.Fatal("no such preset")
			}
			near(t, "million weights", float64(m.TernaryWeights())/1e6, want.weights)
			tensors := 0
			for _, s := range m.Shapes {
				tensors += s.Count
			}
			if tensors != want.tensors {
				t.Errorf("%d ternary tensors, want %d", tensors, want.tensors)
			}
			f16 := m.EmbeddingBytes
			if !m.Tied {
				f16 += m.HeadBytes
			}
			near(t, "MB of embedding and head", float64(f16)/1e6, want.f16)
			for layout, mb := range map[string]float64{
				"i2s": want.i2s, "tl1": want.tl1, "tl2": want.tl2, "tq1_0": want.tq1, "tq2_0": want.tq2, "iq1_bn": want.iq1bn, "iq2_bn": want.iq2bn,
			} {
				size, has := m.Bytes()[layout]
				if has != (mb > 0) {
					t.Errorf("layout %s: present is %v, want %v", layout, has, mb > 0)
				}
				near(t, "MB of "+layout, float64(size)/1e6, mb)
			}
		})
	}
}

// near fails unless got is want, which is rounded to one decimal.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.0501 {
		t.Errorf("%s: %.3f, want %.1f", what, got, want)
	}
}

func TestPresetShapes(t *testing.T) {
	for name, want := range map[string][]model.Shape{
		"bitnet-b1.58-2b-4t":    {{N: 2560, K: 2560, Count: 60, Roles: "q,o"}, {N: 640, K: 2560, Count: 60, Roles: "k,v"}, {N: 6912, K: 2560, Count: 60, Roles: "gate,up"}, {N: 2560, K: 6912, Count: 30, Roles: "down"}},
		"bitnet-b1.58-large":    {{N: 1536, K: 1536, Count: 96, Roles: "q,k,v,o"}, {N: 4096, K: 1536, Count: 48, Roles: "gate,up"}, {N: 1536, K: 4096, Count: 24, Roles: "down"}},
		"bitnet-b1.58-3b":       {{N: 3200, K: 3200, Count: 104, Roles: "q,k,v,o"}, {N: 8640, K: 3200, Count: 52, Roles: "gate,up"}, {N: 3200, K: 8640, Count: 26, Roles: "down"}},
		"llama3-8b-1.58":        {{N: 4096, K: 4096, Count: 64, Roles: "q,o"}, {N: 1024, K: 4096, Count: 64, Roles: "k,v"}, {N: 14336, K: 4096, Count: 64, Roles: "gate,up"}, {N: 4096, K: 14336, Count: 32, Roles: "down"}},
		"falcon3-1b-1.58":       {{N: 2048, K: 2048, Count: 36, Roles: "q,o"}, {N: 1024, K: 2048, Count: 36, Roles: "k,v"}, {N: 8192, K: 2048, Count: 36, Roles: "gate,up"}, {N: 2048, K: 8192, Count: 18, Roles: "down"}},
		"falcon3-3b-1.58":       {{N: 3072, K: 3072, Count: 44, Roles: "q,o"}, {N: 1024, K: 3072, Count: 44, Roles: "k,v"}, {N: 9216, K: 3072, Count: 44, Roles: "gate,up"}, {N: 3072, K: 9216, Count: 22, Roles: "down"}},
		"falcon3-7b-1.58":       {{N: 3072, K: 3072, Count: 56, Roles: "q,o"}, {N: 1024, K: 3072, Count: 56, Roles: "k,v"}, {N: 23040, K: 3072, Count: 56, Roles: "gate,up"}, {N: 3072, K: 23040, Count: 28, Roles: "down"}},
		"falcon3-10b-1.58":      {{N: 3072, K: 3072, Count: 80, Roles: "q,o"}, {N: 1024, K: 3072, Count: 80, Roles: "k,v"}, {N: 23040, K: 3072, Count: 80, Roles: "gate,up"}, {N: 3072, K: 23040, Count: 40, Roles: "down"}},
		"falcon-e-1b":           {{N: 2048, K: 2048, Count: 48, Roles: "q,o"}, {N: 256, K: 2048, Count: 48, Roles: "k,v"}, {N: 9216, K: 2048, Count: 48, Roles: "gate,up"}, {N: 2048, K: 9216, Count: 24, Roles: "down"}},
		"falcon-e-3b":           {{N: 2048, K: 2048, Count: 64, Roles: "q,o"}, {N: 256, K: 2048, Count: 64, Roles: "k,v"}, {N: 13312, K: 2048, Count: 64, Roles: "gate,up"}, {N: 2048, K: 13312, Count: 32, Roles: "down"}},
		"bitnet-embedding-0.6b": {{N: 2048, K: 1024, Count: 28, Roles: "q"}, {N: 1024, K: 1024, Count: 56, Roles: "k,v"}, {N: 1024, K: 2048, Count: 28, Roles: "o"}, {N: 3072, K: 1024, Count: 56, Roles: "gate,up"}, {N: 1024, K: 3072, Count: 28, Roles: "down"}},
		"bitnet-embedding-270m": {{N: 1024, K: 640, Count: 18, Roles: "q"}, {N: 256, K: 640, Count: 36, Roles: "k,v"}, {N: 640, K: 1024, Count: 18, Roles: "o"}, {N: 2048, K: 640, Count: 36, Roles: "gate,up"}, {N: 640, K: 2048, Count: 18, Roles: "down"}},
	} {
		m, _ := model.Preset(name)
		if diff := cmp.Diff(want, m.Shapes); diff != "" {
			t.Errorf("%s: shapes (-want +got):\n%s", name, diff)
		}
	}
}

func TestLayerTouchesEveryWeight(t *testing.T) {
	for _, m := range model.Presets() {
		var order []string
		var sum uint64
		for _, mm := range m.Layer() {
			order = append(order, mm.Role)
			sum += uint64(mm.N) * uint64(mm.K)
		}
		if want := []string{"q", "k", "v", "o", "gate", "up", "down"}; !slices.Equal(order, want) {
			t.Errorf("%s: layer is %v, want %v", m.Name, order, want)
		}
		if sum *= uint64(m.Layers); sum != m.TernaryWeights() {
			t.Errorf("%s: the layers have %d weights, the shapes %d", m.Name, sum, m.TernaryWeights())
		}
	}
}

func TestPresetIsACopy(t *testing.T) {
	m, _ := model.Preset("falcon-e-1b")
	m.Shapes[0].N = 1
	if again, _ := model.Preset("falcon-e-1b"); again.Shapes[0].N != 2048 {
		t.Error("changing a preset changed the table")
	}
}

func TestFingerprint(t *testing.T) {
	base, _ := model.Preset("bitnet-b1.58-2b-4t")
	if got := base.Fingerprint(); len(got) != 32 {
		t.Errorf("fingerprint %q has %d digits, want 32", got, len(got))
	}
	for name, c := range map[string]struct {
		change func(*model.Model)
		same   bool
	}{
		"name":   {func(m *model.Model) { m.Name = "other" }, true},
		"path":   {func(m *model.Model) { m.Source = "/other" }, true},
		"vocab":  {func(m *model.Model) { m.Vocab++ }, true},
		"layers": {func(m *model.Model) { m.Layers++ }, false},
		"count":  {func(m *model.Model) { m.Shapes[0].Count++ }, false},
		"n":      {func(m *model.Model) { m.Shapes[1].N++ }, false},
		"roles":  {func(m *model.Model) { m.Shapes[0].Roles, m.Shapes[1].Roles = "q,v", "k,o" }, false},
	} {
		m, _ := model.Preset("bitnet-b1.58-2b-4t")
		if c.change(&m); (m.Fingerprint() == base.Fingerprint()) != c.same {
			t.Errorf("changing the %s: fingerprint stays %v, want %v", name, !c.same, c.same)
		}
	}
	seen := make(map[string]string)
	for _, m := range model.Presets() {
		if other, twice := seen[m.Fingerprint()]; twice {
			t.Errorf("%s and %s have one fingerprint", m.Name, other)
		}
		seen[m.Fingerprint()] = m.Name
	}
}

func TestJSON(t *testing.T) {
	m, _ := model.Preset("bitnet-embedding-270m")
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, extra := range []string{"fingerprint", "source", "tied", "head_bytes", "embedding_bytes", "warnings"} {
		if _, has := got[extra]; !has {
			t.Errorf("no field %q", extra)
		}
		delete(got, extra)
	}
	shape := func(n, k, count float64, roles string) any {
		return map[string]any{"n": n, "k": k, "count": count, "roles": roles}
	}
	want := map[string]any{
		"name": "bitnet-embedding-270m", "architecture": "gemma3", "family": "embedding", "layers": 18.0, "hidden": 640.0,
		"ffn": 2048.0, "heads": 4.0, "kv_heads": 1.0, "head_dim": 256.0, "vocab": 262144.0, "file_type": "",
		"shapes":          []any{shape(1024, 640, 18, "q"), shape(256, 640, 36, "k,v"), shape(640, 1024, 18, "o"), shape(2048, 640, 36, "gate,up"), shape(640, 2048, 18, "down")},
		"ternary_weights": 100270080.0,
		"bytes":           map[string]any{"i2s": 25071552.0, "iq1_bn": 20616192.0, "iq2_bn": 25565184.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var back model.Model
	if err := json.Unmarshal(text, &back); err != nil || back.Fingerprint() != m.Fingerprint() {
		t.Errorf("reading it back: %v, fingerprint %s, want %s", err, back.Fingerprint(), m.Fingerprint())
	}
}
