package bandit_test

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/bandit/bandittest"
)

// record is what a Kernel Tuner cache file holds, as far as it is needed here.
type record struct {
	Keys   []string                  `json:"tune_params_keys"`
	Params map[string][]json.Number  `json:"tune_params"`
	Cache  map[string]map[string]any `json:"cache"`
}

var _ = flag.Bool
var _ = slices.Sort[[]int]

// recorded reads a table and keeps the part where every knob named in only has one of the values given there.
func recorded(t testing.TB, name string, only map[string]string) *bandittest.Table {
	t.Helper()
	dir := os.Getenv("REPLAY_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "replay")
	}
	f, err := os.Open(filepath.Join(dir, name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.NewDecoder(z).Decode(&r); err != nil {
		t.Fatal(err)
	}
	var knobs []bandit.Knob
	for _, key := range r.Keys {
		k := bandit.Knob{Name: key}
		for _, v := range r.Params[key] {
			if set, ok := only[key]; !ok || slices.Contains(strings.Fields(set), v.String()) {
				k.Values = append(k.Values, v.String())
			}
		}
		knobs = append(knobs, k)
	}
	key := func(v func(string) string) string {
		var b []string
		for _, k := range r.Keys {
			b = append(b, v(k))
		}
		return strings.Join(b, ",")
	}
	s, err := bandit.NewSpace(knobs, bandit.Rule{Reason: "not recorded", Allows: func(v func(string) string) bool { return r.Cache[key(v)] != nil }})
	if err != nil {
		t.Fatal(err)
	}
	tab := &bandittest.Table{Name: name, Space: s, Noise: 0.02, Cost: make([]float64, s.Size())}
	for i := range tab.Cost {
		p := s.At(i)
		tab.Cost[i], _ = r.Cache[key(func(k string) string { return s.Value(p, k) })]["time"].(float64)
	}
	return tab
}

func recordedTables(t testing.TB) []*bandittest.Table {
	out := []*bandittest.Table{
		recorded(t, "pnpoly-RTX_3090", map[string]string{"block_size_x": "64 128 256 512"}),
		recorded(t, "convolution-A4000", map[string]string{"block_size_x": "16 32 64 128 256", "read_only": "0", "use_padding": "0", "use_shmem": "1"}),
		recorded(t, "dedispersion-MI250X", map[string]string{"block_size_y": "4 8 16 32 64 128", "tile_stride_x": "0", "tile_stride_y": "0"}),
	}
	for _, o := range out {
		fails := 0
		for _, c := range o.Cost {
			if c == 0 {
				fails++
			}
		}
		fmt.Println(o.Name, o.Space.Size(), fails)
	}
	return out
}
