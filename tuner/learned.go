package tuner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// LearnedConfig is one of the configs that a store holds, of whatever target.
type LearnedConfig struct {
	Model            string `json:"model"` // its name, else what its fingerprint begins with
	ModelFingerprint string `json:"model_fingerprint"`
	Target           string `json:"target"` // cpu, cuda, engine:NAME
	Objective        string `json:"objective"`
	Build            string `json:"build"` // of the kernel table, or as the engine says it
	Here             bool   `json:"here"`  // for this very host
	// Source is what it may answer as: measured, derived under other limits, near_host; "" where it is no answer here, being
	// refused, a proposal, of an engine under other limits or of another kernel table.
	Source      Source             `json:"source"`
	Verdict     measure.Verdict    `json:"verdict"` // of the run that found it
	Ratio       Ratio              `json:"ratio"`
	MeasuredAt  time.Time          `json:"measured_at,omitzero"`
	Evaluations int                `json:"evaluations"`
	Run         string             `json:"run"`
	Default     map[string]float64 `json:"default_tokens_per_second"` // by regime, of those that were measured
	Best        map[string]float64 `json:"best_tokens_per_second"`
	Config      json.RawMessage    `json:"config"`
	CommandLine string             `json:"command_line,omitempty"` // of an engine, where it is an answer as it is
	Received    *Received          `json:"received,omitempty"`     // how it was checked here, where another host proved it

	entry history.Learned
}

// LearnedConfigs lists everything that the store has learned, for our own kernels and for engines, the newest first. Like Plan it
// reads what was published and never the database; what a site ships is not in it.
func (t *Tuner) LearnedConfigs(ctx context.Context) ([]LearnedConfig, error) {
	host, err := t.probe(ctx)
	if err != nil {
		return nil, err
	}
	snapshot, err := t.snapshot()
	if err != nil {
		return nil, err
	}
	list := []LearnedConfig{}
	if snapshot == nil {
		return list, nil
	}
	here, envelope := fields(host.Identity()), fields(host.Envelope())
	for _, l := range snapshot.Learned {
		c := newLearnedConfig(l)
		c.Here = len(differing(here, l.Identity)) == 0 && (l.Host == host.Fingerprint() || l.Target == targetCUDA) // whose fingerprint has the card in it
		c.Source = c.source(len(differing(envelope, l.Envelope)) == 0)
		list = append(list, c)
	}
	for i := range list {
		c := &list[i]
		if c.Received != nil && slices.ContainsFunc(list, c.refusedBy) {
			c.Source = ""
		}
		if c.ofEngine() {
			c.complete()
		}
	}
	slices.SortStableFunc(list, func(a, b LearnedConfig) int { return b.MeasuredAt.Compare(a.MeasuredAt) })
	return list, nil
}

// newLearnedConfig reads an entry. What the certificates of all targets have in common is said with the same names.
func newLearnedConfig(l history.Learned) LearnedConfig {
	c := LearnedConfig{
		Model: l.ModelName, ModelFingerprint: l.Model, Target: l.Target, Objective: l.Objective, Build: l.Signature,
		MeasuredAt: l.MeasuredAt, Evaluations: l.Evaluations, Run: fmt.Sprintf("%016x", l.Run), Config: l.Config, entry: l,
	}
	if c.Model == "" {
		c.Model = fmt.Sprintf("%.12s", l.Model)
	}
	var proof struct {
		Verdict       measure.Verdict
		Ratio         Ratio
		Default, Best Rated
		Received      *Received
	}
	if err := json.Unmarshal(l.Certificate, &proof); err == nil {
		c.Verdict, c.Ratio, c.Received = proof.Verdict, proof.Ratio, proof.Received
	}
	c.Default, c.Best = proof.Default.rates(), proof.Best.rates()
	return c
}

// rates are those that were measured, by regime.
func (r Rated) rates() map[string]float64 {
	list := map[string]float64{}
	for _, regime := range Regimes {
		if rate := *r.of(regime); rate > 0 {
			list[string(regime)] = rate
		}
	}
	return list
}

func (c LearnedConfig) ofEngine() bool { return strings.HasPrefix(c.Target, EngineTarget) }

// source is what a config may answer as.
func (c LearnedConfig) source(sameLimits bool) Source {
	if !c.ofEngine() && c.Build != (Problem{Target: c.Target}).domain().signature() || c.ofEngine() && (!c.Here || !sameLimits && c.Received != nil) {
		return ""
	}
	switch r := c.Received; {
	case r != nil && !r.accepted():
		return ""
	case r != nil, !c.Here:
		return NearHost
	case !sameLimits:
		return Derived
	}
	return Measured
}

// refusedBy reports whether other is a later check of the same config, a received one, which refused it.
func (c *LearnedConfig) refusedBy(other LearnedConfig) bool {
	was, r := c.Received, other.Received
	return r != nil && r.Verdict == Failed && r.Config == was.Config && r.CheckedAt.After(was.CheckedAt) &&
		other.ModelFingerprint == c.ModelFingerprint && other.Target == c.Target && other.entry.Signature == c.entry.Signature && other.Here == c.Here
}

// complete fills in what only an engine's config has.
func (c *LearnedConfig) complete() {
	var config engine.Learned
	if err := json.Unmarshal(c.Config, &config); err != nil {
		c.Source = ""
		return
	}
	if c.Build = config.Build; c.Source != "" && c.Source != Derived {
		c.CommandLine = config.ServerCommand().String()
	}
}

// ours reports whether runs on this host proved a config with what is in this build.
func (c LearnedConfig) ours() bool {
	return c.Here && c.Received == nil && (c.ofEngine() || c.Target == targetCPU && c.Source != "")
}
