package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// recommendFlags are the flags of recommend.
type recommendFlags struct {
	on        machine
	use       useFlags
	task      string
	hardware  string
	maxMemory string
	matrix    bool
	save      string
	verify    string
}

func (a *app) recommendVerb() *cobra.Command {
	var f recommendFlags
	cmd := &cobra.Command{
		Use:   "recommend --task T",
		Short: "Rank the built-in models that serve a task and fit this hardware",
		Long: `Ranks the built-in models of the task's family that fit a device: those on better suited hardware first, then the
larger. That none fits is an empty list with reasons, and exit code 0. Sizes and times are estimates: a token's time is
what reading its weights, its head and its cache takes at the bandwidth of the device.

--matrix prints the compatibility matrix instead: families by hardware, and layouts by instruction set with what was measured
on this host. --save-profile stores what of this host decides, and --verify-profile lists what has changed since: exit code 5.`,
		Example: `  bitnet-autotune recommend --task text-generation
  bitnet-autotune recommend --task chat --hardware cuda,cpu --max-memory 4GB --context 8192
  bitnet-autotune recommend --matrix
  bitnet-autotune recommend --save-profile host.json
  bitnet-autotune recommend --verify-profile host.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.recommend(cmd, &f) },
	}
	f.on.flags(cmd)
	f.use.flags(cmd)
	cmd.Flags().StringVar(&f.task, "task", "", "what the model is for: "+strings.Join(placement.Families, ", ")+", or what the task is called elsewhere")
	completeFlag(cmd, "task", words(placement.Tasks()...))
	cmd.Flags().StringVar(&f.hardware, "hardware", "", "the only kinds of hardware, with commas (default any)")
	completeList(cmd, "hardware", words(strings.Split(joined(placement.Kinds), ", ")...))
	cmd.Flags().StringVar(&f.maxMemory, "max-memory", "", "the most a model may take, such as 4GB or 512MiB")
	cmd.Flags().BoolVar(&f.matrix, "matrix", false, "print the compatibility matrix")
	cmd.Flags().StringVar(&f.save, "save-profile", "", "store the compatibility profile of the host in this file")
	cmd.Flags().StringVar(&f.verify, "verify-profile", "", "compare the host with the profile in this file")
	cmd.MarkFlagsMutuallyExclusive("task", "matrix", "save-profile", "verify-profile")
	return cmd
}

func (a *app) recommend(cmd *cobra.Command, f *recommendFlags) error {
	if err := f.use.check(); err != nil {
		return err
	}
	if f.task == "" && !f.matrix && f.save == "" && f.verify == "" {
		return usage(fmt.Errorf("--task: one of %s", strings.Join(placement.Tasks(), ", ")))
	}
	if err := f.on.read(cmd.Context(), a); err != nil {
		return err
	}
	switch {
	case f.matrix:
		return a.print(f.on.matrix, func(w io.Writer) { writeMatrix(w, f.on.matrix) })
	case f.save != "":
		return a.saveProfile(f)
	case f.verify != "":
		return a.verifyProfile(f)
	}
	return a.recommendModels(f)
}

func (a *app) recommendModels(f *recommendFlags) error {
	by := placement.Constraints{}
	var err error
	if f.hardware != "" {
		if by.Kinds, err = placement.ParseKinds(f.hardware); err != nil {
			return usage(fmt.Errorf("--hardware: %w", err))
		}
	}
	if f.maxMemory != "" {
		if by.MaxBytes, err = parseSize(f.maxMemory); err != nil {
			return usage(fmt.Errorf("--max-memory: %w", err))
		}
	}
	var catalog []placement.Entry
	for _, m := range model.Presets() {
		need, _ := f.on.rules.NeedOf(placement.Subject{Name: m.Name, Model: m}, f.use.of(m, &f.on))
		catalog = append(catalog, placement.Entry{Name: m.Name, Family: m.Family, Need: need, Weights: m.TernaryWeights()})
	}
	r, err := placement.Recommend(f.task, catalog, f.on.devices, f.on.matrix, by)
	if err != nil {
		return usage(err)
	}
	return a.print(r, func(w io.Writer) { writeRecommendation(w, r) })
}

func writeRecommendation(w io.Writer, r placement.Recommendation) {
	if len(r.Models) == 0 {
		fmt.Fprintf(w, "no model for %s\n", r.Family)
	} else {
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tab, "device\tlevel\tmemory\tternary weights\ttoken, estimate\t  \tmodel\t")
		for _, m := range r.Models {
			fmt.Fprintf(tab, "%s\t%s\t%s\t%.2f G\t%.3g ms\t  \t%s\t\n", m.Device, m.Level, size(m.MemoryBytes), float64(m.Weights)/1e9, m.TokenSeconds*1e3, m.Model)
		}
		tab.Flush()
	}
	for _, e := range r.Excluded {
		fmt.Fprintf(w, "not %s: %s\n", e.Model, e.Reason)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}

func writeMatrix(w io.Writer, m *placement.Matrix) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tab, "family")
	for _, kind := range placement.Kinds {
		fmt.Fprintf(tab, "\t%s", kind)
	}
	for _, family := range placement.Families {
		fmt.Fprintf(tab, "\n%s", family)
		for _, kind := range placement.Kinds {
			mark := ""
			if m.Families[family][kind].Overridden {
				mark = "*"
			}
			fmt.Fprintf(tab, "\t%s%s", m.Level(family, kind), mark)
		}
	}
	fmt.Fprint(tab, "\n\nlayout on the CPU")
	for _, set := range m.InstructionSets() {
		fmt.Fprintf(tab, "\t%s", set)
	}
	for _, layout := range sortedKeys(m.Layouts) {
		fmt.Fprintf(tab, "\n%s", layout)
		for _, set := range m.InstructionSets() {
			fmt.Fprintf(tab, "\t%s", cellText(m.Layouts[layout], set))
		}
	}
	fmt.Fprintln(tab)
	tab.Flush()
	fmt.Fprintln(w, "\nlevels are defaults; * = overridden; x = measured on this host, against the default configuration")
}

func cellText(row map[string]placement.Cell, set string) string {
	cell, known := row[set]
	if !known {
		return "-"
	}
	text := string(cell.Level)
	if cell.Overridden {
		text += "*"
	}
	if found := cell.Measured; found != nil {
		text += fmt.Sprintf(" (%.2fx, %.3g tokens/s of %s)", found.Ratio, found.TokensPerSecond, found.Model)
	}
	return text
}

func (a *app) saveProfile(f *recommendFlags) error {
	p := placement.ProfileOf(f.on.host, f.on.survey, f.on.matrix)
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.save, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("--save-profile: %w", err)
	}
	return a.print(p, func(w io.Writer) { fmt.Fprintf(w, "profile of %s is in %s\n", p.Fingerprint, f.save) })
}

func (a *app) verifyProfile(f *recommendFlags) error {
	data, err := os.ReadFile(f.verify)
	if err != nil {
		return usage(fmt.Errorf("--verify-profile: %w", err))
	}
	stored, err := placement.ReadProfile(data)
	if err != nil {
		return fmt.Errorf("--verify-profile %s: %w", f.verify, err)
	}
	found := stored.Verify(placement.ProfileOf(f.on.host, f.on.survey, f.on.matrix))
	doc := struct {
		OK          bool                   `json:"ok"`
		Differences []placement.Difference `json:"differences"`
	}{len(found) == 0, found}
	if err := a.print(doc, func(w io.Writer) { writeDifferences(w, found) }); err != nil {
		return err
	}
	if len(found) > 0 {
		return silently(exitUnverified)
	}
	return nil
}

func writeDifferences(w io.Writer, list []placement.Difference) {
	if len(list) == 0 {
		fmt.Fprintln(w, "the host is as its profile says")
		return
	}
	for _, d := range list {
		fmt.Fprintf(w, "%s: was %s, is %s\n", d.Field, orUnknown(d.Stored), orUnknown(d.Now))
	}
}

// units are what a size may be given in.
var units = map[string]float64{
	"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}

// parseSize parses a number of bytes with a unit.
func parseSize(text string) (uint64, error) {
	number := strings.TrimRight(text, "BKMGTibkmgt ")
	unit, known := units[strings.ToUpper(strings.TrimSpace(text[len(number):]))]
	value, err := strconv.ParseFloat(number, 64)
	if bytes := value * unit; known && err == nil && bytes >= 1 && bytes < math.MaxInt64 {
		return uint64(bytes), nil
	}
	return 0, errors.New(strconv.Quote(text) + ": want a size such as 4GB, 512MiB or 1000000")
}
