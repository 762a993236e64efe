package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// adviceRequest is what the advise verb was asked.
type adviceRequest struct {
	model      string
	current    map[string]string
	categories []string
	minImpact  string
	easy       bool
	further    bool
	silence    []string
	metrics    string
	host       string
	pid        int
	observe    time.Duration
	try        string
	budget     time.Duration
	schema     bool
	constants  constants
}

func (a *app) adviseVerb() *cobra.Command {
	var q adviceRequest
	cmd := &cobra.Command{
		Use:   "advise [--model M] [--current key=value,…] [--pid PID]",
		Short: "Say what is wrong with the way a model is run here, and what it would bring to change it",
		Long: `Judges this host, the model and the settings in use by rules, and prints what to change, the most important first. What
a change is expected to bring is an estimate with its source, until this host has measured it: --try ID runs the settings in
use and the changed ones in turn, both verified bit for bit, and remembers the outcome for the next report. Exit 3: --try was not decided; 5: it found wrong results.

The settings in use come from --current and from the command line of a running engine (--pid). ` + settingsHelp() + `
What a rule would need and does not know is listed at the end. Nothing is ever changed.`,
		Example: `  bitnet-autotune advise --model bitnet-b1.58-2b-4t --current threads=8,layout=i2s
  bitnet-autotune advise --pid $(pidof llama-server) --min-impact high
  bitnet-autotune advise --model bitnet-b1.58-2b-4t --current threads=2,layout=i2s --try layout/residency
  bitnet-autotune advise --host production.json --current threads=64 --format md`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{moreFormats: "md"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.advise(cmd.Context(), q) },
	}
	flags := cmd.Flags()
	optionalModelFlag(cmd, &q.model, "preset name (see models) or path to a GGUF file; with --pid, that of the process")
	flags.StringToStringVar(&q.current, "current", nil, "settings in use, such as threads=8,batch_size=1")
	flags.IntVar(&q.pid, "pid", 0, "a running engine: its settings, its limits, where its memory lies")
	flags.DurationVar(&q.observe, "observe", 0, "watch throttling for so long; 0 = what was counted since the control group began")
	flags.StringVar(&q.host, "host", "", "advise for another machine: a file that probe --format json wrote there")
	flags.StringVar(&q.metrics, "metrics", "", "JSON file with latency, memory, throughput, profile; without it, what a tune measured")
	flags.StringSliceVar(&q.categories, "category", nil, "only suggestions of these categories: "+strings.Join(texts(advisor.Categories), ", "))
	flags.StringVar(&q.minImpact, "min-impact", "", "only suggestions of at least this impact: "+strings.Join(texts(advisor.Impacts), ", "))
	flags.BoolVar(&q.easy, "easy", false, "only what a configuration settles")
	flags.BoolVar(&q.further, "further", false, "also general advice without a figure")
	flags.StringSliceVar(&q.silence, "silence", nil, "ids that are not to be suggested; id@digest only while the advice stays the same")
	flags.StringVar(&q.try, "try", "", "measure what this suggestion would bring")
	flags.DurationVar(&q.budget, "budget", 30*time.Second, "time for --try")
	flags.BoolVar(&q.schema, "schema", false, "print the JSON schema of a report")
	constantFlag(cmd, &q.constants)
	completeList(cmd, "category", words(texts(advisor.Categories)...))
	completeFlag(cmd, "min-impact", words(texts(advisor.Impacts)...))
	completeFlag(cmd, "try", words(advisor.IDs(false)...))
	completeList(cmd, "silence", words(advisor.IDs(true)...))
	return cmd
}

