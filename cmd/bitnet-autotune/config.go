package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// forms are the shapes in which config can print what was learned.
var forms = map[string]func(io.Writer, tuner.Plan){
	"json":         nil, // printed by the encoder
	"env":          writeEnv,
	"go":           writeGo,
	"llama.cpp":    writeFlags(""),
	"ik_llama.cpp": writeFlags(""),
	"bitnet.cpp":   writeFlags(" --n-gpu-layers 0"),
}

func (a *app) configVerb() *cobra.Command {
	var q configQuery
	cmd := &cobra.Command{
		Use:   "config --model M",
		Short: "Print the best known config for a model on this host",
		Long: `Answers at once, without measuring: what an operator pinned, else what was measured here, else what can be derived
from another limit or a host like this one, else a heuristic from facts. The source and the reason are printed with it;
where facts decide, also what limits each answer and how it is known: an estimate, a probe of this host, or measured.

The figures of the rules are listed by --constants, and --constant sets one for this answer.`,
		Example: `  bitnet-autotune config --model bitnet-b1.58-2b-4t
  llama-server -m model.gguf $(bitnet-autotune config --model bitnet-b1.58-2b-4t --for llama.cpp)
  bitnet-autotune config --constants
  bitnet-autotune config --model bitnet-b1.58-2b-4t --constant device.most_load=0.5
  set -a; eval "$(bitnet-autotune config --model bitnet-b1.58-2b-4t --for env)"; set +a
  bitnet-autotune config --model ./model.gguf --target engine:llama-bench --for systemd`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.config(cmd, q) },
	}
	optionalModelFlag(cmd, &q.model, modelHelp)
	cmd.Flags().StringVar(&q.form, "for", "", "print for: "+strings.Join(sortedKeys(forms), ", ")+"; of an engine also command, llama-server, systemd")
	completeFlag(cmd, "for", words(sortedKeys(forms)...))
	targetFlag(cmd, &q.target)
	cmd.Flags().BoolVar(&q.requireMeasured, "require-measured", false, "exit 3 when nothing was measured on this host")
	cmd.Flags().BoolVar(&q.listConstants, "constants", false, "list the figures of the rules, with unit and source, instead")
	q.rules.flags(cmd)
	return cmd
}

// ruleFlags are the flags that say how facts become an answer, where nothing was learned.
type ruleFlags struct {
	fixed     bool
	context   int
	constants constants
}

func (r *ruleFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.fixed, "fixed", false, "where nothing was learned, answer with the fixed configuration: 4 threads, or as many as may be used, whatever the load is")
	cmd.Flags().IntVar(&r.context, "context", 0, "tokens of a sequence that there must be room for, where nothing was learned (default: as listed by config --constants)")
	constantFlag(cmd, &r.constants)
}

// open opens a tuner that answers by the rules as they are set.
func (r *ruleFlags) open(a *app) (*tuner.Tuner, error) {
	if r.context < 0 {
		return nil, usage(fmt.Errorf("--context %d: want at least 1 token, or 0 for the default", r.context))
	}
	return a.open(tuner.Options{Context: r.context, Device: r.constants.options(r.fixed, &a.log), GPUs: lookForGPUs})
}

// configQuery is what config was asked.
type configQuery struct {
	model, form     string
	target          string // an engine; "" = our own kernels
	requireMeasured bool
	listConstants   bool
	rules           ruleFlags
}

// lookTime is how long an answer at once waits for NVML, which needs seconds where no process keeps the driver awake.
// R0.33: 100 ms for all.
const lookTime = 80 * time.Millisecond

func lookForGPUs(ctx context.Context) gpu.Survey { return surveyGPUs(ctx, lookTime) }

