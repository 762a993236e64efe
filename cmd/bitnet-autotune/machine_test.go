package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// R3.24, R3.31: what was measured on this host under these limits with this kernel table backs the matrix, the bandwidth and
// the time of a token; what was measured otherwise does not.
func TestMachineRecallsWhatWasMeasured(t *testing.T) {
	host, err := probe.Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, _ := model.Preset("falcon-e-1b")
	best := (tuner.Problem{Host: host, Model: m, Target: "cpu", Objective: tuner.ObjectiveDecode}).Heuristic()
	kernel, _ := kernels.ByName(best.Decode.Kernel)
	for name, test := range map[string]struct {
		change func(*history.Learned)
		want   float64
	}{
		"here":                   {func(*history.Learned) {}, 123},
		"with another table":     {func(l *history.Learned) { l.Signature = "other" }, 0},
		"on another host":        {func(l *history.Learned) { l.Host = "00000000000000000000000000000000" }, 0},
		"under other limits":     {func(l *history.Learned) { l.Envelope["usable_cores"] += "9" }, 0},
		"without a decoded rate": {func(l *history.Learned) { l.Certificate = json.RawMessage(`{"best":{}}`) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			proof, err := json.Marshal(tuner.Certificate{Verdict: measure.Adopt, Objective: tuner.ObjectiveDecode, Target: "cpu",
				Best: tuner.Rated{Config: best, Decode: 123}, Ratio: tuner.Ratio{Estimate: 1.5}, Roofline: tuner.Roofline{ReadBandwidth: 7e9}})
			if err != nil {
				t.Fatal(err)
			}
			l := history.Learned{Host: host.Fingerprint(), Model: m.Fingerprint(), ModelName: m.Name, Target: "cpu", Objective: "decode", Signature: kernels.Signature(),
				Identity: byName(host.Identity()), Envelope: byName(host.Envelope()), Config: json.RawMessage(`{}`), Certificate: proof, MeasuredAt: time.Now()}
			test.change(&l)
			dir := t.TempDir()
			store, err := history.Open(dir, history.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Publish(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			on := machine{constants: defaultConstants()}
			if err := on.read(t.Context(), &app{store: dir, err: io.Discard, log: zerolog.Nop()}); err != nil {
				t.Fatal(err)
			}
			use := (&useFlags{}).of(m, &on)
			cell := on.matrix.Layouts[device.DefaultLayout][kernel.Needs.Names()[len(kernel.Needs.Names())-1]]
			if use.TokensPerSecond != test.want || use.RateMeasured != (test.want > 0) || (cell.Measured != nil) != (test.want > 0) || name == "here" && on.bandwidth != 7e9 {
				t.Errorf("rate %v (measured: %v), cell %+v, bandwidth %d; want a rate of %v", use.TokensPerSecond, use.RateMeasured, cell, on.bandwidth, test.want)
			}
		})
	}
}

// R3.40: the verbs complete models and tasks, and refuse wrong use with code 2. What they print: testdata/script.
func TestVerbsOfPlacement(t *testing.T) {
	for line, want := range map[string]string{
		"classify bitnet-embed":  "bitnet-embedding-270m",
		"place a falcon-e":       "falcon-e-1b",
		"recommend --task ":      "text_generation",
		"recommend --hardware c": "cuda",
		"place --layout ":        "i2s",
	} {
		var out, errs strings.Builder
		code := run(t.Context(), append([]string{"__complete"}, strings.Split(line, " ")...), &out, &errs)
		if code != exitDone || !strings.Contains(out.String(), want) {
			t.Errorf("completion of %q: code %d, %q; want %s", line, code, out.String(), want)
		}
	}
	for _, line := range []string{"classify", "recommend", "place"} {
		if code := run(t.Context(), []string{"--store", t.TempDir(), line}, io.Discard, io.Discard); code != exitUsage {
			t.Errorf("%s: code %d, want %d", line, code, exitUsage)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{"4GB": 4e9, "512MiB": 512 << 20, "1000000": 1e6, "1.5 gb": 15e8, "2TiB": 2 << 40, "7B": 7} {
		if got, err := parseSize(text); got != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, wrong := range []string{"", "GB", "-1GB", "0", "4XB", "1e999", "4GB5", "NaN", "9e18TB"} {
		if got, err := parseSize(wrong); err == nil {
			t.Errorf("%q: %d, want an error", wrong, got)
		}
	}
}

// A document that no machine wrote is refused by field, by every verb that reads one.
func TestDocumentsAreChecked(t *testing.T) {
	const host = `{"os":"linux","arch":"amd64","cpu":{"usable_cores":2,"numa_nodes":%s},"memory":{"total_bytes":%s,"available_bytes":%s},"read_bandwidth_bytes_per_second":{"1":%s},"gpus":[%s]}`
	const card = `{"index":0,"uuid":"GPU-1","memory_total_bytes":8,"memory_free_bytes":8,"utilization":0.5}`
	for name, test := range map[string]struct{ doc, want string }{
		"nodes":            {fmt.Sprintf(host, "-3", "8", "8", "1", ""), "cpu.numa_nodes is -3"},
		"too much memory":  {fmt.Sprintf(host, "1", "18446744073709551615", "8", "1", ""), "memory.total_bytes is 18446744073709551615"},
		"more than all":    {fmt.Sprintf(host, "1", "8", "9", "1", ""), "memory.available_bytes is 9"},
		"negative rate":    {fmt.Sprintf(host, "1", "8", "8", "-5", ""), "read_bandwidth_bytes_per_second of 1 threads is -5"},
		"negative index":   {fmt.Sprintf(host, "1", "8", "8", "1", strings.Replace(card, "0", "-1", 1)), "gpus[0].index is -1"},
		"one card twice":   {fmt.Sprintf(host, "1", "8", "8", "1", card+","+card), `gpus[1].uuid "GPU-1" is there twice`},
		"more free":        {fmt.Sprintf(host, "1", "8", "8", "1", strings.Replace(card, "8", "7", 1)), "gpus[0].memory_free_bytes is 8"},
		"beyond all cards": {fmt.Sprintf(host, "1", "8", "8", "1", strings.Replace(card, "8", "18446744073709551615", 1)), "gpus[0].memory_total_bytes is 18446744073709551615"},
		"no plain text":    {fmt.Sprintf(host, "1", "8", "8", "1", strings.Replace(card, "GPU-1", `\u001b[2J`, 1)), `gpus[0]: name "", uuid "\x1b[2J"`},
		"busier than busy": {fmt.Sprintf(host, "1", "8", "8", "1", strings.Replace(card, "0.5", "1e300", 1)), "gpus[0].utilization is 1e+300"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "host.json")
			if err := os.WriteFile(file, []byte(test.doc), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, verb := range []string{"place falcon-e-1b", "classify falcon-e-1b", "recommend --matrix", "advise"} {
				var errs strings.Builder
				code := run(t.Context(), append(append([]string{"--store", t.TempDir()}, strings.Fields(verb)...), "--host", file), io.Discard, &errs)
				if code != exitUsage || !strings.Contains(errs.String(), "--host "+file+": "+test.want) {
					t.Errorf("%s: code %d, %s; want %q", verb, code, errs.String(), test.want)
				}
			}
		})
	}
	file := filepath.Join(t.TempDir(), "gpus.json")
	if err := os.WriteFile(file, []byte(`{"cards":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	if code := run(t.Context(), []string{"--store", t.TempDir(), "recommend", "--matrix", "--gpus", file}, io.Discard, &errs); code != exitUsage || !strings.Contains(errs.String(), "it has no list called gpus") {
		t.Errorf("code %d, %s; want what is missing", code, errs.String())
	}
}
