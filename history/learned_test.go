package history

import (
	"encoding/json"
	"errors"
	"testing"
)

// Knobs are pinned and given back one by one; a change that fails changes nothing, and the last one takes the pin with it.
func TestChangePin(t *testing.T) {
	s, ctx := openTest(t, t.TempDir()), t.Context()
	pins := func() []Pin {
		snap, err := ReadSnapshot(s.dir)
		must(t, err)
		return snap.Pins
	}
	must(t, s.SetPin(ctx, Pin{Model: modelA, Config: json.RawMessage(`{"layout":"x"}`)}))
	add := func(name string) error {
		return s.ChangePin(ctx, modelA, func(p *Pin) error {
			p.Knobs = append(p.Knobs, PinnedKnob{Target: "cpu", Knob: name, Value: "3"})
			return nil
		})
	}
	must(t, add("decode.threads"))
	must(t, add("prefill.batch"))
	if got := pins(); len(got) != 1 || len(got[0].Knobs) != 2 || string(got[0].Config) != "null" {
		t.Fatalf("%+v, want two knobs and no config", got)
	}
	no := errors.New("no")
	if err := s.ChangePin(ctx, modelA, func(p *Pin) error { p.Knobs = nil; return no }); !errors.Is(err, no) || len(pins()) != 1 {
		t.Errorf("%v, %+v: want the error, and the pin as it was", err, pins())
	}
	must(t, s.ChangePin(ctx, modelA, func(p *Pin) error { p.Knobs = nil; return nil }))
	if got := pins(); len(got) > 0 {
		t.Errorf("%+v is left", got)
	}
	if s.ChangePin(ctx, "", func(*Pin) error { return nil }) == nil {
		t.Error("a pin of no model")
	}
}
