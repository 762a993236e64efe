package main

import (
	"encoding/json"
	"io"
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
