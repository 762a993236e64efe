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
	cmd := &cobra.Command{
		Use:   "pin --model M",
		Short: "Make the present config, or one from a file, the answer until it is unpinned",
		Long:  "A pinned config wins over anything learned. Without --file, what config prints now is pinned.",
		Example: `  bitnet-autotune pin --model bitnet-b1.58-2b-4t
  bitnet-autotune config --model bitnet-b1.58-2b-4t --for json >plan.json; bitnet-autotune pin --model bitnet-b1.58-2b-4t --file plan.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.changePlan(cmd.Context(), model, func(t *tuner.Tuner) error {
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
	return cmd
}

func (a *app) unpinVerb() *cobra.Command {
	var model string
	cmd := &cobra.Command{
		Use:     "unpin --model M",
		Short:   "Let what was learned answer again",
		Example: "  bitnet-autotune unpin --model bitnet-b1.58-2b-4t",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.changePlan(cmd.Context(), model, func(t *tuner.Tuner) error { return t.Unpin(cmd.Context(), model) })
		},
	}
	a.modelFlag(cmd, &model)
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
