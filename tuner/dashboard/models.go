package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// lookTime bounds the look at the GPUs: a driver that hangs does not hang the page.
const lookTime = 3 * time.Second

// runName is a run's id as certificates spell it.
func runName(id uint64) string { return fmt.Sprintf("%016x", id) }

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
	return nothing{None: "nothing measured yet: no tune of " + model + " has ended", Damage: a.damage}, nil
}

func (s *Server) advice(ctx context.Context, model string) (any, error) {
	if s.opt.Advise == nil {
		return nothing{None: "there is no advisor"}, nil
	}
	return s.opt.Advise(ctx, model)
}

// learnedList is a part of what the store has learned.
type learnedList struct {
	Configs []tuner.LearnedConfig `json:"configs"` // the newest first
	Note    string                `json:"note,omitempty"`
}

// learned are the learned configs that are wanted.
func (s *Server) learned(ctx context.Context, wanted func(tuner.LearnedConfig) bool) (learnedList, error) {
	all, err := s.opt.Tuner.LearnedConfigs(ctx)
	list := learnedList{Configs: []tuner.LearnedConfig{}}
	for _, c := range all {
		if wanted(c) {
			list.Configs = append(list.Configs, c)
		}
	}
	return list, err
}

// engines are the settings of programs that are not ours.
func (s *Server) engines(ctx context.Context, _ string) (any, error) {
	return s.learned(ctx, func(c tuner.LearnedConfig) bool { return strings.HasPrefix(c.Target, tuner.EngineTarget) })
}

// fleetNote says what the fleet view is not.
const fleetNote = "what the store has received from other hosts; fleet status asks the fleet itself"

// fleet is what the store knows of a fleet. Nobody is asked over the network.
func (s *Server) fleet(ctx context.Context, _ string) (any, error) {
	list, err := s.learned(ctx, func(c tuner.LearnedConfig) bool { return c.Received != nil })
	list.Note = fleetNote
	return list, err
}
