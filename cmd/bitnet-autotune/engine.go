package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// engineTargets are the targets that are engines.
func engineTargets() (names []string) {
	for _, name := range tuner.Engines() {
		names = append(names, tuner.EngineTarget+name)
	}
	return names
}

// engineBudgetFlags adds the flags of tune that only an engine heeds.
func engineBudgetFlags(cmd *cobra.Command, b *tuner.EngineBudget) {
	engineProgramFlags(cmd, b)
	f := cmd.Flags()
	f.IntVar(&b.Prompt, "prompt", 512, "with --target engine:…: tokens of a request's prompt")
	f.IntVar(&b.Generate, "generate", 128, "with --target engine:…: tokens of its answer")
	f.IntVar(&b.Runs, "max-runs", 25, "with --target engine:…: most processes before the duel, those of earlier runs included")
	f.BoolVar(&b.Fresh, "fresh", false, "with --target engine:…: take nothing over from earlier runs; without it a run goes on from what they measured of this build, model and request under these limits")
	f.StringSliceVar(&b.Allow, "allow", nil, "with --target engine:…: flags to try that are not tried unasked: cache-type-k and cache-type-v change what the model answers, prio takes the CPU from all others")
}

// engineProgramFlags adds what says how an engine is run.
func engineProgramFlags(cmd *cobra.Command, b *tuner.EngineBudget) {
	f := cmd.Flags()
	f.StringVar(&b.Command, "engine-command", "llama-bench", "with --target engine:…: the program, by its path or its name on the PATH")
	f.IntVar(&b.Repeat, "repetitions", 5, "with --target engine:…: how often one process measures each")
	f.StringVar(&b.GEMMConfig, "gemm-config", "", "with --target engine:bitnet.cpp: path of gemm-config.h, to tune what is compiled in as well")
	f.StringVar(&b.Build, "build-command", "", "with --gemm-config: builds {out}/bin/llama-bench, such as 'cmake -S . -B {out} && cmake --build {out} -t llama-bench'")
}

// targetFlag adds --target to a verb that answers.
func targetFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "target", "", "the engine to answer for: "+strings.Join(engineTargets(), ", ")+" (default: our own kernels)")
	completeFlag(cmd, "target", words(engineTargets()...))
}

// lookUpEngine is the path of an engine's program.
func lookUpEngine(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err != nil {
		return "", usage(fmt.Errorf("--engine-command %q: %w: want the path of llama-bench", command, err))
	}
	return path, nil
}

// tuneEngine tunes a program that is not ours.
func (a *app) tuneEngine(ctx context.Context, model string, b tuner.EngineBudget) error {
	if err := a.needStore(); err != nil {
		return err
	}
	if b.Engine != tuner.Exec {
		var err error
		if b.Command, err = lookUpEngine(b.Command); err != nil {
			return err
		}
	}
	p := newProgress(a)
	return a.perhapsWithFleet(ctx, engineOptions(p), func(t *tuner.Tuner) error { return a.certifyEngine(ctx, t, p, model, b) })
}

// engineOptions look for GPUs until NVML has answered: an engine uses them of its own accord, so they are part of the host.
func engineOptions(p *progress) tuner.Options {
	return tuner.Options{Progress: p.show, GPUs: func(ctx context.Context) gpu.Survey { return surveyGPUs(ctx, 0) }}
}

// certifyEngine tunes and prints the certificate.
func (a *app) certifyEngine(ctx context.Context, t *tuner.Tuner, p *progress, model string, b tuner.EngineBudget) error {
	cert, err := t.TuneEngine(ctx, model, b)
	p.clear()
	if cert != nil {
		a.warn(cert.Warnings)
		if perr := a.print(cert, func(w io.Writer) { writeEngineCertificate(w, cert) }); perr != nil {
			return perr
		}
	}
	if err == nil && cert.Verdict == measure.Inconclusive {
		return silently(exitInconclusive)
	}
	return err
}

