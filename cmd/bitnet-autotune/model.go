package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

const modelHelp = "preset name (see models) or path to a GGUF file"

// errNoModel is the error of a verb that needs --model.
var errNoModel = usage(errors.New("--model: a preset name (see bitnet-autotune models) or the path of a GGUF file"))

// modelFlag adds --model with completion over the presets.
func (a *app) modelFlag(cmd *cobra.Command, value *string) {
	optionalModelFlag(cmd, value, modelHelp)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *value == "" {
			return errNoModel
		}
		return run(cmd, args)
	}
}

// optionalModelFlag adds --model for a verb that also does without.
func optionalModelFlag(cmd *cobra.Command, value *string, help string) {
	cmd.Flags().StringVar(value, "model", "", help)
	if err := cmd.RegisterFlagCompletionFunc("model", completeModel); err != nil {
		panic("cmd: completion for a flag just defined")
	}
}

func completeModel(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, m := range model.Presets() {
		names = append(names, m.Name)
	}
	return names, cobra.ShellCompDirectiveDefault
}

func strategyNames() string { return strings.Join(bandit.Names(), ", ") }

func (a *app) modelsVerb() *cobra.Command {
	return &cobra.Command{
		Use:     "models",
		Short:   "List the built-in model presets",
		Example: "  bitnet-autotune models\n  bitnet-autotune models --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			presets := model.Presets()
			return a.print(presets, func(w io.Writer) { writeModels(w, presets) })
		},
	}
}

func writeModels(w io.Writer, list []model.Model) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "layers\thidden\tffn\tternary weights\ti2s\toutput head\t  \tname\t")
	for _, m := range list {
		fmt.Fprintf(tab, "%d\t%d\t%d\t%.2f G\t%s\t%s\t  \t%s\t\n", m.Layers, m.Hidden, m.FFN, float64(m.TernaryWeights())/1e9, fileSize(m.Bytes()["i2s"]), size(m.HeadBytes), m.Name)
	}
	tab.Flush()
}

// fileSize is the size of a model in a file format that may not be able to hold it.
func fileSize(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return size(bytes)
}

func (a *app) inspectVerb() *cobra.Command {
	return &cobra.Command{
		Use:               "inspect FILE",
		Short:             "Read the header of a GGUF file: family, matmul shapes, bytes per layout",
		Example:           "  bitnet-autotune inspect ./ggml-model-i2_s.gguf\n  bitnet-autotune inspect bitnet-b1.58-2b-4t --format json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeModel,
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := model.Load(args[0])
			if err != nil {
				return err
			}
			return a.print(m, func(w io.Writer) { writeModel(w, m) })
		},
	}
}

func writeModel(w io.Writer, m model.Model) {
	fmt.Fprintf(w, "%s  (%s, %s)\n", m.Name, orUnknown(m.Architecture), orUnknown(m.Family))
	fmt.Fprintf(w, "layers %d, hidden %d, ffn %d, heads %d:%d x %d, vocabulary %d\n", m.Layers, m.Hidden, m.FFN, m.Heads, m.KVHeads, m.HeadDim, m.Vocab)
	if m.FileType != "" {
		fmt.Fprintf(w, "file type %s\n", m.FileType)
	}
	if len(m.Shapes) > 0 {
		fmt.Fprintf(w, "\n%.3f G ternary weights in matmuls of\n", float64(m.TernaryWeights())/1e9)
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tab, "N\tK\tcount\t  \t\t")
		for _, s := range m.Shapes {
			fmt.Fprintf(tab, "%d\t%d\t%d\t  \t%s\t\n", s.N, s.K, s.Count, s.Roles)
		}
		tab.Flush()
		fmt.Fprintln(w, "\nbytes per layout")
		bytes := m.Bytes()
		for _, layout := range sortedKeys(bytes) {
			fmt.Fprintf(w, "  %-8s %s\n", layout, size(bytes[layout]))
		}
	}
	for _, warning := range m.Warnings {
		fmt.Fprintf(w, "note: %s\n", warning)
	}
}
