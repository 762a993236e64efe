package daemon

import (
	"errors"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

func TestChecksOutliveTheDaemon(t *testing.T) {
	d, end := begin(t, func(o *Options) { o.Every = 50 * time.Millisecond })
	until(t, d, func(s State) bool { return s.Models[0].Checks >= 2 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	checks := d.Checks(anyModel)
	decode := 0
	for i, c := range checks {
		if c.At.IsZero() || i > 0 && c.At.Before(checks[i-1].At) || c.Verdict == "" || c.DriftLimit != driftLimit {
			t.Errorf("check %d is %+v", i, c)
		}
		if c.Regime == target.Decode && c.Ratio.Estimate > 1.01 {
			decode++
		}
	}
	if decode < 2 {
		t.Errorf("%d checks of decode that found it faster than the default, of %+v", decode, checks)
	}
	again, _ := begin(t, func(o *Options) {
		o.Store, o.Tuner, o.Mode = d.opt.Store, d.opt.Tuner, tuner.ModeUse
	})
	until(t, again, func(s State) bool { return s.Phase == Waiting })
	if kept := again.Checks(anyModel); len(kept) != len(checks) || !kept[0].At.Equal(checks[0].At) || len(again.Checks("other")) > 0 {
		t.Errorf("%d checks after a restart, want the same %d", len(kept), len(checks))
	}
}

func TestChecksAreBounded(t *testing.T) {
	d, m := &Daemon{opt: Options{Now: time.Now}}, &sentinel{}
	for i := range 3 * mostChecks {
		d.note(m, tuner.RegimeCheck{Regime: target.Decode, Ratio: tuner.Ratio{Estimate: float64(i + 1)}})
	}
	if n := len(m.saved.Past); n != mostChecks || m.saved.Past[n-1].Ratio.Estimate != 3*mostChecks {
		t.Errorf("%d checks, the last %+v", n, m.saved.Past[n-1])
	}
}

func TestReadyIsCalledByTheOneDaemonOfTheHost(t *testing.T) {
	first, called := make(chan struct{}), 0
	d, end := begin(t, func(o *Options) { o.Mode, o.Ready = tuner.ModeUse, func() error { close(first); return nil } })
	<-first
	opt := quick(t.TempDir())
	opt.Tuner, opt.Lock, opt.Ready = opened(t, opt.Store), d.opt.Lock, func() error { called++; return nil }
	second, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); !errors.Is(err, idle.ErrHeld) || called > 0 {
		t.Errorf("a second daemon: %v, ready %d times", err, called)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no port")
	opt.Ready = func() error { return broken }
	if second, err = New(opt); err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); !errors.Is(err, broken) || second.State().Steps > 0 {
		t.Errorf("%v after %d steps, want the error of Ready", err, second.State().Steps)
	}
}
