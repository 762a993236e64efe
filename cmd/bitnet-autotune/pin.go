package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func (a *app) pinVerb() *cobra.Command {
	var model, file string
	var knobs []string
	cmd := &cobra.Command{
		Use:   "pin --model M",
		Short: "Make the present config, one from a file, or single knobs the answer until they are unpinned",
		Long: `A pinned config wins over anything learned. Without --file, what config prints now is pinned.

With --set only these knobs are pinned: they hold in every answer, and tune and the daemon go on with the others. The knobs are
layout, and of decode, small_batch and prefill those that the error of an unknown one lists.`,
		Example: `  bitnet-autotune pin --model bitnet-b1.58-2b-4t
  bitnet-autotune pin --model bitnet-b1.58-2b-4t --set decode.threads=3 --set prefill.batch=128
  bitnet-autotune config --model bitnet-b1.58-2b-4t --for json >plan.json; bitnet-autotune pin --model bitnet-b1.58-2b-4t --file plan.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.changePlan(cmd.Context(), model, func(t *tuner.Tuner) error {
				if len(knobs) > 0 {
					return t.PinKnobs(cmd.Context(), model, knobs, operator())
				}
				plan, err := t.Plan(cmd.Context(), model)
				if err == nil && file != "" {
					plan.Config, err = readConfig(file)
				}
				if err != nil {
					return err
				}
				return t.Pin(cmd.Context(), model, plan.Config, operator())
			})
		},
	}
	a.modelFlag(cmd, &model)
	cmd.Flags().StringVar(&file, "file", "", "JSON file with a config, or a document that config printed")
	cmd.Flags().StringArrayVar(&knobs, "set", nil, "pin only this knob, such as decode.threads=3 (repeatable)")
	cmd.MarkFlagsMutuallyExclusive("file", "set")
	return cmd
}

func (a *app) unpinVerb() *cobra.Command {
	var model string
	var knobs []string
	cmd := &cobra.Command{
		Use:   "unpin --model M",
		Short: "Let what was learned answer again",
		Example: `  bitnet-autotune unpin --model bitnet-b1.58-2b-4t
  bitnet-autotune unpin --model bitnet-b1.58-2b-4t --knob decode.threads`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.changePlan(cmd.Context(), model, func(t *tuner.Tuner) error {
				if len(knobs) > 0 {
					return t.UnpinKnobs(cmd.Context(), model, knobs)
				}
				return t.Unpin(cmd.Context(), model)
			})
		},
	}
	a.modelFlag(cmd, &model)
	cmd.Flags().StringArrayVar(&knobs, "knob", nil, "only this pinned knob, such as decode.threads (repeatable; default: all that is pinned)")
	return cmd
}

// changePlan makes a change in the store and shows what the answer for the model now is.
func (a *app) changePlan(ctx context.Context, model string, change func(*tuner.Tuner) error) error {
	if err := a.needStore(); err != nil {
		return err
	}
	t, err := a.open(tuner.Options{})
	if err != nil {
		return err
	}
	defer t.Close()
	if err := change(t); err != nil {
		return err
	}
	plan, err := t.Plan(ctx, model)
	if err != nil {
		return err
	}
	return a.print(plan, func(w io.Writer) { writePlan(w, plan) })
}

// readConfig reads a config, or the plan document around one.
func readConfig(path string) (tuner.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return tuner.Config{}, err
	}
	var plan tuner.Plan
	if err := json.Unmarshal(data, &plan); err == nil && plan.Config.Layout != "" {
		return plan.Config, nil
	}
	var c tuner.Config
	if err := json.Unmarshal(data, &c); err != nil {
		return tuner.Config{}, fmt.Errorf("%s: %w; want the JSON that config --for json prints", path, err)
	}
	return c, nil
}

// operator names who pins, for the record.
func operator() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