func (a *app) config(cmd *cobra.Command, q configQuery) error {
	if q.listConstants {
		list := q.rules.constants.list()
		return a.print(map[string]any{"constants": list}, func(w io.Writer) { writeConstants(w, list) })
	}
	if q.model == "" {
		return errNoModel
	}
	if q.target != "" {
		return a.configEngine(cmd.Context(), q.model, q.target, q.form, q.requireMeasured)
	}
	write, known := forms[q.form]
	if q.form != "" && !known {
		return usage(fmt.Errorf("--for %q: one of %s", q.form, strings.Join(sortedKeys(forms), ", ")))
	}
	t, err := q.rules.open(a)
	if err != nil {
		return err
	}
	defer t.Close()
	plan, err := t.Plan(cmd.Context(), q.model)
	if err != nil {
		return err
	}
	switch {
	case q.form == "json":
		err = a.printJSON(plan)
	case q.form != "" && a.format == "text":
		err = a.printText(func(w io.Writer) { write(w, plan) })
	default:
		err = a.print(plan, func(w io.Writer) { writePlan(w, plan) })
	}
	if err != nil {
		return err
	}
	if q.requireMeasured && plan.Source != tuner.Measured && plan.Source != tuner.Pinned {
		return coded{exitInconclusive, fmt.Errorf("config: only %s is known for %s on this host; run tune first", plan.Source, plan.Model)}
	}
	return nil
}

// writePlan prints a plan for people.
func writePlan(w io.Writer, p tuner.Plan) {
	why := string(p.Source) + ": " + p.Reason
	if strings.HasPrefix(p.Reason, string(p.Source)) { // "measured: measured on"
		why = p.Reason
	}
	fmt.Fprintf(w, "%s  (%s)\n", p.Model, why)
	for _, r := range tuner.Regimes {
		fmt.Fprintf(w, "  %-12s %s\n", regimeName(r), p.Config.Arm(r).String())
	}
	fmt.Fprintf(w, "  %-12s %s, workspace %s\n", "layout", p.Config.Layout, size(uint64(p.Config.WorkspaceBytes)))
	if p.Config.Strategy != tuner.CPUOnly {
		fmt.Fprintf(w, "  %-12s %s on %s, %.1f %% of its memory\n", "strategy", p.Config.Strategy, strings.Join(p.Config.Devices, ", "), 100*p.Config.GPUMemoryFraction)
	}
	for _, k := range p.PinnedKnobs {
		fmt.Fprintf(w, "  %-12s %s=%s, by %s on %s\n", "pinned", k.Knob, k.Value, k.By, k.At.Local().Format(time.DateOnly))
	}
	if p.LayoutReason != "" {
		fmt.Fprintf(w, "  %-12s %s\n", "", p.LayoutReason)
	}
	if p.Device != nil {
		writeDevice(w, *p.Device)
	}
	if p.Ratio.Estimate > 0 {
		fmt.Fprintf(w, "  %-12s %.3fx the default (%.0f %% interval %.3f-%.3f)\n", "measured", p.Ratio.Estimate, 100*p.Ratio.Confidence, p.Ratio.Low, p.Ratio.High)
	}
}

// writeDevice prints how the answers follow from facts.
func writeDevice(w io.Writer, d device.Decision) {
	row := func(name, value, basis, limit, reason string) {
		fmt.Fprintf(w, "  %-12s %s  (%s, limited by %s) %s\n", name, value, basis, limit, reason)
	}
	fmt.Fprintln(w, "from facts")
	row("strategy", string(d.Strategy.Value), string(d.Strategy.Basis), string(d.Strategy.Limit), d.Strategy.Reason)
	row("threads", strconv.Itoa(d.Threads.Value), string(d.Threads.Basis), string(d.Threads.Limit), d.Threads.Reason)
	row("sequences", strconv.Itoa(d.Batch.Value), string(d.Batch.Basis), string(d.Batch.Limit), d.Batch.Reason)
	row("workspace", size(d.WorkspaceBytes.Value), string(d.WorkspaceBytes.Basis), string(d.WorkspaceBytes.Limit), d.WorkspaceBytes.Reason)
	if len(d.Defaulted) > 0 {
		fmt.Fprintf(w, "  %-12s %s\n", "unknown", strings.Join(d.Defaulted, ", "))
	}
	for _, warning := range d.Warnings {
		fmt.Fprintf(w, "  %-12s %s\n", "note", warning)
	}
}

