package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func (a *app) explainVerb() *cobra.Command {
	var model, target, picture string
	var rules ruleFlags
	cmd := &cobra.Command{
		Use:     "explain --model M",
		Short:   "Say why this config: the evidence, the key fields that matched or missed, the runners-up",
		Example: "  bitnet-autotune explain --model bitnet-b1.58-2b-4t\n  bitnet-autotune explain --model ./model.gguf --target engine:llama-bench --plot threads.svg",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkPlot(picture); err != nil {
				return err
			}
			if target != "" {
				return a.explainEngine(cmd.Context(), model, target, picture)
			}
			if picture != "" {
				return usage(fmt.Errorf("--plot %q: only with --target engine:…, of which thread curves are known", picture))
			}
			t, err := rules.open(a)
			if err != nil {
				return err
			}
			defer t.Close()
			e, err := t.Explain(cmd.Context(), model)
			if err != nil {
				return err
			}
			return a.print(e, func(w io.Writer) { writeExplanation(w, e) })
		},
	}
	a.modelFlag(cmd, &model)
	targetFlag(cmd, &target)
	cmd.Flags().StringVar(&picture, "plot", "", "with --target engine:…: also draw the thread curves, with intervals, into this SVG file")
	rules.flags(cmd)
	return cmd
}

// searched says how a regime was searched; a run on another host does not tell.
func searched(r tuner.RegimeVerdict) string {
	if r.SpaceSize == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of %d arms measured; %s", r.Evaluations, r.SpaceSize, r.Stopped)
}

func writeExplanation(w io.Writer, e tuner.Explanation) {
	writePlan(w, e.Plan)
	fmt.Fprintf(w, "  %-12s %s (for --mode frozen --frozen)\n", "hash", e.Plan.Hash)
	for _, reason := range e.PassedOver {
		fmt.Fprintf(w, "passed over: %s\n", reason)
	}
	fmt.Fprintf(w, "\nmeasurements kept for this host and model: %d\n", e.Measurements)
	for _, r := range e.Regimes {
		fmt.Fprintf(w, "\n%s: %s at %.3fx (%s)%s\n", regimeName(r.Regime), r.Verdict, r.Ratio.Estimate, interval(r.Ratio), searched(r))
		for _, up := range r.RunnersUp {
			fmt.Fprintf(w, "  %.3fx  %s\n", up.Ratio.Estimate, up.Arm)
		}
		for _, cut := range r.Cuts {
			if cut.Points == 0 {
				continue
			}
			fmt.Fprintf(w, "  left out %d: %s\n", cut.Points, cut.Reason)
		}
	}
	if len(e.Layouts) > 1 {
		fmt.Fprintln(w)
	}
	writeLayouts(w, e.Layouts)
	if len(e.Fields) == 0 {
		return
	}
	fmt.Fprintln(w, "\nkey, compared with when it was learned")
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range e.Fields {
		mark, then := "match", ""
		switch {
		case f.Match:
		case f.Unknown:
			mark, then = "unknown", "was "+orUnknown(f.Learned)
		default:
			mark, then = "DIFFERS", "was "+f.Learned
		}
		fmt.Fprintf(tab, "  %s\t%s\t%s\t%s\t%s\n", f.Class, f.Name, mark, orUnknown(f.Here), then)
	}
	tab.Flush()
}
