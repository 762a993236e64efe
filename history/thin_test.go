package history

import (
	"context"
	"encoding/json"
	"github.com/google/go-cmp/cmp"
	"testing"
	"time"
)

func TestThin(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := Record{Run: NewRunID(time.Now()), Seq: 1, Time: time.Now(), Host: "00112233445566778899aabbccddeeff", Model: "00112233445566778899aabbccddee00", Target: "cpu", Regime: "decode", Config: json.RawMessage(`{"threads":2}`), Kernel: "mul/x", KernelRev: 1, Status: "ok", Costs: []float64{0.5}, Samples: []float64{1, 2}}
	if err := s.Append(context.Background(), r, r); err != nil {
		t.Fatal(err)
	}
	if err := s.Records(context.Background(), Filter{Host: r.Host}, func(g Record) error {
		if d := cmp.Diff(r, g); d != "" {
			t.Error(d)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(context.Background(), Learned{Host: r.Host, Model: r.Model, Target: "cpu", Objective: "decode", Config: r.Config}); err != nil {
		t.Fatal(err)
	}
	c, err := s.Check(context.Background())
	t.Log(c, err)
	sn, err := NewReader(dir).Load()
	t.Log(sn, err)
}