func writeEngineCertificate(w io.Writer, c *tuner.EngineCertificate) {
	fmt.Fprintf(w, "%s  %s  (%s, build %s, %s)\n", c.Verdict, c.Model, c.Target, c.Default.Config.Build, c.Objective)
	switch {
	case c.Verdict == measure.Adopt:
		fmt.Fprintf(w, "A request is served %.3f times as fast as with the engine's own settings (%.0f %% interval %s).\n", c.Ratio.Estimate, 100*c.Ratio.Confidence, engineInterval(c.Ratio))
	case c.Verdict == measure.Keep:
		fmt.Fprintln(w, "The engine's own settings are as good as anything found; they stay.")
	case c.Search.Stopped == engine.Interrupted:
		fmt.Fprintln(w, "Interrupted before anything could be proven; what was measured is kept, and the next run goes on from it.")
	default:
		fmt.Fprintln(w, "Nothing could be proven better or ruled out within the budget; the engine's own settings stay.")
	}
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "\tdefault\tbest\tfaster\tinterval")
	for _, regime := range slices.Sorted(maps.Keys(c.Search.Closest)) {
		before, now, ratio := "-", "-", c.Search.Regimes[regime]
		if rate := c.Search.Default[regime].Rate; rate > 0 && regime != engine.FigureRegime {
			before, now = fmt.Sprintf("%.1f tok/s", rate), fmt.Sprintf("%.1f tok/s", c.Search.Best[regime].Rate)
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", regime, before, now, engineTimes(ratio), engineInterval(ratio))
	}
	tab.Flush()
	fmt.Fprintln(w)
	for _, regime := range slices.Sorted(maps.Keys(c.Search.Closest)) {
		fmt.Fprintf(w, "%-13s tried    %s\n", regime, c.Search.Closest[regime])
	}
	if c.Verdict == measure.Adopt {
		fmt.Fprintf(w, "\n%s\n\n", strings.Join(append(slices.Clone(c.Best.Config.Variables), c.Best.Config.ServerCommand().String()), " "))
	}
	writeDefines(w, c.Best.Config)
	floor := "unknown"
	if c.NoiseFloor > 0 {
		floor = fmt.Sprintf("%.1f %%", 100*c.NoiseFloor)
	}
	fmt.Fprintf(w, "evidence      %d processes, %d of them before the duel of %d pairs, %d taken over from earlier runs; %d settings, %d failed, %d processes censored, noise floor %s\n",
		c.Search.Starts, c.Search.Searches, c.Search.Pairs, c.Search.Known, c.Evaluations, c.Failed, c.Censored, floor)
	writeEngineBounds(w, c)
	writeFailures(w, c.Search)
	for _, doubt := range c.Search.Doubts {
		fmt.Fprintf(w, "doubt         %s\n", doubt)
	}
	fmt.Fprintf(w, "search        %s\n", c.Search.Stopped)
	if c.Fleet != "" {
		fmt.Fprintf(w, "fleet         %s\n", c.Fleet)
	}
	fmt.Fprintf(w, "time          %.1f s of %.0f s\n", c.Elapsed, c.Budget)
	fmt.Fprintf(w, "note          %s\n", c.Search.Note)
}

// writeEngineBounds says what was known before the engine started.
func writeEngineBounds(w io.Writer, c *tuner.EngineCertificate) {
	b := c.Bounds
	fmt.Fprintf(w, "bounds        %s", threads(b.Cores))
	if rate := b.ReadBandwidth[b.Cores]; rate > 0 {
		fmt.Fprintf(w, " read %.1f GB/s: at the most %.1f tok/s are decoded with at least %s of weights to a token", rate/1e9, b.Decode(b.Cores), size(b.WeightBytes))
	}
	if b.Note != "" {
		fmt.Fprintf(w, "; %s", b.Note)
	}
	fmt.Fprintln(w)
}

// writeDefines says what a plan has compiled in.
func writeDefines(w io.Writer, l engine.Learned) {
	for _, d := range l.Plan.Defines() {
		fmt.Fprintf(w, "to build with gemm-config.h: #define %s\n", d)
	}
}

// writeFailures names what failed.
func writeFailures(w io.Writer, c *engine.Certificate) {
	for _, m := range c.Runs {
		if m.Status != engine.OK && m.Status != engine.Censored && m.Status != engine.Stopped {
			note, _, _ := strings.Cut(m.Note, "\n")
			fmt.Fprintf(w, "failed        %s: %s: %s\n", m.Setting, m.Status, note)
		}
	}
}

func engineTimes(r engine.Ratio) string { return times(tuner.Ratio(r)) }

func engineInterval(r engine.Ratio) string { return interval(tuner.Ratio(r)) }

// engineForms are the shapes in which config prints a plan of an engine.
var engineForms = map[string]func(tuner.EnginePlan) string{
	"json":         nil, // printed by the encoder
	"command":      func(p tuner.EnginePlan) string { return p.Config.ServerCommand().String() + "\n" },
	"env":          func(p tuner.EnginePlan) string { return p.Config.Env() },
	"llama.cpp":    serverFlags,
	"ik_llama.cpp": serverFlags,
	"bitnet.cpp":   serverFlags,
	"systemd":      func(p tuner.EnginePlan) string { return p.Config.Systemd() },
	"llama-server": func(p tuner.EnginePlan) string { return p.Config.Preset() },
}

func serverFlags(p tuner.EnginePlan) string {
	return engine.Command{Args: p.Flags}.Words() + "\n"
}

// engineOf is the name of the engine of a --target.
func engineOf(target string) (string, error) {
	name, ok := strings.CutPrefix(target, tuner.EngineTarget)
	if !ok {
		return "", usage(fmt.Errorf("--target %q: one of %s; without it, the answer for our own kernels", target, strings.Join(engineTargets(), ", ")))
	}
	return name, nil
}

