package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

func TestOutputOfReleasedVersions(t *testing.T) {
	type test struct {
		Prompt, Generate, Samples int
		First                     float64
		Build, Model, Threads     string
	}
	for file, want := range map[string][]test{
		"llama.cpp-b1275.json": {
			{512, 0, 5, 213837238, "3469684/1275", "llama 7B mostly Q4_0", "16"},
			{0, 128, 5, 984472709, "3469684/1275", "llama 7B mostly Q4_0", "16"},
		},
		"llama.cpp-b5163.jsonl": {
			{512, 0, 5, 71551000, "8cf427ff/5163", "qwen2 7B Q4_K - Medium", "8"},
			{0, 128, 5, 1066331700, "8cf427ff/5163", "qwen2 7B Q4_K - Medium", "8"},
		},
		"llama.cpp-b3889.json": {
			{64, 0, 2, 13116348526, "a004b08/1", "bitnet ?B TQ2_0 - 2.06 bpw ternary", "2"},
			{0, 16, 2, 35265236826, "a004b08/1", "bitnet ?B TQ2_0 - 2.06 bpw ternary", "2"},
		},
		"llama.cpp-b5590.json": {
			{64, 0, 2, 11408527706, "9d2e96e/1", "bitnet ?B TQ2_0 - 2.06 bpw ternary", "2"},
			{0, 16, 2, 3659989862, "9d2e96e/1", "bitnet ?B TQ2_0 - 2.06 bpw ternary", "2"},
		},
		"llama.cpp-b8121.jsonl": {
			{32, 0, 2, 7655872244, "8924466/1", "bitnet ?B TQ2_0 - 2.06 bpw ternary", "2"},
			{0, 4, 2, 8123972381, "8924466/1", "bitnet ?B TQ2_0 - 2.06 bpw ternary", "2"},
		},
		"llama.cpp-v0.5.0.jsonl": {
			{64, 0, 2, 2935949925, "de3ff81/1", "bitnet ?B TQ2_0 - 2.06 bpw ternary", "2"},
			{0, 16, 2, 2517457002, "de3ff81/1", "bitnet ?B TQ2_0 - 2.06 bpw ternary", "2"},
		},
		"llama.cpp-b11469.json": {
			{0, 256, 5, 3312565207, "ad2156533/11469", "qwen3 0.6B Q4_K - Medium", "4"},
		},
		"ik_llama.cpp-b3599.json": {
			{512, 0, 5, 57560377324, "ddc8eee1/3599", "deepseek2 671B IQ4_K_R4 - 4.5 bpw", "48"},
			{0, 128, 5, 46438924546, "ddc8eee1/3599", "deepseek2 671B IQ4_K_R4 - 4.5 bpw", "48"},
		},
	} {
		t.Run(file, func(t *testing.T) {
			rows, err := engine.ParseOutput(read(t, "output", file))
			if err != nil {
				t.Fatal(err)
			}
			var got []test
			for _, r := range rows {
				got = append(got, test{r.Prompt, r.Generate, len(r.Samples), r.Samples[0], engine.Build(r.Facts), r.Facts["model_type"], r.Facts["n_threads"]})
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestOutputThatIsRefused(t *testing.T) {
	good := string(read(t, "output", "llama.cpp-b5163.jsonl"))
	for name, c := range map[string]struct{ out, want string }{
		"nothing":            {"", "no test in it"},
		"empty list":         {"[]", "no test in it"},
		"markdown":           {"| model | t/s |", "invalid character"},
		"cut short":          {good[:len(good)-40], "unexpected EOF"},
		"trailing words":     {good + "done", "invalid character"},
		"after the array":    {"[" + strings.Split(good, "\n")[0] + "] 1", "follows the array"},
		"no samples":         {strings.Replace(good, `"samples_ns"`, `"samples"`, 1), "no field samples_ns"},
		"microseconds":       {strings.Replace(good, `"samples_ns": [ 71551000,`, `"samples_ns": [ 71551,`, 1), "units"},
		"negative":           {strings.Replace(good, "[ 71551000,", "[ -71551000,", 1), "positive number"},
		"time as text":       {strings.Replace(good, "[ 71551000,", `[ "71551000",`, 1), "want a number"},
		"half a token":       {strings.Replace(good, `"n_gen": 0`, `"n_gen": 0.5`, 1), "whole number"},
		"fewer rates":        {strings.Replace(good, "7155.74, ", "", 1), "samples_ts"},
		"not a number, C++":  {strings.Replace(good, "71551000", "nan", 1), "invalid character"},
		"no tokens at all":   {strings.Replace(good, `"n_prompt": 512`, `"n_prompt": 0`, 1), "both 0"},
		"object in an array": {`[1]`, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := engine.ParseOutput([]byte(c.out))
			if !errors.Is(err, engine.ErrGarbage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d rows, error %v: want one that says %q", len(rows), err, c.want)
			}
		})
	}
}

func FuzzParseOutput(f *testing.F) {
	for _, seed := range []string{"", "[]", `{"n_prompt":1,"n_gen":0,"samples_ns":[1e9],"samples_ts":[1]}`, `[{}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		rows, err := engine.ParseOutput(out)
		if (err == nil) != (len(rows) > 0) {
			t.Errorf("%d rows and error %v", len(rows), err)
		}
		for _, r := range rows {
			if r.Tokens() <= 0 || len(r.Samples) == 0 {
				t.Errorf("a row without a figure: %+v", r)
			}
		}
	})
}

func TestKnobsOfAHelpText(t *testing.T) {
	limits := engine.Limits{Cores: 8, Prompt: 512}
	for name, c := range map[string]struct {
		file   string
		limits engine.Limits
		knobs  string
		left   string
	}{
		"llama.cpp b3889":  {"llama.cpp-b3889.txt", limits, "threads ubatch-size flash-attn mmap poll", "n-gpu-layers: the program lists no GPU"},
		"llama.cpp v0.5.0": {"llama.cpp-v0.5.0.txt", limits, "threads ubatch-size flash-attn load-mode poll", "batch-size: the engine's own holds the prompt"},
		"ik_llama.cpp":     {"ik_llama.cpp-2026.txt", limits, "threads ubatch-size flash-attn run-time-repack mmap transparent-huge-pages", ""},
		"allowed by name": {"llama.cpp-b3889.txt", engine.Limits{Cores: 8, Prompt: 512, Allow: []string{"cache-type-k", "prio"}},
			"threads ubatch-size flash-attn mmap poll prio cache-type-k", "cache-type-v: it changes"},
		"two nodes, a mask": {"llama.cpp-b3889.txt", engine.Limits{Cores: 8, Prompt: 512, NUMANodes: 2, Masks: []string{"0xff"}},
			"threads ubatch-size flash-attn mmap poll cpu-mask numa", "prio: it takes the CPU from everything else"},
		"one core, a short prompt": {"ik_llama.cpp-2026.txt", engine.Limits{Cores: 1, Prompt: 32}, "threads flash-attn run-time-repack mmap transparent-huge-pages", "ubatch-size: the prompt is one batch"},
	} {
		t.Run(name, func(t *testing.T) {
			knobs, left, err := engine.Knobs(engine.ParseHelp(string(read(t, "help", c.file))), c.limits)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, k := range knobs {
				names = append(names, k.Name)
			}
			if got := strings.Join(names, " "); got != c.knobs {
				t.Errorf("knobs\n%s, want\n%s", got, c.knobs)
			}
			if !strings.Contains(strings.Join(left, "\n"), c.left) {
				t.Errorf("left out %q, want one that says %q", left, c.left)
			}
		})
	}
	if _, _, err := engine.Knobs(engine.ParseHelp(string(read(t, "help", "ik_llama.cpp-2026.txt"))), engine.Limits{Allow: []string{"smart-expert-reduction"}}); err == nil {
		t.Error("an Allow that nobody heeds was accepted")
	}
}
