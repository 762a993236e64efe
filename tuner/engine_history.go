package tuner

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// engineSetting is the config of a record.
type engineSetting struct {
	Engine  string         `json:"engine"`
	Setting engine.Setting `json:"setting"`
}

// took keeps a process as soon as it has ended, and shows it: whatever ends this program, nothing measured is lost.
func (r *engineRun) took(m engine.Measured) {
	r.pending = append(r.pending, r.records(m)...)
	if !r.now().Before(r.retry) {
		r.flush()
	}
	r.told(m)
}

// records are a process as the history keeps it: one for each regime, all with the same time.
func (r *engineRun) records(m engine.Measured) (list []history.Record) {
	if m.Status == engine.Stopped {
		return nil // that says nothing of the setting
	}
	config, err := json.Marshal(engineSetting{r.asked.Engine, m.Setting})
	if err != nil {
		panic("tuner: a setting always marshals")
	}
	at := time.Now().UTC()
	for _, regime := range m.Regimes {
		r.seq++
		rec := history.Record{
			Run: r.run, Seq: r.seq, Time: at, Host: r.host.Fingerprint(), Model: r.model.fingerprint, Target: r.target(), Regime: regime,
			Config: config, Kernel: r.asked.Engine, Signature: m.Build, Status: m.Status.History(), Samples: m.Samples[regime], Elapsed: m.Elapsed, Note: processNote(m),
		}
		if ratio, ok := m.Relative[regime]; ok {
			rec.Costs = []float64{ratio}
		}
		list = append(list, rec)
	}
	return list
}

// The words with which a note begins.
const coldWord = "cold"

// processNote is what a record says besides its figures.
func processNote(m engine.Measured) string {
	words := []string{m.Phase}
	if m.Cold {
		words = append(words, coldWord)
	}
	if m.Celsius > 0 {
		words = append(words, strconv.FormatFloat(m.Celsius, 'f', 1, 64)+" degrees Celsius")
	}
	if m.Status != engine.OK {
		words = append(words, string(m.Status)+": "+m.Note)
	}
	return strings.Join(words, ", ")
}

// recall is what earlier runs measured of the engine that says these facts, with the same model and request, under the same
// limits and conditions: restarting is telling the log. Runs on a busy host say more of it than of the settings.
func (r *engineRun) recall(facts map[string]string) []engine.Measured {
	if r.store == nil || r.asked.Fresh {
		return nil
	}
	list, err := r.earlierProcesses(engine.Build(facts))
	if err != nil {
		r.warn("what earlier runs measured could not be read: " + err.Error())
		return nil
	}
	return list
}

func (r *engineRun) earlierProcesses(build string) (list []engine.Measured, err error) {
	alike, err := r.runsAlike()
	if err != nil {
		return nil, err
	}
	var records []history.Record
	filter := history.Filter{Host: r.host.Fingerprint(), Model: r.model.fingerprint, Target: r.target()}
	err = r.store.Records(context.Background(), filter, func(rec history.Record) error {
		if alike[rec.Run] && rec.Signature == build {
			records = append(records, rec)
		}
		return nil
	})
	slices.SortFunc(records, func(a, b history.Record) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Seq, b.Seq)) })
	for i, rec := range records {
		var config engineSetting
		if json.Unmarshal(rec.Config, &config) != nil {
			continue
		}
		if i == 0 || rec.Run != records[i-1].Run || !rec.Time.Equal(records[i-1].Time) {
			words := strings.Split(rec.Note, ", ")
			list = append(list, engine.Measured{
				Session: rec.Run, Phase: words[0], Cold: slices.Contains(words, coldWord), Setting: config.Setting, Status: engine.Status(rec.Status),
				Note: rec.Note, Elapsed: rec.Elapsed, Samples: map[string][]float64{},
			})
		}
		last := &list[len(list)-1]
		last.Regimes = append(last.Regimes, rec.Regime)
		if len(rec.Samples) > 0 {
			last.Samples[rec.Regime] = rec.Samples
		}
	}
	return list, err
}

// runsAlike are the earlier runs with this run's request, under its limits and conditions.
func (r *engineRun) runsAlike() (map[uint64]bool, error) {
	busy, err := r.busyRuns()
	if err != nil {
		return nil, err
	}
	runs, err := r.store.Runs(context.Background())
	alike := map[uint64]bool{}
	here := r.facts()
	for _, run := range runs {
		alike[run.ID] = run.ID != r.run && run.Objective == r.asked.request() && !busy[run.ID] && len(differing(here, run.Facts)) == 0
	}
	return alike, err
}

// programFact is the program that a run measured: an engine that was compiled anew may call itself what it did before.
const programFact = "program"

// facts are what a run depends on besides its request.
func (r *engineRun) facts() map[string]string {
	facts := fields(slices.Concat(r.host.Envelope(), r.host.Condition()))
	maps.Copy(facts, r.identity)
	facts[programFact] = r.program
	return facts
}

// entry is the run as the history keeps it.
func (r *engineRun) entry(cert *EngineCertificate, proof json.RawMessage) history.Run {
	run := history.Run{
		ID: r.run, Started: r.started.UTC(), Host: r.host.Fingerprint(), Model: r.model.fingerprint, Target: r.target(), Objective: r.asked.request(),
		Strategy: "staged", Seed: r.asked.Seed, Budget: r.asked.Time, Facts: r.facts(),
	}
	if cert != nil {
		run.Facts[noiseFact] = strconv.FormatFloat(cert.NoiseFloor, 'g', 4, 64)
		run.Finished, run.Verdict, run.Certificate = r.now().UTC(), string(cert.Verdict), proof
	}
	return run
}
