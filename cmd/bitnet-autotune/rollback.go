package main

import (
	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func (a *app) rollbackVerb() *cobra.Command {
	var model, why string
	cmd := &cobra.Command{
		Use:   "rollback --model M",
		Short: "Take back what was learned: the config certified before it answers again, else the default",
		Long: `The config that is taken back answers again only once it is certified anew, on fresh samples. A pin is left alone: unpin it
first. The reason is kept and shown by explain.`,
		Example: `  bitnet-autotune rollback --model bitnet-b1.58-2b-4t --why "p99 rose after the update"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.changePlan(cmd.Context(), model, func(t *tuner.Tuner) error {
				plan, err := t.Rollback(cmd.Context(), model, operator(), why)
				if err == nil {
					a.log.Info().Str("model", plan.Model).Str("config", plan.Config.Hash()).Str("why", why).Msg("rolled back by " + operator())
				}
				return err
			})
		},
	}
	a.modelFlag(cmd, &model)
	cmd.Flags().StringVar(&why, "why", "an operator asked for it", "the reason, for the record")
	return cmd
}
