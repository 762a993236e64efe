package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

func (a *app) classifyVerb() *cobra.Command {
	var on machine
	var use useFlags
	cmd := &cobra.Command{
		Use:   "classify MODEL",
		Short: "Tell the family of a model, the hardware for it, and what it needs",
		Long: `Tells the family of a preset or a GGUF file by its architecture and its tensors, with high or medium confidence. Any
other name is judged as a name alone, with low confidence; a name that says nothing is of unknown family, which is for the CPU.
The recommended hardware is what this host has, best suited first; the CPU always qualifies. Sizes are estimates.`,
		Example: `  bitnet-autotune classify bitnet-b1.58-2b-4t
  bitnet-autotune classify ./ggml-model-i2_s.gguf --context 8192 --format json
  bitnet-autotune classify openai/whisper-large-v3
  bitnet-autotune classify llama3-8b-1.58 --host server.json --level text_generation/cpu=medium`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.classify(cmd, args[0], &on, &use)
			if err != nil {
				return err
			}
			return a.print(c, func(w io.Writer) { writeClassified(w, c) })
		},
	}
	on.flags(cmd)
	use.flags(cmd)
	return cmd
}

func (a *app) classify(cmd *cobra.Command, name string, on *machine, use *useFlags) (placement.Description, error) {
	if err := use.check(); err != nil {
		return placement.Description{}, err
	}
	s, err := subject(name)
	if err != nil {
		return placement.Description{}, err
	}
	if err := on.read(cmd.Context(), a); err != nil {
		return placement.Description{}, err
	}
	return on.rules.Describe(s, use.of(s.Model, on), on.devices, on.matrix), nil
}

func writeClassified(w io.Writer, c placement.Description) {
	fmt.Fprintf(w, "%s: %s  (confidence %s: %s)\n", c.Name, c.Family, c.Confidence, orUnknown(strings.Join(c.Evidence, "; ")))
	var levels []string
	for _, l := range c.Levels {
		note := ""
		if l.Here {
			note = ", here"
		}
		levels = append(levels, fmt.Sprintf("%s (%s%s)", l.Kind, l.Level, note))
	}
	fmt.Fprintf(w, "hardware   %s; by the matrix %s\n", joined(c.Hardware), strings.Join(levels, ", "))
	fmt.Fprintf(w, "template   %s: objective %s, batch %d; %s\n", c.Template.Name, c.Template.Objective, c.Template.Batch, c.Template.Why)
	r := c.Resources
	if r.MinimumBytes == 0 {
		fmt.Fprintf(w, "needs      %s\n", r.Reason)
	} else {
		fmt.Fprintf(w, "needs      %s of memory at the least, %s recommended; %d cores, %s on disk (%s: %s)\n", size(r.MinimumBytes), size(r.RecommendedBytes), r.Cores, size(r.DiskBytes), r.Basis, r.Reason)
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "note: %s\n", warning)
	}
}

// joined is a list of kinds with commas.
func joined(kinds []placement.Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}
