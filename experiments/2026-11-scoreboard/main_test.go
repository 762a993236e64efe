package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// valley writes a cache of one parameter of 60 values.
func valley(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var values, entries []string
	for x := range 60 {
		values = append(values, fmt.Sprint(x+1))
		ms := 1 + 0.001*float64((x-40)*(x-40))
		entries = append(entries, fmt.Sprintf(`"%d": {"x": %d, "time": %v, "times": [%v], "compile_time": 100}`, x+1, x+1, ms, ms))
	}
	text := fmt.Sprintf(`{"tune_params_keys": ["x"], "tune_params": {"x": [%s]}, "cache": {%s}}`, strings.Join(values, ","), strings.Join(entries, ",\n"))
	if err := os.WriteFile(filepath.Join(dir, "valley.json.gz"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBoard(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-data", valley(t), "-strategies", "random,auto", "-seeds", "4"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| valley | 60 | ", "| strategy | mean | valley |", "| random | ", "| auto | "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestBoardRefuses(t *testing.T) {
	dir := valley(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no data":          {[]string{"-data", t.TempDir()}, "set REPLAY_DATA or -data"},
		"unknown strategy": {[]string{"-data", dir, "-strategies", "best"}, `"best": want one of auto`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), c.args, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q in it", err, c.want)
			}
		})
	}
}
