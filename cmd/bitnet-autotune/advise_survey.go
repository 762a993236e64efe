package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// survey gathers the context of an advice.
type survey struct {
	context  advisor.Context
	model    string
	tuner    *tuner.Tuner // nil without a ternary model
	progress *progress
	notes    []string // what could not be found out
}

func (s *survey) close() {
	if s.tuner != nil {
		s.tuner.Close()
	}
}

func (s *survey) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// survey finds out what the rules judge. What it cannot find out is missing from the context.
func (a *app) survey(ctx context.Context, fsys fs.FS, q adviceRequest) (*survey, error) {
	s := &survey{context: advisor.Context{Current: advisor.Settings{}}, model: q.model, progress: newProgress(a)}
	c := &s.context
	var err error
	switch {
	case q.host != "":
		err = s.readHost(q.host)
	case q.pid > 0:
		err = s.readProcess(ctx, fsys, q)
	default:
		c.Host, err = probe.Local(ctx)
	}
	if err != nil {
		return nil, err
	}
	for key, value := range q.current {
		c.Current[key] = value
	}
	if q.host == "" {
		if err := s.watch(ctx, fsys, q); err != nil {
			return nil, err
		}
		found := surveyGPUs(ctx, 0)
		c.GPUs = &found
	}
	if err := s.readMetrics(q.metrics); err != nil {
		return nil, usage(err)
	}
	if s.model != "" {
		err = s.readModel(ctx, a, &q.constants)
	}
	return s, err
}

// readHost takes the facts of another machine from a file of the probe verb.
func (s *survey) readHost(path string) error {
	var doc struct {
		described
		GPUs json.RawMessage `json:"gpus"` // whether they were looked for
	}
	if err := readJSON("--host", path, &doc); err != nil {
		return err
	}
	if doc.CPU.UsableCores < 1 || doc.Arch == "" {
		return usage(fmt.Errorf("--host %s: arch and cpu.usable_cores are missing: want a document of bitnet-autotune probe --format json", path))
	}
	s.context.Host = doc.Host
	if doc.GPUs != nil && string(doc.GPUs) != "null" {
		s.context.GPUs = &doc.Survey
		if err := json.Unmarshal(doc.GPUs, &doc.Survey.GPUs); err != nil {
			return usage(fmt.Errorf("--host %s: gpus: %w", path, err))
		}
	}
	if err := doc.check(); err != nil {
		return usage(fmt.Errorf("--host %s: %w", path, err))
	}
	return nil
}

// readProcess describes the host as a running engine finds it, and takes its settings from its command line.
func (s *survey) readProcess(ctx context.Context, fsys fs.FS, q adviceRequest) error {
	process, err := probe.ReadProcess(fsys, q.pid)
	if err != nil {
		return err
	}
	own, err := probe.Local(ctx)
	if err != nil {
		return err
	}
	c := &s.context
	c.Host, err = probe.Read(probe.OfProcess(fsys, q.pid), probe.Inputs{OS: runtime.GOOS, Arch: runtime.GOARCH, Features: own.CPU.Features, Hypervisor: own.Virtualization})
	if err != nil {
		return err
	}
	found, path := settingsOf(process.Args)
	if s.model == "" && path != "" {
		s.model = s.openable(q.pid, path)
	}
	for key, value := range found {
		c.Current[key] = value
	}
	c.Signals = &advisor.Signals{NodeBytes: process.NodeBytes, Nodes: process.Nodes}
	return nil
}

// openable is the path under which a process's model can be opened here: the process may have another directory, or another
// root. "" and a note where it cannot.
func (s *survey) openable(pid int, path string) string {
	if !filepath.IsAbs(path) {
		directory, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil {
			s.note("the directory of process %d, in which its model %s is, cannot be read: name it with --model", pid, path)
			return ""
		}
		path = filepath.Join(directory, path)
	}
	for _, at := range []string{path, fmt.Sprintf("/proc/%d/root%s", pid, path)} {
		if _, err := model.Load(at); err == nil {
			return at
		}
	}
	s.note("the model of process %d, %s, cannot be read: name it with --model", pid, path)
	return ""
}

// watch counts throttling, over the time that was asked for or since the control group began.
func (s *survey) watch(ctx context.Context, fsys fs.FS, q adviceRequest) error {
	if q.pid > 0 {
		fsys = probe.OfProcess(fsys, q.pid)
	}
	var before map[string]probe.Throttling
	var hotBefore uint64
	if q.observe > 0 {
		before = probe.ReadThrottling(fsys)
		hotBefore, _ = probe.ReadOverheating(fsys)
		select {
		case <-ctx.Done():
			return fmt.Errorf("--observe: %w", ctx.Err())
		case <-time.After(q.observe):
		}
	}
	if s.context.Signals == nil {
		s.context.Signals = &advisor.Signals{}
	}
	out := s.context.Signals
	out.Window = q.observe
	most := probe.MostThrottled(before, probe.ReadThrottling(fsys))
	out.Periods, out.Throttled = most.Periods, most.Throttled
	if now, ok := probe.ReadOverheating(fsys); ok && q.observe > 0 {
		out.Hot = now > hotBefore
	}
	return nil
}