// enginePlan answers for the target of config and explain.
func (a *app) enginePlan(ctx context.Context, model, target string) (tuner.EnginePlan, error) {
	name, err := engineOf(target)
	if err != nil {
		return tuner.EnginePlan{}, err
	}
	t, err := a.open(tuner.Options{})
	if err != nil {
		return tuner.EnginePlan{}, err
	}
	defer t.Close()
	return t.PlanEngine(ctx, model, name)
}

func (a *app) configEngine(ctx context.Context, model, target, form string, requireMeasured bool) error {
	write, known := engineForms[form]
	if form != "" && !known {
		return usage(fmt.Errorf("--for %q: of an engine one of %s", form, strings.Join(sortedKeys(engineForms), ", ")))
	}
	p, err := a.enginePlan(ctx, model, target)
	if err != nil {
		return err
	}
	p.Evidence = nil // explain tells
	switch {
	case form == "json":
		err = a.printJSON(p)
	case form != "" && a.format == "text":
		err = a.printText(func(w io.Writer) { fmt.Fprint(w, write(p)) })
	default:
		err = a.print(p, func(w io.Writer) { writeEnginePlan(w, p) })
	}
	if err == nil && requireMeasured && p.Source != tuner.Measured {
		return coded{exitInconclusive, fmt.Errorf("config: only %s is known for %s with %s on this host; run tune first", p.Source, p.Model, p.Target)}
	}
	return err
}

func writeEnginePlan(w io.Writer, p tuner.EnginePlan) {
	why := p.Reason
	if !strings.HasPrefix(why, string(p.Source)) {
		why = string(p.Source) + ": " + why
	}
	fmt.Fprintf(w, "%s  %s  (%s)\n", p.Model, p.Target, why)
	for _, regime := range slices.Sorted(maps.Keys(p.Config.Plan)) {
		fmt.Fprintf(w, "  %-12s %s\n", regime, p.Config.Plan[regime])
	}
	if len(p.Flags) > 0 {
		fmt.Fprintf(w, "  %-12s %s", "flags", serverFlags(p))
	}
	writeDefines(w, p.Config)
	if p.Ratio.Estimate > 0 {
		fmt.Fprintf(w, "  %-12s %.3fx the engine's own (%.0f %% interval %s)\n", "measured", p.Ratio.Estimate, 100*p.Ratio.Confidence, engineInterval(p.Ratio))
	}
}

// explainEngine shows the evidence behind a plan of an engine, the thread curves as pictures.
func (a *app) explainEngine(ctx context.Context, model, target, picture string) error {
	p, err := a.enginePlan(ctx, model, target)
	if err != nil {
		return err
	}
	if err := drawInto(picture, func(w io.Writer) error { return plotEngine(w, p) }); err != nil {
		return err
	}
	return a.print(p, func(w io.Writer) {
		writeEnginePlan(w, p)
		if p.Evidence == nil || p.Evidence.Search == nil {
			return
		}
		c := p.Evidence.Search
		for _, curve := range c.Curves {
			writeCurve(w, curve, c.Own[curve.Knob])
		}
		fmt.Fprintf(w, "\nevery setting, its cost over the engine's own around it\n")
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, m := range c.Runs {
			if m.Phase == "duel" || len(m.Setting) == 0 {
				continue
			}
			var costs []string
			for _, regime := range slices.Sorted(maps.Keys(m.Relative)) {
				costs = append(costs, fmt.Sprintf("%s %.3f", regime, m.Relative[regime]))
			}
			fmt.Fprintf(tab, "  %s\t%s\t%s\t%s\n", m.Phase, m.Setting, m.Status, strings.Join(costs, ", "))
		}
		tab.Flush()
		for _, left := range c.Left {
			fmt.Fprintf(w, "left out %s\n", left)
		}
		fmt.Fprintf(w, "note: %s\n", c.Note)
	})
}

// curveWidth is that of the longest bar.
const curveWidth = 48

// writeCurve draws what a knob does in a regime: a bar for each value tried, the engine's own marked.
func writeCurve(w io.Writer, c engine.Curve, own string) {
	if len(c.Points) == 0 {
		return
	}
	most := 0.0
	for _, p := range c.Points {
		most = max(most, p.Ratio)
	}
	fmt.Fprintf(w, "\n%s by %s, times as fast as the engine's own\n", c.Regime, c.Knob)
	for _, p := range c.Points {
		mark := ""
		switch {
		case p.Value == own:
			mark = "  its own"
		case p.Ratio == most:
			mark = "  best"
		}
		fmt.Fprintf(w, "  %5s %5.2f %-9s %s%s\n", p.Value, p.Ratio, pointInterval(p), strings.Repeat("#", int(curveWidth*p.Ratio/most+0.5)), mark)
	}
}

// pointInterval is the interval of a point, if it has one.
func pointInterval(p engine.Point) string {
	if p.High == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f-%.2f", p.Low, p.High)
}