// texts are the values of a list of names.
func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// settingsHelp lists the settings that the rules know.
func settingsHelp() string {
	var b strings.Builder
	b.WriteString("Known are:\n")
	for _, k := range advisor.Keys {
		fmt.Fprintf(&b, "  %-16s %s", k.Name, k.Meaning)
		if k.Values != nil {
			fmt.Fprintf(&b, ": %s", alternatives(k.Values))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// filter checks the flags that choose suggestions.
func (q adviceRequest) filter() (advisor.Filter, error) {
	f := advisor.Filter{MinImpact: advisor.Impact(q.minImpact), Easy: q.easy}
	if q.minImpact != "" && !slices.Contains(advisor.Impacts, f.MinImpact) {
		return f, fmt.Errorf("--min-impact %q: %s", q.minImpact, alternatives(texts(advisor.Impacts)))
	}
	for _, name := range q.categories {
		if !slices.Contains(advisor.Categories, advisor.Category(name)) {
			return f, fmt.Errorf("--category %q: %s", name, alternatives(texts(advisor.Categories)))
		}
		f.Categories = append(f.Categories, advisor.Category(name))
	}
	return f, nil
}

func (q adviceRequest) validate() error {
	if err := advisor.Settings(q.current).Validate(); err != nil {
		return fmt.Errorf("--current: %w", err)
	}
	switch {
	case q.pid < 0 || q.pid > 0 && q.host != "":
		return fmt.Errorf("--pid %d: the id of a process of this host, and so not together with --host", q.pid)
	case q.observe < 0 || q.observe > 0 && q.host != "":
		return fmt.Errorf("--observe %v: want 0 or more, and no --host: only this host can be watched", q.observe)
	case q.try != "" && (q.pid > 0 || q.host != ""):
		return errors.New("--try measures under the limits of this very process: run it there, with --model and --current instead of --pid and --host")
	case q.try != "" && q.model == "":
		return errors.New("--try: name the --model to measure")
	}
	return nil
}

func (a *app) advise(ctx context.Context, q adviceRequest) error {
	if q.schema {
		return a.printText(func(w io.Writer) { io.WriteString(w, advisor.Schema) })
	}
	filter, err := q.filter()
	if err == nil {
		err = q.validate()
	}
	if err != nil {
		return usage(err)
	}
	rules, err := advisor.New(advisor.Options{Constants: &q.constants.Advisor, Silence: q.silence, Further: q.further})
	if err != nil {
		return usage(err)
	}
	s, err := a.survey(ctx, os.DirFS("/"), q)
	if err != nil {
		return err
	}
	defer s.close()
	report := s.advise(ctx, rules)
	for _, note := range s.notes {
		a.log.Warn().Msg(note)
	}
	if q.try != "" {
		return a.tryAdvice(ctx, q, s, report)
	}
	return a.printReport(report.Filter(filter))
}

// advise judges what the survey found, with what this host measured of the changes.
func (s *survey) advise(ctx context.Context, rules *advisor.Advisor) advisor.Report {
	report := rules.Advise(s.context)
	if s.prove(ctx, report) {
		report = rules.Advise(s.context)
	}
	return report
}

func (a *app) printReport(r advisor.Report) error {
	switch a.format {
	case "json":
		return r.WriteJSON(a.out)
	case "md":
		return r.WriteMarkdown(a.out)
	}
	return r.WriteText(a.out)
}

// tryAdvice measures what following a suggestion brings.
func (a *app) tryAdvice(ctx context.Context, q adviceRequest, s *survey, report advisor.Report) error {
	suggestion, ok := report.Find(q.try)
	if !ok || len(suggestion.Change) == 0 {
		return usage(fmt.Errorf("--try %q: not suggested here with these settings, or no knob of ours; what can be tried: %s", q.try, cmp.Or(strings.Join(tryable(report), ", "), "nothing")))
	}
	if s.tuner == nil {
		return fmt.Errorf("--try: %s has no ternary matmuls to measure", q.model)
	}
	if err := a.needStore(); err != nil {
		return err
	}
	original, err := changeOf(s.context.Current)
	if err != nil {
		return usage(err)
	}
	changed, err := changeOf(suggestion.Change)
	if err != nil {
		return err
	}
	c, err := s.tuner.Compare(ctx, q.model, original, changed, q.budget, suggestion.ID)
	s.progress.clear()
	if err != nil {
		return err
	}
	if err := a.print(c, func(w io.Writer) { writeComparison(w, c, suggestion) }); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(c.Regimes, func(r tuner.RegimeComparison) bool { return r.Wrong }):
		return silently(exitUnverified)
	case c.Verdict == measure.Inconclusive:
		return silently(exitInconclusive)
	}
	return nil
}

// tryable are the suggestions that can be measured.
func tryable(r advisor.Report) []string {
	ids := []string{}
	for _, s := range r.Suggestions {
		if len(s.Change) > 0 {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// changeOf is the part of settings that the tuner has knobs for.
func changeOf(s advisor.Settings) (tuner.Change, error) {
	c := tuner.Change{Layout: kernels.Layout(s["layout"]), Kernel: s["kernel"]}
	for key, field := range map[string]*int{"threads": &c.Threads, "prefill_batch": &c.PrefillBatch} {
		if s[key] == "" {
			continue
		}
		n, err := strconv.Atoi(s[key])
		if err != nil || n < 1 {
			return c, fmt.Errorf("setting %s=%s: want a whole number above 0", key, s[key])
		}
		*field = n
	}
	if c.Layout != "" {
		if _, ok := kernels.FormatOf(c.Layout); !ok {
			return c, fmt.Errorf("setting layout=%s: one of %v", c.Layout, kernels.Layouts())
		}
	}
	return c, nil
}

// regimeOf is the regime that a change shows in.
func regimeOf(change advisor.Settings) target.Regime {
	if _, ok := change["prefill_batch"]; ok {
		return target.Prefill
	}
	return target.Decode
}

func writeComparison(w io.Writer, c *tuner.Comparison, s advisor.Suggestion) {
	fmt.Fprintf(w, "%s  %s  (%s: %s)\n", c.Verdict, s.Title, s.ID, c.Model)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range c.Regimes {
		if r.Ratio.High == 0 {
			fmt.Fprintf(tab, "  %s\t%s\t%s\n", regimeName(r.Regime), r.Verdict, r.Reason)
			continue
		}
		fmt.Fprintf(tab, "  %s\t%s\t%.3fx (%s), %d blocks\n", regimeName(r.Regime), r.Verdict, r.Ratio.Estimate, interval(r.Ratio), r.Blocks)
	}
	tab.Flush()
	for _, r := range c.Regimes {
		fmt.Fprintf(w, "  %s: %s; changed: %s\n", regimeName(r.Regime), r.Original, r.Changed)
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "  note: %s\n", warning)
	}
	fmt.Fprintf(w, "Both were checked against the reference, bit for bit, before they were timed. Run %s holds the samples.\n", c.Run)
}
