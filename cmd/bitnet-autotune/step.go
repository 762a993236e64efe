package main

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// stepVerb is what the daemon runs in a child process: one tune or check of some seconds, whose result is JSON.
func (a *app) stepVerb() *cobra.Command {
	var model, target string
	var budget time.Duration
	var check, paced bool
	cmd := &cobra.Command{
		Use:     "step --model M",
		Short:   "One step of the daemon: a short tune, or a check, that prints JSON",
		Example: `  bitnet-autotune step --model bitnet-embedding-270m --budget 20s`,
		Args:    cobra.NoArgs,
		Hidden:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.needStore(); err != nil {
				return err
			}
			t, err := a.open(tuner.Options{})
			if err != nil {
				return err
			}
			defer t.Close()
			ctx := cmd.Context()
			if paced {
				ctx = measure.WithPacer(ctx, daemon.Paced())
			}
			if check {
				v, err := t.Verify(ctx, model, budget)
				if err != nil {
					return err
				}
				return json.NewEncoder(a.out).Encode(v)
			}
			cert, err := t.Tune(ctx, model, tuner.Budget{Time: budget, Target: target, Seed: uint64(time.Now().UnixNano())})
			if err != nil {
				return err
			}
			if err := json.NewEncoder(a.out).Encode(cert); err != nil {
				return err
			}
			if cert.Verdict == measure.Inconclusive {
				return silently(exitInconclusive)
			}
			return nil
		},
	}
	a.modelFlag(cmd, &model)
	f := cmd.Flags()
	f.DurationVar(&budget, "budget", 20*time.Second, "time for everything")
	f.StringVar(&target, "target", "cpu", "what to measure on")
	f.BoolVar(&check, "check", false, "compare what was learned with the default, and change nothing")
	f.BoolVar(&paced, "paced", false, "rest whenever the daemon that started this says so")
	return cmd
}
