package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func (a *app) verifyVerb() *cobra.Command {
	var model string
	var budget time.Duration
	cmd := &cobra.Command{
		Use:   "verify --model M",
		Short: "Check now, in pairs, that the learned config is right and no slower than the default",
		Long: `Compares the learned config with the default on this host, bit for bit and then in interleaved pairs. It changes
nothing: a config that config wants to have checked again, because the host has changed, does until the next tune. Exit 0: confirmed; 3: nothing learned, or not decided within the budget; 5: wrong or slower.`,
		Example: "  bitnet-autotune verify --model bitnet-b1.58-2b-4t",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := newProgress(a)
			t, err := a.open(tuner.Options{Progress: p.show})
			if err != nil {
				return err
			}
			defer t.Close()
			v, err := t.Verify(cmd.Context(), model, budget)
			p.clear()
			if err != nil {
				return err
			}
			if err := a.print(v, func(w io.Writer) { writeVerification(w, v) }); err != nil {
				return err
			}
			switch v.Verdict {
			case tuner.Failed:
				return silently(exitUnverified)
			case tuner.Undecided:
				return silently(exitInconclusive)
			}
			return nil
		},
	}
	a.modelFlag(cmd, &model)
	cmd.Flags().DurationVar(&budget, "budget", 20*time.Second, "time for everything")
	return cmd
}

func writeVerification(w io.Writer, v *tuner.Verification) {
	fmt.Fprintf(w, "%s  %s  (%s config)\n", v.Verdict, v.Model, v.Source)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range v.Regimes {
		if r.Reason != "" {
			fmt.Fprintf(tab, "  %s\t%s\t%s\n", regimeName(r.Regime), r.Verdict, r.Reason)
			continue
		}
		fmt.Fprintf(tab, "  %s\t%s\t%.3fx the default (%s)\n", regimeName(r.Regime), r.Verdict, r.Ratio.Estimate, interval(r.Ratio))
	}
	tab.Flush()
}
