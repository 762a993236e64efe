package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// lookTime bounds the look at the GPUs: a driver that hangs does not hang the page.
const lookTime = 3 * time.Second

// runName is a run's id as certificates spell it.
func runName(id uint64) string { return fmt.Sprintf("%016x", id) }

// measures reports whether a step tunes a model now.
func measures(s daemon.State, model string) bool {
	return s.Phase == daemon.Measuring && strings.HasPrefix(s.Reason, model+":")
}

func (s *Server) state(context.Context, string) (any, error) { return s.opt.Daemon.State(), nil }

func (s *Server) machine(ctx context.Context, _ string) (any, error) {
	m, err := s.opt.Machine(ctx)
	if err != nil || m.Bandwidth != nil {
		return m, err
	}
	snapshot, err := s.published()
	if err != nil {
		return m, nil // the bandwidth is a bonus here
	}
	for _, l := range snapshot.Learned {
		var proof tuner.Certificate
		if l.Host != m.Fingerprint || l.Target != cpu || json.Unmarshal(l.Certificate, &proof) != nil {
			continue
		}
		if roof := proof.Roofline; roof.Residency == "memory" && roof.ReadBandwidth > m.Bandwidth[roof.ReadThreads] {
			if m.Bandwidth == nil {
				m.Bandwidth = map[int]float64{}
			}
			m.Bandwidth[roof.ReadThreads] = roof.ReadBandwidth
		}
	}
	return m, nil
}

// modelList are the models of the daemon.
type modelList struct {
	Models []modelEntry `json:"models"`
}

type modelEntry struct {
	Name        string       `json:"name"`
	Target      string       `json:"target"`
	Source      tuner.Source `json:"source"`
	Pinned      bool         `json:"pinned"`
	CanRollback bool         `json:"can_rollback"`
	Error       string       `json:"error,omitempty"`
}

func (s *Server) models(ctx context.Context, _ string) (any, error) {
	list := modelList{Models: []modelEntry{}}
	for _, m := range s.opt.Daemon.State().Models {
		e := modelEntry{Name: m.Name, Target: cpu}
		plan, err := s.opt.Tuner.Plan(ctx, m.Name)
		if err != nil {
			e.Error = err.Error()
		}
		if plan.Config.Strategy == tuner.GPUOnly {
			e.Target = "cuda"
		}
		e.Source, e.Pinned, e.CanRollback = plan.Source, plan.Source == tuner.Pinned, plan.Source == tuner.Measured
		list.Models = append(list.Models, e)
	}
	return list, nil
}

func (s *Server) plan(ctx context.Context, model string) (any, error) {
	return s.opt.Tuner.Plan(ctx, model)
}

func (s *Server) explain(ctx context.Context, model string) (any, error) {
	return s.opt.Tuner.Explain(ctx, model)
}

func (s *Server) certificate(ctx context.Context, model string) (any, error) {
	a, err := s.archive(ctx, model)
	if err != nil {
		return nil, err
	}
	for _, r := range a.runs {
		if r.proof.Verdict != "" {
			return r.proof, nil
		}
	}
	return nil, notFound("nothing measured yet: no tune of " + model + " has ended")
}

func (s *Server) advice(ctx context.Context, model string) (any, error) {
	if s.opt.Advise == nil {
		return nil, notFound("there is no advisor")
	}
	return s.opt.Advise(ctx, model)
}

// engineList are the learned settings of engines that are not ours.
type engineList struct {
	Configs []engineConfig `json:"configs"`
}

type engineConfig struct {
	Target      string             `json:"target"`
	Model       string             `json:"model"`
	Objective   string             `json:"objective"`
	Build       string             `json:"build"`
	Here        bool               `json:"here"` // it was measured on this host
	Verdict     measure.Verdict    `json:"verdict"`
	Ratio       engine.Ratio       `json:"ratio"`
	NoiseFloor  float64            `json:"noise_floor"`
	Evaluations int                `json:"evaluations"`
	MeasuredAt  time.Time          `json:"measured_at"`
	CommandLine string             `json:"command_line"`
	Default     map[string]float64 `json:"default_tokens_per_second"`
	Best        map[string]float64 `json:"best_tokens_per_second"`
	Curves      []engine.Curve     `json:"curves"`
	Warnings    []string           `json:"warnings"`
}

func (s *Server) engines(ctx context.Context, _ string) (any, error) {
	list := engineList{Configs: []engineConfig{}}
	snapshot, err := s.published()
	if err != nil {
		return nil, err
	}
	for _, l := range snapshot.Learned {
		var cert tuner.EngineCertificate
		if !strings.HasPrefix(l.Target, tuner.EngineTarget) || json.Unmarshal(l.Certificate, &cert) != nil {
			continue
		}
		e := engineConfig{
			Target: l.Target, Model: l.ModelName, Objective: l.Objective, Build: l.Signature, Verdict: cert.Verdict, Ratio: cert.Ratio, NoiseFloor: cert.NoiseFloor,
			Evaluations: cert.Evaluations, MeasuredAt: l.MeasuredAt, Default: rates(cert.Default), Best: rates(cert.Best), Curves: []engine.Curve{}, Warnings: cert.Warnings,
			CommandLine: strings.Join(append([]string{cert.Best.Config.Command}, cert.Best.Config.Server()...), " "),
		}
		if cert.Search != nil {
			e.Curves = cert.Search.Curves
		}
		list.Configs = append(list.Configs, e)
	}
	return list, nil
}

func rates(r tuner.EngineRated) map[string]float64 {
	return map[string]float64{engine.Decode: r.Decode, engine.Prefill: r.Prefill}
}

// fleetState is what the store knows of a fleet. Nobody is asked over the network.
type fleetState struct {
	Entries []fleetEntry `json:"entries"` // received from other hosts
	Runs    []fleetRun   `json:"runs"`    // what tunes took and gave
	Note    string       `json:"note"`
}

type fleetEntry struct {
	Model string `json:"model"`
	tuner.Received
}

type fleetRun struct {
	Model string    `json:"model"`
	Run   string    `json:"run"`
	At    time.Time `json:"at"`
	Text  string    `json:"text"`
}

const fleetNote = "as of the store; fleet status asks the fleet itself"

func (s *Server) fleet(context.Context, string) (any, error) {
	shown := fleetState{Entries: []fleetEntry{}, Runs: []fleetRun{}, Note: fleetNote}
	snapshot, err := s.published()
	if err != nil {
		return nil, err
	}
	for _, l := range snapshot.Learned {
		var proof tuner.Certificate
		if strings.HasPrefix(l.Target, tuner.EngineTarget) || json.Unmarshal(l.Certificate, &proof) != nil {
			continue
		}
		if proof.Received != nil {
			shown.Entries = append(shown.Entries, fleetEntry{l.ModelName, *proof.Received})
		}
		if proof.Fleet != "" {
			shown.Runs = append(shown.Runs, fleetRun{l.ModelName, runName(l.Run), l.MeasuredAt, proof.Fleet})
		}
	}
	return shown, nil
}
