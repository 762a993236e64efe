package enginetest

import (
	"context"
	"strconv"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// Virtual is an engine in virtual time over a surface.
type Virtual struct {
	Surface          Surface
	Prompt, Generate int
	Repetitions      int
	Loading          time.Duration
	Noise            Noise
	Allow            []string
	// Fails says what becomes of a setting instead of a figure; nil = nothing fails.
	Fails func(engine.Setting) engine.Status
	// Alter changes what a process says; nil = nothing is changed.
	Alter func(engine.Setting, *engine.Outcome)

	clock  time.Time
	starts int
}

var _ engine.Engine = (*Virtual)(nil)

// Now is the virtual clock.
func (v *Virtual) Now() time.Time { return v.clock }

// Starts is how many processes were started.
func (v *Virtual) Starts() int { return v.starts }

// Describe implements engine.Engine.
func (v *Virtual) Describe(context.Context) (engine.Description, error) {
	knobs, left, err := engine.Knobs(engine.ParseHelp(Help(v.Surface)), engine.Limits{Cores: v.Surface.Threads(), Prompt: v.Prompt, Allow: v.Allow})
	return engine.Description{
		Regimes: []engine.Regime{{Name: engine.Decode, Units: float64(v.Generate), Unit: "token"}, {Name: engine.Prefill, Units: float64(v.Prompt), Unit: "token"}},
		Knobs:   knobs, Left: left, Note: "invented",
	}, err
}

// Run implements engine.Engine.
func (v *Virtual) Run(_ context.Context, s engine.Setting, regimes []string, limit time.Duration) engine.Outcome {
	v.starts++
	o := engine.Outcome{Status: engine.OK, Samples: map[string][]float64{}, Facts: v.Surface.facts(s), Elapsed: v.Loading}
	if v.Fails != nil {
		if status := v.Fails(s); status != engine.OK {
			if status == engine.Hang {
				o.Elapsed = limit
			}
			v.clock = v.clock.Add(o.Elapsed)
			return engine.Outcome{Status: status, Note: "as planned", Elapsed: o.Elapsed}
		}
	}
	process := v.Noise.Process()
	for _, r := range regimes {
		tokens := v.Generate
		if r == engine.Prefill {
			tokens = v.Prompt
		}
		for range v.Repetitions {
			ns := v.Surface.Cost(s, r) * process * v.Noise.Repetition()
			o.Samples[r] = append(o.Samples[r], ns)
			o.Elapsed += time.Duration(ns * float64(tokens))
		}
	}
	if limit > 0 && o.Elapsed > limit {
		o = engine.Outcome{Status: engine.Hang, Note: "too slow", Elapsed: limit}
	}
	if v.Alter != nil {
		v.Alter(s, &o)
	}
	v.clock = v.clock.Add(o.Elapsed)
	return o
}

// facts are what the stand-in prints of its settings.
func (s Surface) facts(set engine.Setting) map[string]string {
	value := func(knob string) string {
		if v, ok := set[knob]; ok {
			return v
		}
		return s.own()[knob]
	}
	facts := map[string]string{
		"build_commit": "57a4d1", "build_number": "9999", "cpu_info": "Stand-in", "gpu_info": "", "backends": "CPU",
		"model_filename": "model.gguf", "model_type": "stand-in 2B I2_S - 2 bpw ternary", "model_size": "1187801280", "model_n_params": "2412820480",
	}
	for fact, knob := range map[string]string{"n_threads": "threads", "n_ubatch": "ubatch-size", "n_batch": "batch-size", "poll": "poll"} {
		facts[fact] = value(knob)
	}
	for fact, knob := range map[string]string{"flash_attn": "flash-attn", "use_mmap": "mmap", "cpu_strict": "cpu-strict"} {
		facts[fact] = strconv.FormatBool(value(knob) == "1")
	}
	return facts
}
