package dashboard

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
)

// family is a metric with its series, in the text format of Prometheus, version 0.0.4.
type family struct {
	name, kind, help string
	series           []series
}

// series is a value with its labels, names and values in turn.
type series struct {
	value  float64
	labels []string
}

// metrics sends what the daemon counts. All of it lies in memory.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, f := range s.families() {
		f.write(w)
	}
}

// prefix begins the name of every metric.
const prefix = "bitnet_autotune_"

func gauge(name, help string, list ...series) family {
	return family{prefix + name, "gauge", help, list}
}
func counter(name, help string, list ...series) family {
	return family{prefix + name + "_total", "counter", help, list}
}
func one(value float64) series { return series{value: value} }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *Server) families() []family {
	state := s.opt.Daemon.State()
	list := []family{
		gauge("build_info", "The program, in the label version.", series{1, []string{"version", s.opt.Build}}),
		gauge("start_time_seconds", "When the daemon began, in seconds since 1970.", one(float64(state.Started.UnixNano())/1e9)),
		gauge("phase", "What the daemon does now: 1 for the phase that it is in.", phases(state.Phase)...),
		gauge("mode_info", "How much the daemon may do, in the label mode.", series{1, []string{"mode", string(state.Mode)}}),
		gauge("cpu_budget_seconds", "CPU time that steps may take in any 24 hours.", one(state.Budget.Limit)),
		gauge("cpu_budget_spent_seconds", "CPU time that steps took in the last 24 hours, what a running one has reserved included.", one(state.Budget.Spent)),
		counter("steps", "Steps that were started.", one(float64(state.Steps))),
		counter("steps_aborted", "Steps that gave way to load.", one(float64(state.Aborted))),
		counter("steps_failed", "Steps that crashed, hung, took too much or came to nothing.", one(float64(state.Failed))),
		gauge("event_streams", "Open streams of events.", one(float64(s.events.count()))),
	}
	if state.Host.Known {
		list = append(list,
			gauge("host_utilization_ratio", "Share of the CPUs that others keep busy.", one(state.Host.Utilization)),
			gauge("host_cpu_stall_ratio", "Share of the time in which some task waited for a CPU.", one(state.Host.CPUStall)),
			gauge("host_memory_stall_ratio", "Share of the time in which some task waited for memory.", one(state.Host.MemStall)),
			gauge("host_io_stall_ratio", "Share of the time in which some task waited for I/O.", one(state.Host.IOStall)))
	}
	return append(list, modelFamilies(state.Models)...)
}

func phases(now daemon.Phase) []series {
	var list []series
	for _, p := range daemon.Phases() {
		list = append(list, series{truth(p == now), []string{"phase", string(p)}})
	}
	return list
}

// modelFamilies are those with a label for the model.
func modelFamilies(models []daemon.ModelState) []family {
	info := gauge("plan_info", "What answers for a model: where the plan comes from, its layout and its hash.")
	age := gauge("plan_measured_timestamp_seconds", "When the config that answers was measured, in seconds since 1970.")
	gain := gauge("plan_speedup_ratio", "Certified speed of the config that answers, times the default's.")
	evaluations := gauge("plan_evaluations", "Arms known when the config that answers was certified.")
	threads := gauge("plan_threads", "Threads of the config that answers, by regime.")
	checks := gauge("checks", "Checks of the config that answers since it serves.")
	last := gauge("check_speedup_ratio", "Speed at the last check, times the default's.")
	drift := gauge("drift", "Drift statistic, the largest of the regimes.")
	limit := gauge("drift_limit", "Drift statistic above which a config is tuned anew or rolled back.")
	next := gauge("next_check_timestamp_seconds", "When the next check is due, in seconds since 1970.")
	told := map[string]bool{}
	for _, m := range models {
		name := strings.ToValidUTF8(m.Name, "�")
		if told[name] {
			continue // a series may be there once, and two names differ in bytes that are no text
		}
		told[name] = true
		label := []string{"model", name}
		add := func(f *family, value float64, more ...string) {
			f.series = append(f.series, series{value, append(slices.Clone(label), more...)})
		}
		add(&checks, float64(m.Checks))
		add(&drift, m.Drift)
		add(&limit, m.DriftLimit)
		if !m.NextCheck.IsZero() {
			add(&next, float64(m.NextCheck.Unix()))
		}
		if m.LastRatio.Estimate > 0 {
			add(&last, m.LastRatio.Estimate)
		}
		if m.Plan.Source == "" {
			continue
		}
		add(&info, 1, "source", string(m.Plan.Source), "layout", string(m.Plan.Config.Layout), "config", m.Plan.Config.Hash())
		addPlan(m.Plan, add, &age, &gain, &evaluations, &threads)
	}
	return []family{info, age, gain, evaluations, threads, checks, last, drift, limit, next}
}

func addPlan(p tuner.Plan, add func(*family, float64, ...string), age, gain, evaluations, threads *family) {
	if !p.MeasuredAt.IsZero() {
		add(age, float64(p.MeasuredAt.Unix()))
		add(evaluations, float64(p.Evaluations))
	}
	if p.Ratio.Estimate > 0 {
		add(gain, p.Ratio.Estimate)
	}
	for _, r := range tuner.Regimes {
		add(threads, float64(p.Config.Arm(r).Threads), "regime", string(r))
	}
}

// write writes a family that has series.
func (f family) write(w io.Writer) {
	if len(f.series) == 0 {
		return
	}
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", f.name, escapeHelp.Replace(f.help), f.name, f.kind)
	for _, s := range f.series {
		var labels []string
		for i := 0; i+1 < len(s.labels); i += 2 {
			labels = append(labels, s.labels[i]+`="`+escapeLabel.Replace(s.labels[i+1])+`"`)
		}
		text := strings.Join(labels, ",")
		if text != "" {
			text = "{" + text + "}"
		}
		fmt.Fprintf(w, "%s%s %s\n", f.name, text, number(s.value))
	}
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// number spells a value as the format does.
func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
