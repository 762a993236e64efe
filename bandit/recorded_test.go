package bandit_test

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/bandit/bandittest"
)

// cache is what is needed here of a Kernel Tuner cache file.
type cache struct {
	Keys    []string                  `json:"tune_params_keys"`
	Values  map[string][]json.Number  `json:"tune_params"`
	Entries map[string]map[string]any `json:"cache"`
}

// recordedTables returns parts of recorded spaces, of 300 to 530 points each, as small as a host's.
func recordedTables(t testing.TB) []*bandittest.Table {
	t.Helper()
	dir := cmp.Or(os.Getenv("REPLAY_DATA"), filepath.Join("..", "..", "shared", "replay"))
	if _, err := os.Stat(dir); err != nil {
		if strings.Contains(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), "replay") {
			t.Fatalf("recorded tables are required: %v; set REPLAY_DATA to their directory", err)
		}
		t.Logf("RECORDED TABLES NOT USED: %v; set REPLAY_DATA to their directory", err)
		return nil
	}
	return []*bandittest.Table{
		recorded(t, filepath.Join(dir, "pnpoly-RTX_3090.json.gz"), map[string]string{"block_size_x": "64 128 256 512"}),
		recorded(t, filepath.Join(dir, "convolution-A4000.json.gz"), map[string]string{
			"block_size_x": "16 32 64 128 256", "read_only": "0", "use_padding": "0", "use_shmem": "1"}),
		recorded(t, filepath.Join(dir, "dedispersion-MI250X.json.gz"), map[string]string{
			"block_size_y": "4 8 16 32 64 128", "tile_stride_x": "0", "tile_stride_y": "0"}),
	}
}

// recorded reads a table and keeps the part where every knob named in only has one of the values listed there.
func recorded(t testing.TB, file string, only map[string]string) *bandittest.Table {
	t.Helper()
	c := readCache(t, file)
	space := partOf(t, c, only)
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	table := &bandittest.Table{Name: name, Space: space, Noise: 0.02, Cost: make([]float64, space.Size())}
	for i := range table.Cost {
		p := space.At(i)
		entry := c.entry(func(knob string) string { return space.Value(p, knob) })
		table.Cost[i], _ = entry["time"].(float64) // an error class is a string: a failure
	}
	return table
}

func readCache(t testing.TB, file string) cache {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var c cache
	if err := json.NewDecoder(plain).Decode(&c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return c
}

func (c cache) entry(value func(string) string) map[string]any {
	values := make([]string, len(c.Keys))
	for i, knob := range c.Keys {
		values[i] = value(knob)
	}
	return c.Entries[strings.Join(values, ",")]
}

func partOf(t testing.TB, c cache, only map[string]string) *bandit.Space {
	t.Helper()
	knobs := make([]bandit.Knob, len(c.Keys))
	for i, name := range c.Keys {
		knobs[i].Name = name
		for _, v := range c.Values[name] {
			if listed, ok := only[name]; !ok || slices.Contains(strings.Fields(listed), v.String()) {
				knobs[i].Values = append(knobs[i].Values, v.String())
			}
		}
	}
	space, err := bandit.NewSpace(knobs, bandit.Rule{
		Reason: "not recorded",
		Allows: func(value func(string) string) bool { return c.entry(value) != nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return space
}
