package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine/enginetest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

func check(v *enginetest.Virtual, decode, prefill engine.Setting) (*engine.Certificate, error) {
	return engine.Check(context.Background(), v, engine.Plan{engine.Decode: decode, engine.Prefill: prefill}, engine.Options{Budget: time.Hour, Now: v.Now})
}

// What a search found on one machine is proven by a check of a few processes on one of the same kind.
func TestACheckConfirmsWhatASearchFound(t *testing.T) {
	seed, found := uint64(0), engine.Plan(nil)
	for gain := 0.0; gain < 1.2; seed++ {
		v := virtual(seed)
		found = search(t, v, engine.Options{}).Closest
		gain = v.Surface.Request(nil, prompt, generate) / v.Surface.Request(found, prompt, generate)
	}
	v := virtual(seed - 1)
	v.Noise = enginetest.NewNoise(99)
	c, err := check(v, found[engine.Decode], found[engine.Prefill])
	if err != nil {
		t.Fatal(err)
	}
	if c.Verdict != measure.Adopt || c.Ratio.Low < 1 || c.Searches > 2 || c.Starts > 2+4*c.Pairs {
		t.Errorf("%s, %+v after %d processes, %d of them before the duel: want it adopted after the cold and the warm default and the pairs", c.Verdict, c.Ratio, c.Starts, c.Searches)
	}
}

func TestACheckSaysWhatIsSlowerOrFails(t *testing.T) {
	v := virtual(3)
	c, err := check(v, engine.Setting{"threads": "1"}, engine.Setting{"threads": "1"})
	if err != nil || c.Ratio.High >= 1 {
		t.Errorf("one thread: %+v, %v: want it proven slower", c.Ratio, err)
	}
	v = virtual(3)
	v.Fails = func(s engine.Setting) engine.Status {
		if s["flash-attn"] == "1" {
			return engine.Crash
		}
		return engine.OK
	}
	c, err = check(v, engine.Setting{"flash-attn": "1"}, engine.Setting{"flash-attn": "1"})
	if last := c.Runs[len(c.Runs)-1]; err != nil || c.Pairs != 0 || last.Status != engine.Crash {
		t.Errorf("a crash: %d pairs, %s, %v", c.Pairs, last.Status, err)
	}
}

// Nothing is started for a plan with what a search would not try.
func TestACheckRefusesWhatDoesNotFit(t *testing.T) {
	for name, setting := range map[string]engine.Setting{
		"a flag that changes the answer": {"cache-type-k": "q8_0"},
		"a flag of no help":              {"model": "/etc/passwd"},
		"real time":                      {"prio": "3"},
		"threads that there are not":     {"threads": "100000"},
		"a word of a shell":              {"threads": "1; true"},
		"what no server can have":        {"flash-attn": "1"}, // and another value in the other regime
	} {
		v := virtual(3)
		if c, err := check(v, setting, nil); !errors.Is(err, engine.ErrUnfit) || v.Starts() > 0 {
			t.Errorf("%s: %+v, %v, %d processes: want %v and none", name, c, err, v.Starts(), engine.ErrUnfit)
		}
	}
	v := virtual(3)
	_, err := engine.Check(context.Background(), v, engine.Plan{engine.Decode: nil}, engine.Options{Budget: time.Hour, Now: v.Now})
	if !errors.Is(err, engine.ErrUnfit) {
		t.Errorf("a plan for one regime of two: %v, want %v", err, engine.ErrUnfit)
	}
}
