package device

import (
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// loaded is an idle host made busy.
func loaded(h probe.Host, utilization float64) probe.Host {
	h.Load.CPUUtilization = utilization
	return h
}

// drawing is a model of which one thread draws that many bytes per second.
func drawing(perSecond uint64) Requirements {
	r := of(2*gib, gib, 2000)
	r.Bandwidth = Figure{Value: perSecond, Basis: Estimate}
	return r
}

func TestThreads(t *testing.T) {
	idle, calm := of(2*gib, gib, 2000), Options{}
	as := func(s Strategy) Options { return Options{Overrides: Overrides{Strategy: s}} }
	for name, c := range map[string]struct {
		host  probe.Host
		needs Requirements
		opt   Options
		want  int
		limit Limit
	}{
		"R0.20 GPU only":                        {plain(16, 64*gib), idle, as(GPUOnly), 2, LimitNone},
		"R0.20 GPU only on one core":            {plain(1, 64*gib), idle, as(GPUOnly), 1, LimitCores},
		"R0.21 idle":                            {plain(16, 64*gib), idle, calm, 16, LimitCores},
		"R0.21 half busy":                       {loaded(plain(16, 64*gib), 0.5), idle, calm, 8, LimitLoad},
		"R0.21 rounded down":                    {loaded(plain(16, 64*gib), 0.55), idle, calm, 7, LimitLoad},
		"R0.21 at the cap":                      {loaded(plain(20, 64*gib), 0.8), idle, calm, 4, LimitLoad},
		"R0.21 beyond the cap":                  {loaded(plain(20, 64*gib), 1), idle, calm, 4, LimitLoad},
		"R0.21 hybrid":                          {loaded(plain(16, 64*gib), 0.5), idle, as(Hybrid), 8, LimitLoad},
		"R0.21 less than a core of two":         {loaded(plain(2, 64*gib), 0.49), idle, calm, 2, LimitCores},
		"R0.21 one core of two":                 {loaded(plain(2, 64*gib), 0.5), idle, calm, 1, LimitLoad},
		"R0.21 less than a core of 64":          {loaded(plain(64, 64*gib), 0.015), idle, calm, 64, LimitCores},
		"R0.21 a core and a bit of 64":          {loaded(plain(64, 64*gib), 0.02), idle, calm, 62, LimitLoad},
		"R0.9 quota":                            {quota(64, 4), idle, calm, 4, LimitCores},
		"R0.22 need unknown":                    {plain(16, 64*gib), drawing(0), calm, 16, LimitCores},
		"R0.22 bandwidth for five and a bit":    {plain(16, 64*gib), drawing(10e9), calm, 5, LimitBandwidth}, // 51.2 GB/s estimated
		"R0.22 more bandwidth than cores":       {plain(4, 64*gib), drawing(10e9), calm, 4, LimitCores},
		"R0.22 measured bandwidth":              {plain(16, 64*gib), drawing(10e9), Options{Measured: Measurements{ReadBandwidth: 95e9}}, 9, LimitBandwidth},
		"R0.23 the lesser of load and need":     {loaded(plain(16, 64*gib), 0.75), drawing(10e9), calm, 4, LimitLoad},
		"R0.23 at least one, whatever the draw": {plain(16, 64*gib), drawing(100e9), calm, 1, LimitBandwidth},
		"R0.23 at least one, whatever the load": {loaded(plain(2, 64*gib), 1), idle, calm, 1, LimitLoad},
		"R0.24 auto":                            {plain(17, 64*gib), idle, as(Auto), 8, LimitCores},
		"R0.24 auto on one core":                {plain(1, 64*gib), idle, as(Auto), 1, LimitCores},
		"R0.32 another cap":                     {loaded(plain(20, 64*gib), 1), idle, Options{Constants: with(func(c *Constants) { c.MostLoad = 0.5 })}, 10, LimitLoad},
		"R0.35 a learned curve beats the rules": {loaded(plain(16, 64*gib), 0.5), drawing(50e9), Options{Measured: Measurements{Curve: map[int]float64{1: 9, 4: 3, 12: 2, 16: 2.5}}}, 12, LimitNone},
		"R0.35 a curve within what may be used": {quota(64, 4), idle, Options{Measured: Measurements{Curve: map[int]float64{1: 9, 3: 3.5, 4: 4, 12: 2}}}, 3, LimitNone},
		"R0.35 a curve of nothing usable":       {quota(64, 4), idle, Options{Measured: Measurements{Curve: map[int]float64{12: 2, 0: 1, 2: 0}}}, 4, LimitCores},
		"R0.35 equals: the fewest":              {plain(16, 64*gib), idle, Options{Measured: Measurements{Curve: map[int]float64{8: 2, 16: 2}}}, 8, LimitNone},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, c.host, noGPU, c.needs, c.opt)
			if d.Threads.Value != c.want || d.Threads.Limit != c.limit {
				t.Errorf("got %d, limited by %s (%s), want %d by %s", d.Threads.Value, d.Threads.Limit, d.Threads.Reason, c.want, c.limit)
			}
		})
	}
}

// with is the defaults with a change.
func with(change func(*Constants)) *Constants {
	c := Defaults
	change(&c)
	return &c
}

// R0.22: the system's bandwidth says whether it was measured; two NUMA nodes are taken for twice one.
func TestSystemBandwidth(t *testing.T) {
	h := plain(64, 64*gib)
	h.CPU.NUMANodes = 2
	guessed := decide(t, h, noGPU, drawing(10e9), Options{})
	timed := decide(t, h, noGPU, drawing(10e9), Options{Measured: Measurements{ReadBandwidth: 200e9}})
	if guessed.Facts.SystemBandwidth.Value != 102_400_000_000 || guessed.Facts.SystemBandwidth.Basis != Estimate || guessed.Threads.Basis != Estimate {
		t.Errorf("got %+v, threads by %s", guessed.Facts.SystemBandwidth, guessed.Threads.Basis)
	}
	if timed.Facts.SystemBandwidth.Value != 200e9 || timed.Facts.SystemBandwidth.Basis != Measured {
		t.Errorf("got %+v", timed.Facts.SystemBandwidth)
	}
}

// Each number says how it is known: cores are probed, a curve is measured.
func TestThreadsSayHowTheyAreKnown(t *testing.T) {
	probed := decide(t, plain(4, gib), noGPU, of(gib, mib, 2000), Options{})
	timed := decide(t, plain(4, gib), noGPU, of(gib, mib, 2000), Options{Measured: Measurements{Curve: map[int]float64{3: 1}, CurveOf: "falcon-e-1b"}})
	if probed.Threads.Basis != Probe || timed.Threads.Basis != Measured {
		t.Errorf("%s and %s, want probe and measured", probed.Threads.Basis, timed.Threads.Basis)
	}
}
