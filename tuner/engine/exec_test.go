package engine_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// spec writes a spec file and reads it.
func spec(t *testing.T, text string) (*engine.Spec, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spec.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return engine.ReadSpec(path)
}

// sleeper has its figure in a JSON document, which depends on its knobs: 4 threads and the fast mode are best.
const sleeper = `{
  "command": ["sh", "-c", "test \"$MODE\" != broken || exit 9; d=$(( $0 - 4 )); echo \"{\\\"runs\\\":[{\\\"seconds\\\":[$(( 100 + d * d * 10 )),$(( 101 + d * d * 10 ))]}]}\"", "{threads}"],
  "env": {"MODE": "{mode}"},
  "knobs": [
    {"name": "threads", "kind": "threads", "values": ["1","2","3","4","5","6","7","8"], "default": "8"},
    {"name": "mode", "kind": "categorical", "values": ["plain", "wrong", "broken"], "default": "plain"}
  ],
  "constraints": ["threads != 3", "mode != slow"],
  "figure": {"json": "runs.0.seconds", "unit": "s", "better": "lower"},
  "check": ["sh", "-c", "test {mode} != wrong"]
}`

func TestACommandOfOnesOwnIsTuned(t *testing.T) {
	s, err := spec(t, sleeper)
	if err != nil {
		t.Fatal(err)
	}
	c, err := engine.Search(context.Background(), &engine.Exec{Spec: s}, engine.Options{Budget: time.Hour, Pairs: 7})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(engine.Plan{engine.FigureRegime: {"threads": "4"}}, c.Closest); d != "" || c.Verdict != "ADOPT" {
		t.Errorf("%s (-want +got):\n%s", c.Verdict, d)
	}
	seen := map[engine.Status]int{}
	for _, m := range c.Runs {
		seen[m.Status]++
		if m.Setting["threads"] == "3" {
			t.Errorf("%s breaks a constraint and was run", m.Setting)
		}
	}
	if seen[engine.Mismatch] != 1 || seen[engine.ExitStatus] != 1 || len(seen) != 3 {
		t.Errorf("statuses %v: want one mismatch of the check, one exit status of the command, and OK", seen)
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	good := `{"command":["sleep",["{a}"]],"knobs":[{"name":"a","kind":"ordered","values":["1","2"]}],"figure":{"elapsed":true}}`
	if _, err := spec(t, good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, with, want string }{
		"unknown field":        {`"knobs"`, `"knob":1,"knobs"`, "unknown field"},
		"no command":           {`"sleep",["{a}"]`, ``, "command"},
		"unknown knob":         {`"{a}"`, `"{b}"`, "{b}: no knob"},
		"no way to leave out":  {`["{a}"]`, `"{a}"`, "give the knob a default"},
		"kind":                 {`"ordered"`, `"rising"`, "threads, ordered or categorical"},
		"one value":            {`["1","2"]`, `["1"]`, "two or more"},
		"twice the same value": {`["1","2"]`, `["1","1"]`, "two or more"},
		"no figure":            {`"elapsed":true`, ``, "one of json, regexp and elapsed"},
		"two figures":          {`"elapsed":true`, `"elapsed":true,"json":"a"`, "one of json, regexp and elapsed"},
		"no direction":         {`"elapsed":true`, `"json":"a"`, "lower or higher"},
		"a time to be long":    {`"elapsed":true`, `"json":"a","unit":"ms","better":"higher"`, "lower is better"},
		"no group":             {`"elapsed":true`, `"regexp":"[0-9]+","better":"lower"`, "group"},
		"constraint":           {`"knobs"`, `"constraints":["a=1"],"knobs"`, "constraint"},
	} {
		if _, err := spec(t, strings.Replace(good, c.old, c.with, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}
	}
}

func TestFiguresOfACommand(t *testing.T) {
	for name, c := range map[string]struct {
		figure, print string
		want          []float64
		status        engine.Status
	}{
		"rate":             {`{"regexp":"([0-9.]+) MB/s","unit":"MB/s","better":"higher"}`, "a: 500 MB/s, b: 250 MB/s", []float64{2e6, 4e6}, engine.OK},
		"milliseconds":     {`{"json":"ms","unit":"ms","better":"lower"}`, `{"ms":2.5}`, []float64{2.5e6}, engine.OK},
		"a unit of ones":   {`{"json":"a.1","unit":"joule","better":"lower"}`, `{"a":[1,3]}`, []float64{3}, engine.OK},
		"no match":         {`{"regexp":"([0-9.]+) MB/s","better":"higher"}`, "none", nil, engine.Garbage},
		"no number":        {`{"json":"ms","better":"lower"}`, `{"ms":"2"}`, nil, engine.Garbage},
		"nothing there":    {`{"json":"a.b.c","better":"lower"}`, `{"a":{}}`, nil, engine.Garbage},
		"zero":             {`{"json":"a","better":"higher"}`, `{"a":0}`, nil, engine.Garbage},
		"negative":         {`{"json":"a","better":"lower"}`, `{"a":-1}`, nil, engine.Garbage},
		"beyond the list":  {`{"json":"a.2","better":"lower"}`, `{"a":[1,2]}`, nil, engine.Garbage},
		"an empty list":    {`{"json":"a","better":"lower"}`, `{"a":[]}`, nil, engine.Garbage},
		"not JSON":         {`{"json":"a","better":"lower"}`, `a=1`, nil, engine.Garbage},
		"words in a group": {`{"regexp":"(\\S+) MB/s","better":"higher"}`, "some MB/s", nil, engine.Garbage},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := spec(t, `{"command":["printf","%s",`+quoted(c.print)+`],"knobs":[{"name":"a","kind":"ordered","values":["1","2"]}],"figure":`+c.figure+`}`)
			if err != nil {
				t.Fatal(err)
			}
			o := (&engine.Exec{Spec: s}).Run(context.Background(), nil, []string{engine.FigureRegime}, time.Minute)
			if d := cmp.Diff(c.want, o.Samples[engine.FigureRegime]); d != "" || o.Status != c.status {
				t.Errorf("%s (%s) (-want +got):\n%s", o.Status, o.Note, d)
			}
		})
	}
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// TestTheExamplesRun runs the commands of the documented specs as they are and with every knob set, where the programs are.
func TestTheExamplesRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "words.txt"), []byte(strings.Repeat("of the three, this is the second line\nand this the first\n", 5000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sort", "xz", "openssl"} {
		t.Run(name, func(t *testing.T) {
			s, err := engine.ReadSpec(filepath.Join("testdata", "spec", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			s.Dir = dir
			if _, err := exec.LookPath(name); err != nil {
				if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), name) {
					t.Fatal(err)
				}
				t.Skipf("NOT TESTED: %v", err)
			}
			e := &engine.Exec{Spec: s}
			all := engine.Setting{}
			for _, k := range s.Knobs {
				all[k.Name] = k.Values[0]
			}
			for _, set := range []engine.Setting{nil, all} {
				if o := e.Run(context.Background(), set, nil, time.Minute); o.Status != engine.OK || len(o.Samples[engine.FigureRegime]) != 1 {
					t.Errorf("%s: %s %s", e.Command(set), o.Status, o.Note)
				}
			}
		})
	}
}

// TestTheBenchmarkOfBitnetCPP runs the documented spec with a python3 that does what e2e_benchmark.py does: it prints the table
// of llama-bench and fails, whatever happened.
func TestTheBenchmarkOfBitnetCPP(t *testing.T) {
	table, err := filepath.Abs(filepath.Join("testdata", "output", "llama.cpp-b3889.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\nwhile [ \"$1\" != --threads ]; do shift; done\n[ \"$2\" = 4 ] || cat '"+table+"'\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	s, err := engine.ReadSpec(filepath.Join("testdata", "spec", "e2e_benchmark.json"))
	if err != nil {
		t.Fatal(err)
	}
	e, rate := &engine.Exec{Spec: s}, 1.3
	if d := cmp.Diff([]float64{1e9 / rate}, e.Run(context.Background(), nil, nil, time.Minute).Samples[engine.FigureRegime]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if o := e.Run(context.Background(), engine.Setting{"threads": "4"}, nil, time.Minute); o.Status != engine.Garbage {
		t.Errorf("a benchmark that prints nothing: %s, want %s", o.Status, engine.Garbage)
	}
}