// writeEnv prints lines for a shell or a systemd EnvironmentFile.
func writeEnv(w io.Writer, p tuner.Plan) {
	c := p.Config
	fmt.Fprintf(w, "BITNET_SOURCE=%s\nBITNET_LAYOUT=%s\n", p.Source, c.Layout)
	for _, r := range tuner.Regimes {
		arm, prefix := c.Arm(r), "BITNET_"+strings.ToUpper(string(r))
		fmt.Fprintf(w, "%s_KERNEL=%s\n%s_THREADS=%d\n%s_BATCH=%d\n", prefix, arm.Kernel, prefix, arm.Threads, prefix, arm.Batch)
	}
	if c.Strategy == tuner.GPUOnly {
		fmt.Fprintf(w, "BITNET_STRATEGY=%s\nLLAMA_ARG_N_GPU_LAYERS=%d\nLLAMA_ARG_BATCH=%d\nLLAMA_ARG_UBATCH=%d\n", c.Strategy, allLayers, logicalBatch(c), c.Prefill.Batch)
		return
	}
	fmt.Fprintf(w, "LLAMA_ARG_THREADS=%d\nLLAMA_ARG_THREADS_BATCH=%d\nLLAMA_ARG_BATCH=%d\nLLAMA_ARG_UBATCH=%d\n",
		c.Decode.Threads, c.Prefill.Threads, logicalBatch(c), c.Prefill.Batch)
}

// writeGo prints a Go expression of type tuner.Config.
func writeGo(w io.Writer, p tuner.Plan) {
	c := p.Config
	reason := strings.Join(strings.Fields(p.Reason), " ") // in one line, as the comment ends with it
	fmt.Fprintf(w, "// %s: %s\ntuner.Config{\n\tStrategy: %q,\n\tLayout:   %q,\n", p.Source, reason, c.Strategy, c.Layout)
	for _, named := range []struct {
		field  string
		regime target.Regime
	}{{"Decode", target.Decode}, {"SmallBatch", target.SmallBatch}, {"Prefill", target.Prefill}} {
		a := c.Arm(named.regime)
		fmt.Fprintf(w, "\t%s: tuner.Setting{Kernel: %q, Threads: %d, Batch: %d, Blocking: kernels.Blocking{Tile: kernels.Tile{Groups: %d, Tokens: %d}, PrefetchBytes: %d, ChunkRows: %d}%s},\n",
			named.field, a.Kernel, a.Threads, a.Batch, a.Blocking.Tile.Groups, a.Blocking.Tile.Tokens, a.Blocking.PrefetchBytes, a.Blocking.ChunkRows, goLaunch(a.Launch))
	}
	if c.GPUMemoryFraction > 0 {
		fmt.Fprintf(w, "\tGPUMemoryFraction: %v,\n", c.GPUMemoryFraction)
	}
	fmt.Fprintf(w, "\tWorkspaceBytes: %d,\n\tDevices: %#v,\n}\n", c.WorkspaceBytes, c.Devices)
}

// goLaunch is the field of a launch that is not the kernel's own.
func goLaunch(l target.Launch) string {
	if l == (target.Launch{}) {
		return ""
	}
	return fmt.Sprintf(", Launch: target.Launch{SplitK: %d, MaxRegisters: %d}", l.SplitK, l.MaxRegisters)
}

// writeFlags prints what of a plan an engine of the llama.cpp family takes as flags: threads and batch. Kernels and
// blocking are compiled into these engines.
func writeFlags(extra string) func(io.Writer, tuner.Plan) {
	return func(w io.Writer, p tuner.Plan) {
		c := p.Config
		if c.Strategy == tuner.GPUOnly { // the kernels are the engine's own; what it takes from here is that all layers go to the card
			fmt.Fprintf(w, "--batch-size %d --ubatch-size %d --n-gpu-layers %d\n", logicalBatch(c), c.Prefill.Batch, allLayers)
			return
		}
		fmt.Fprintf(w, "--threads %d --threads-batch %d --batch-size %d --ubatch-size %d%s\n",
			c.Decode.Threads, c.Prefill.Threads, logicalBatch(c), c.Prefill.Batch, extra)
	}
}

// allLayers is more layers than any model has: to engines of the llama.cpp family it means all of them.
const allLayers = 999

// logicalBatch is llama.cpp's n_batch, 2048 by default: the most tokens submitted at once, cut into n_ubatch each.
func logicalBatch(c tuner.Config) int { return max(2048, c.Prefill.Batch) }
