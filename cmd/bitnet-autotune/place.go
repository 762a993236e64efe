package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// placeFlags are the flags of place.
type placeFlags struct {
	on         machine
	use        useFlags
	hardware   string
	requireAll bool
}

func (a *app) placeVerb() *cobra.Command {
	var f placeFlags
	cmd := &cobra.Command{
		Use:   "place MODEL[@DEVICE]...",
		Short: "Plan which model of a set goes to which GPU or the CPU",
		Long: `Plans where to load a set of models: as many as possible, then as many as asked for (@cuda:1, @cpu) where they are asked
for, then so that a token of each takes the least time while all decode and those on one device share its bandwidth. No device
is given more than it has free. A model named twice is loaded once, for two users. For small sets the plan is proven to be the
best; "optimal" tells.

What has no place is told with what would give it one, and exit code 0; with --require-all the exit code is 3 then. Sizes
and times are estimates of the model's own traffic: nothing is measured.`,
		Example: `  bitnet-autotune place bitnet-b1.58-2b-4t bitnet-embedding-0.6b
  bitnet-autotune place llama3-8b-1.58@cuda:1 falcon3-10b-1.58 bitnet-embedding-0.6b@cpu --context 8192 --batch 4
  bitnet-autotune place llama3-8b-1.58 falcon3-7b-1.58 --host server.json --format json
  bitnet-autotune place ./a.gguf ./b.gguf --gpus gpus.json --hardware cuda --require-all`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeModel,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.place(cmd, args, &f) },
	}
	f.on.flags(cmd)
	f.use.flags(cmd)
	cmd.Flags().StringVar(&f.hardware, "hardware", "", "the only kinds of hardware, with commas (default any)")
	completeList(cmd, "hardware", words(strings.Split(joined(placement.Kinds), ", ")...))
	cmd.Flags().BoolVar(&f.requireAll, "require-all", false, "exit 3 when a model has no place")
	return cmd
}

func (a *app) place(cmd *cobra.Command, args []string, f *placeFlags) error {
	if err := f.use.check(); err != nil {
		return err
	}
	var kinds []placement.Kind
	if f.hardware != "" {
		var err error
		if kinds, err = placement.ParseKinds(f.hardware); err != nil {
			return usage(fmt.Errorf("--hardware: %w", err))
		}
	}
	if err := f.on.read(cmd.Context(), a); err != nil {
		return err
	}
	var wants []placement.Want
	for _, arg := range args {
		w, err := f.want(arg)
		if err != nil {
			return err
		}
		w.Kinds = kinds
		wants = append(wants, w)
	}
	plan, err := f.on.rules.Plan(wants, f.on.devices, f.on.matrix)
	if err != nil {
		return usage(err)
	}
	for _, warning := range plan.Warnings {
		a.log.Warn().Msg(warning)
	}
	note := f.on.survey.Note
	if note != "" {
		plan.Warnings = append(plan.Warnings, "GPUs: "+note)
	}
	if err := a.print(plan, func(w io.Writer) { writePlacement(w, plan, f.on.host.CPU.UsableCores, note) }); err != nil {
		return err
	}
	if f.requireAll && len(plan.Unplaced) > 0 {
		return silently(exitInconclusive)
	}
	return nil
}

// want is a model of the command line, with the device asked for behind the last @.
func (f *placeFlags) want(arg string) (placement.Want, error) {
	name, prefer := arg, (*placement.Place)(nil)
	if at := strings.LastIndex(arg, "@"); at > 0 && !strings.ContainsAny(arg[at:], "/.") {
		place, err := placement.ParsePlace(arg[at+1:])
		if err != nil {
			return placement.Want{}, usage(fmt.Errorf("%s: %w", arg, err))
		}
		name, prefer = arg[:at], &place
	}
	s, err := subject(name)
	if err != nil {
		return placement.Want{}, err
	}
	need, ok := f.on.rules.NeedOf(s, f.use.of(s.Model, &f.on))
	if _, err := model.Load(name); err != nil && !ok {
		return placement.Want{}, err
	}
	if !ok {
		return placement.Want{}, usage(fmt.Errorf("%s: its file has no weights: want a preset (see bitnet-autotune models) or a whole GGUF file", name))
	}
	return placement.Want{Model: name, Family: placement.Classify(s).Family, Need: need, Prefer: prefer,
		Alternatives: f.on.rules.Alternatives(s, f.use.of(s.Model, &f.on), layoutBytes(s.Model))}, nil
}

func writePlacement(w io.Writer, p placement.Plan, usable int, gpuNote string) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, at := range p.Placements {
		users := ""
		if at.Users > 1 {
			users = fmt.Sprintf(" (%d users)", at.Users)
		}
		fmt.Fprintf(tab, "%s%s\t%s\t%s\t%s\n", at.Model, users, at.Device, size(at.MemoryBytes), at.Reason)
	}
	tab.Flush()
	for _, u := range p.Unplaced {
		fmt.Fprintf(w, "no place for %s (%s): %s\n", u.Model, size(u.MemoryBytes), u.Reason)
		for _, remedy := range u.WouldFitWith {
			fmt.Fprintf(w, "  would fit with %s: %s\n", remedy.Change, size(remedy.Bytes))
		}
	}
	fmt.Fprintln(w)
	tab = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "used\troom\ttotal\t  \tdevice\t")
	for _, d := range p.Devices {
		fmt.Fprintf(tab, "%s\t%s\t%s\t  \t%s\t\n", size(d.UsedBytes), size(d.RoomBytes), size(d.TotalBytes), d.ID)
	}
	tab.Flush()
	if gpuNote != "" {
		fmt.Fprintf(w, "GPUs: %s\n", gpuNote)
	}
	proof := "the best that was found"
	if p.Optimal {
		proof = "no plan is better"
	}
	fmt.Fprintf(w, "\nall together %s, %s, %s on disk; a token of each in %.3g ms while all decode (%s; %s)\n",
		size(p.Pool.MemoryBytes), coresAsked(p.Pool.Cores, usable), size(p.Pool.DiskBytes), p.TokenSeconds*1e3, p.TokenBasis, proof)
}

// coresAsked is a number of cores that the models ask for by rule, beside what there is.
func coresAsked(asked, usable int) string {
	text := fmt.Sprintf("%d cores asked for", asked)
	if asked > usable {
		text += fmt.Sprintf(" (%d usable: they share them)", usable)
	}
	return text
}