// readMetrics takes what the workload shows from a file.
func (s *survey) readMetrics(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	defer file.Close()
	var doc struct {
		Latency    *advisor.Latency    `json:"latency"`
		Memory     *advisor.Memory     `json:"memory"`
		Throughput *advisor.Throughput `json:"throughput"`
		Profile    *advisor.Profile    `json:"profile"`
	}
	dec := json.NewDecoder(file)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return fmt.Errorf("--metrics %s: %w; want an object with latency, memory, throughput, profile", path, err)
	}
	if dec.More() {
		return fmt.Errorf("--metrics %s: more follows the object: want one object with latency, memory, throughput, profile", path)
	}
	if doc.Profile != nil {
		for i, o := range doc.Profile.Operations {
			if o.Count < 1 || !(o.MeanMicroseconds >= 0) {
				return fmt.Errorf("--metrics %s: profile.operations[%d]: count %d and mean_us %g: want at least 1 and 0", path, i, o.Count, o.MeanMicroseconds)
			}
		}
	}
	c := &s.context
	c.Latency, c.Memory, c.Throughput, c.Profile = doc.Latency, doc.Memory, doc.Throughput, doc.Profile
	return nil
}

// readModel adds what is known of the model, and what was learned of it on this host.
func (s *survey) readModel(ctx context.Context, a *app, figures *constants) error {
	m, err := model.Load(s.model)
	if err != nil {
		return err
	}
	c := &s.context
	c.Model = &m
	if m.Source != "preset" {
		file, err := model.Open(s.model)
		if err != nil {
			return err
		}
		c.Graph = advisor.NewGraph(file.Tensors)
		file.Close()
	}
	if m.Tunable() != nil {
		return nil
	}
	need := figures.Device.Require(m, device.Use{Layout: c.Current["layout"]})
	c.Needs = &advisor.Needs{ModelBytes: need.ModelBytes.Value, WorkingBytes: need.Working.Value, Source: string(need.ModelBytes.Basis)}
	if s.tuner, err = a.open(tuner.Options{Host: &c.Host, Device: figures.options(false, nil), Progress: s.progress.show}); err != nil {
		return err
	}
	return s.readLearned(ctx, a.store)
}

// readLearned adds what a tune found, and the rates that it measured where no metrics were given.
func (s *survey) readLearned(ctx context.Context, store string) error {
	e, err := s.tuner.Explain(ctx, s.model)
	if err != nil {
		return err
	}
	setting := func(r target.Regime) advisor.Setting {
		arm := e.Plan.Config.Arm(r)
		return advisor.Setting{Kernel: arm.Kernel, Threads: arm.Threads, Batch: arm.Batch}
	}
	c := &s.context
	c.Learned = &advisor.Learned{Source: string(e.Plan.Source), Layout: string(e.Plan.Config.Layout), Decode: setting(target.Decode), Prefill: setting(target.Prefill)}
	c.Learned.Wrong = s.wrong(store)
	if c.Throughput != nil || c.Latency != nil || e.Plan.Source != tuner.Measured {
		return nil
	}
	for _, v := range e.Regimes {
		if v.Regime == target.Decode && v.BestNs > 0 {
			c.Latency, c.Throughput = &advisor.Latency{MeanMs: v.BestNs / 1e6}, &advisor.Throughput{Decode: 1e9 / v.BestNs}
		}
	}
	return nil
}

// wrong are the kernels that certificates of this host say gave wrong results.
func (s *survey) wrong(store string) []string {
	snapshot, err := history.ReadSnapshot(store)
	if err != nil {
		if !errors.Is(err, history.ErrNoSnapshot) {
			s.note("what was learned could not be read: %v", err)
		}
		return nil
	}
	var names []string
	for _, l := range snapshot.Learned {
		var cert tuner.Certificate
		if l.Host != s.context.Host.Fingerprint() || l.Signature != kernels.Signature() || json.Unmarshal(l.Certificate, &cert) != nil {
			continue
		}
		for _, arm := range cert.Wrong {
			if !slices.Contains(names, arm.Kernel) {
				names = append(names, arm.Kernel)
			}
		}
	}
	return names
}

// prove looks up what this host measured of the changes that a report suggests, and reports whether it found anything.
func (s *survey) prove(ctx context.Context, report advisor.Report) bool {
	s.context.Evidence = map[string]advisor.Evidence{}
	original, err := changeOf(s.context.Current)
	if s.tuner == nil || err != nil {
		return false
	}
	for _, suggestion := range report.Suggestions {
		change, err := changeOf(suggestion.Change)
		if err != nil || len(suggestion.Change) == 0 {
			continue
		}
		known, err := s.tuner.Known(ctx, s.model, original, change)
		if err != nil {
			s.note("what was measured of %s could not be read: %v", suggestion.ID, err)
			continue
		}
		if e, ok := evidenceOf(known, regimeOf(suggestion.Change)); ok {
			s.context.Evidence[suggestion.ID] = e
		}
	}
	return len(s.context.Evidence) > 0
}

// evidenceOf is what is known of a change in one regime, with what it costs in others.
func evidenceOf(known map[target.Regime]tuner.Known, regime target.Regime) (advisor.Evidence, bool) {
	k, ok := known[regime]
	e := advisor.Evidence{Ratio: k.Ratio.Estimate, Low: k.Ratio.Low, High: k.Ratio.High, Confidence: k.Ratio.Confidence, Regime: string(regime), Records: runNames(k.Runs)}
	for _, other := range sortedKeys(known) {
		if r := known[other].Ratio; other != regime && r.High < 1 {
			e.Warnings = append(e.Warnings, fmt.Sprintf("%s gets slower by it, measured here: %.3fx (%s)", regimeName(other), r.Estimate, interval(r)))
		}
	}
	return e, ok
}

// runNames are ids as the report shows them.
func runNames(ids []string) []string {
	var names []string
	for _, id := range ids {
		names = append(names, "run "+id)
	}
	return names
}
