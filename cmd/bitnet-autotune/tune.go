package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

func (a *app) tuneVerb() *cobra.Command {
	var model, objective, layout string
	var b tuner.Budget
	var e tuner.EngineBudget
	cmd := &cobra.Command{
		Use:   "tune --model M",
		Short: "Measure this host and learn the best config for a model",
		Long: `Searches kernels, threads, batch, register tiles and prefetch for each regime (decode, small batch, prefill),
checks every candidate bit for bit against the reference before its time counts, measures it in pairs with the answer
from facts alone, and lets the best of each weight layout meet the default on fresh samples. One layout is chosen for
all regimes, as an engine holds its weights once. What is proven better is published.

A run resumes what earlier runs recorded. Ctrl-C keeps everything measured and prints the verdict so far.

Where there is a GPU, --target auto tunes the CPU and the GPU within the budget, compares their answers in pairs, and the
better one is the answer from then on; where there is none, it says why in one line. --target cuda is an error without one.

With --fleet it begins with what hosts of this class learned, lets one of them tune at a time, and shares its own result.
A fleet that does not answer costs a warning.

With --target engine:llama-bench (or engine:bitnet.cpp) it is that program which is tuned, from outside and with your model
file: its own help says what can be set, its own figures count, and what it takes by itself is the default to be beaten.
Give such a run minutes: each process loads the model. With --target engine:exec it is any command, and --model names a spec
of it: the command, its knobs, where its figure is. What such a run proves is shared with --fleet, and not taken: see fleet pull.`,
		Example: `  bitnet-autotune tune --model bitnet-b1.58-2b-4t
  bitnet-autotune tune --model falcon3-1b-1.58 --budget 15s --objective decode
  bitnet-autotune tune --model ./ggml-model-i2_s.gguf --strategy exhaustive --budget 5m --format json
  bitnet-autotune tune --model bitnet-b1.58-2b-4t --fleet etcd://10.0.0.5:2379 --fleet-wait 2m
  bitnet-autotune tune --target engine:llama-bench --engine-command ./llama-bench --model ./model.gguf --budget 15m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, ok := strings.CutPrefix(b.Target, tuner.EngineTarget)
			if err := refuseUnheeded(cmd, ok); err != nil {
				return err
			}
			if ok {
				e.Engine, e.Time, e.Objective, e.MaxThreads, e.Seed = name, b.Time, tuner.Objective(objective), b.MaxThreads, b.Seed
				return a.tuneEngine(cmd.Context(), model, e)
			}
			b.Objective, b.Layout = tuner.Objective(objective), kernels.Layout(layout)
			return a.tune(cmd, model, b)
		},
	}
	f := cmd.Flags()
	a.modelFlag(cmd, &model)
	f.DurationVar(&b.Time, "budget", time.Minute, "time for everything: set-up, search and the final duel")
	f.StringVar(&objective, "objective", "mixed", "what to make fast: decode, prefill or mixed (512 prompt and 128 generated tokens)")
	f.StringVar(&b.Target, "target", "auto", "what to measure on: cpu, cuda, "+strings.Join(engineTargets(), ", ")+", or auto for cpu and, where there is a GPU, cuda and the better one by measurement")
	f.StringVar(&b.Device, "device", "", "UUID of the GPU (default: the one with the most memory)")
	f.StringVar(&b.Strategy, "strategy", "auto", "search strategy: "+strategyNames())
	f.Uint64Var(&b.Seed, "seed", 1, "seed of the search and of the random weights")
	f.StringVar(&layout, "layout", "", "the only weight layout to try (default: every one with a kernel for this host)")
	f.IntVar(&b.MaxThreads, "max-threads", 0, "most threads to try (default: every usable core)")
	engineBudgetFlags(cmd, &e)
	a.fleetFlags(cmd)
	f.DurationVar(&b.FleetWait, "fleet-wait", 0, "how long to wait, before the budget begins, for a host of this class that is tuning already")
	completeFlag(cmd, "objective", words(string(tuner.ObjectiveDecode), string(tuner.ObjectivePrefill), string(tuner.ObjectiveMixed)))
	completeFlag(cmd, "target", words(append([]string{"auto", "cpu", "cuda"}, engineTargets()...)...))
	completeFlag(cmd, "strategy", words(append([]string{"auto"}, bandit.Names()...)...))
	completeFlag(cmd, "layout", words(layoutNames()...))
	return cmd
}

// ownFlags are the flags of tune that only the search of our own kernels heeds.
var ownFlags = []string{"strategy", "layout", "device", "fleet-wait"}

// refuseUnheeded refuses a flag of the command line that the target does not heed. The environment and the config file are for
// all targets.
func refuseUnheeded(cmd *cobra.Command, isEngine bool) error {
	unheeded, want := ownFlags, "not with --target engine:…, whose search has stages of its own"
	if !isEngine {
		var b tuner.EngineBudget
		engines := &cobra.Command{}
		engineBudgetFlags(engines, &b)
		unheeded, want = nil, "only with --target engine:…"
		engines.Flags().VisitAll(func(f *pflag.Flag) { unheeded = append(unheeded, f.Name) })
	}
	for _, name := range unheeded {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Annotations[sourceNote] == nil {
			return usage(fmt.Errorf("--%s %q: %s", name, f.Value, want))
		}
	}
	return nil
}

func layoutNames() (names []string) {
	for _, layout := range kernels.Layouts() {
		names = append(names, string(layout))
	}
	return names
}

func (a *app) tune(cmd *cobra.Command, model string, b tuner.Budget) error {
	if err := a.needStore(); err != nil {
		return err
	}
	p := newProgress(a)
	return a.perhapsWithFleet(cmd.Context(), tuner.Options{Progress: p.show}, func(t *tuner.Tuner) error { return a.certify(cmd.Context(), t, p, model, b) })
}

// certify tunes and prints the certificate.
func (a *app) certify(ctx context.Context, t *tuner.Tuner, p *progress, model string, b tuner.Budget) error {
	cert, err := t.Tune(ctx, model, b)
	p.clear()
	if cert != nil {
		a.warn(cert.Warnings)
		if perr := a.print(cert, func(w io.Writer) { writeCertificate(w, cert) }); perr != nil {
			return perr
		}
	}
	if err != nil {
		return err
	}
	if cert.Verdict == measure.Inconclusive {
		return silently(exitInconclusive)
	}
	return nil
}

// writeCertificate prints a certificate for people.
func writeCertificate(w io.Writer, c *tuner.Certificate) {
	fmt.Fprintf(w, "%s  %s  (%s, %s)\n", c.Verdict, c.Model, c.Target, c.Objective)
	fmt.Fprintln(w, verdictSentence(c))
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "\tdefault\tbest\tfaster\tinterval\tverdict")
	for _, r := range c.Regimes {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", regimeName(r.Regime), rate(r.DefaultNs), rate(r.BestNs), times(r.Ratio), interval(r.Ratio), r.Verdict)
	}
	tab.Flush()
	fmt.Fprintln(w)
	for _, r := range c.Regimes {
		writeRegime(w, r)
	}
	writeLayouts(w, c.Layouts)
	if c.Placement != nil {
		fmt.Fprintf(w, "placement     %s: %s\n", c.Placement.Strategy, c.Placement.Reason)
	}
	if f := c.Roofline; f.DecodeFraction > 0 {
		fmt.Fprintf(w, "read limit    %.1f GB/s with %s; decode runs at %.0f %% of it%s\n", f.ReadBandwidth/1e9, threads(f.ReadThreads), 100*f.DecodeFraction, boundBy(f))
	}
	if c.Roofline.Residency != "" {
		fmt.Fprintf(w, "weights       %s\n", c.Roofline.Residency)
	}
	floor := "unknown"
	if c.NoiseFloor > 0 {
		floor = fmt.Sprintf("%.1f %%", 100*c.NoiseFloor)
	}
	fmt.Fprintf(w, "evidence      %d of %d arms measured (%d known before), %d failed, %d samples censored, noise floor %s\n",
		c.Evaluations, c.SpaceSize, c.Known, c.Failed, c.Censored, floor)
	if c.Fleet != "" {
		fmt.Fprintf(w, "fleet         %s\n", c.Fleet)
	}
	fmt.Fprintf(w, "time          %.1f s of %.0f s\n", c.Elapsed, c.Budget)
	fmt.Fprintf(w, "note          %s\n", c.Note)
}

func writeRegime(w io.Writer, r tuner.RegimeVerdict) {
	name := regimeName(r.Regime)
	fmt.Fprintf(w, "%-13s default  %s\n", name, r.Default)
	if r.Verdict == measure.Adopt {
		fmt.Fprintf(w, "%-13s adopted  %s\n", "", r.Best)
	} else if r.Best != r.Default {
		fmt.Fprintf(w, "%-13s closest  %s\n", "", r.Best)
	}
	for _, up := range r.RunnersUp {
		if up.Arm != r.Best {
			fmt.Fprintf(w, "%-13s finalist %s: %.3fx\n", "", up.Arm, up.Ratio.Estimate)
		}
	}
	fmt.Fprintf(w, "%-13s search   %d of %d arms, %d known before; %s%s\n", "", r.Evaluations, r.SpaceSize, r.Known, r.Stopped, overHeuristic(r.OverHeuristic))
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "%-13s doubt    %s\n", "", warning)
	}
}

// writeLayouts says how the layout was chosen, where there was a choice.
func writeLayouts(w io.Writer, list []tuner.LayoutVerdict) {
	if len(list) < 2 {
		return
	}
	for _, l := range list {
		mark, ratio := "passed  ", "-"
		if l.Chosen {
			mark = "chosen  "
		}
		if l.Ratio > 0 {
			ratio = fmt.Sprintf("%.3fx", l.Ratio)
		}
		fmt.Fprintf(w, "%-13s %s %s: %s, %s of weights, repacked in %.1f s by one thread; %s\n", "layout", mark, l.Layout, ratio, size(uint64(l.Bytes)), l.RepackSeconds, l.Reason)
	}
}

func overHeuristic(ratio float64) string {
	switch ratio {
	case 0:
		return ""
	case 1:
		return "; this is the answer from facts alone"
	}
	return fmt.Sprintf("; %.3fx the answer from facts alone", ratio)
}

func verdictSentence(c *tuner.Certificate) string {
	switch {
	case c.Interrupted && c.Verdict == measure.Inconclusive:
		return "Interrupted before anything could be proven; what was measured is kept, and the next run goes on from it."
	case c.Verdict == measure.Adopt && c.Ratio.Estimate == 0:
		return "Some regimes are served faster than with the default; of a whole request nothing is known, as not all of its regimes were measured."
	case c.Verdict == measure.Adopt:
		return fmt.Sprintf("A request of this objective is served %.3f times as fast as with the default (%.0f %% interval %s).",
			c.Ratio.Estimate, 100*c.Ratio.Confidence, interval(c.Ratio))
	case c.Verdict == measure.Keep:
		return "The default is as good as anything found; it stays."
	}
	return "Nothing could be proven better or ruled out within the budget; the config stays as it was. A longer run goes on from here."
}

func boundBy(f tuner.Roofline) string {
	if f.DecodeFraction >= 0.9 {
		return ": bound by reading the weights"
	}
	return ""
}

// times is a ratio, if there is one.
func times(r tuner.Ratio) string {
	if r.Estimate == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3fx", r.Estimate)
}

// interval is the interval of a ratio, if it has one.
func interval(r tuner.Ratio) string {
	if r.High == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f-%.3f", r.Low, r.High)
}

func regimeName(r target.Regime) string {
	switch r {
	case target.SmallBatch:
		return fmt.Sprintf("batch of %d", tuner.SmallBatchTokens)
	}
	return string(r)
}

func rate(nsPerToken float64) string {
	if nsPerToken <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f tok/s", 1e9/nsPerToken)
}
