package device

import (
	"cmp"
	"slices"

	"github.com/rs/zerolog"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// Decision is how a model should be run on a host, before anything was measured with it.
type Decision struct {
	Strategy Choice[Strategy] `json:"strategy"`
	// Device is the id of the GPU that was selected; nil where none is used.
	Device  *Choice[string] `json:"device,omitempty"`
	Threads Choice[int]     `json:"threads"`
	// GPUMemoryFraction is nil where no GPU is used.
	GPUMemoryFraction *Choice[float64] `json:"gpu_memory_fraction,omitempty"`
	// Batch is how many sequences to serve at once.
	Batch Choice[int] `json:"batch"`
	// WorkspaceBytes is what the matmuls work in; WorkspaceTokens is for how many tokens at once that is.
	WorkspaceBytes  Choice[uint64] `json:"workspace_bytes"`
	WorkspaceTokens int            `json:"workspace_tokens"`

	// Defaulted names the facts and needs that were unknown and taken from a default, so that the answer is cautious.
	Defaulted    []string     `json:"defaulted"`
	Warnings     []string     `json:"warnings"`
	Facts        Facts        `json:"facts"`
	Requirements Requirements `json:"requirements"`
}

// decision is a Decision in the making.
type decision struct {
	Decision
	opt  Options
	c    Constants
	log  zerolog.Logger
	card *Card // the selected GPU
	// basis is that of the cores: they are probed, unless nothing is known of them.
	basis Basis
}

// Decide answers for a host, its GPUs and what a model needs (see Constants.Require). A zero host is one that could not
// be analysed: the answer is cautious then, and says so. It measures nothing. Errors are for options that make no sense.
func Decide(h probe.Host, s gpu.Survey, r Requirements, opt Options) (Decision, error) {
	if err := opt.Validate(); err != nil {
		return Decision{}, err
	}
	d := decision{opt: opt, c: opt.constants(), log: zerolog.Nop()}
	if opt.Log != nil {
		d.log = *opt.Log
	}
	var defaulted []string
	d.Facts, defaulted = look(h, s, d.c, opt.memory(), opt.Measured)
	d.basis = Probe
	if slices.Contains(defaulted, "cores") {
		d.basis = Estimate
	}
	d.Requirements = r
	d.Defaulted = append(append([]string{}, defaulted...), r.Defaulted...)
	d.Warnings = []string{}
	for _, name := range d.Defaulted {
		d.log.Warn().Str("unknown", name).Msg("device: unknown, a default is taken")
	}
	over := opt.Overrides
	if opt.Off {
		d.fixed()
		insist(&d.Strategy, over.Strategy)
	} else {
		d.strategy()
		d.threads()
		d.batch()
	}
	insist(&d.Threads, over.Threads)
	insist(&d.Batch, over.Batch)
	d.fraction() // for the batch that holds, and the workspace beside both
	d.workspace()
	insist(&d.WorkspaceBytes, over.WorkspaceBytes)
	return d.Decision, nil
}

// fixed is the configuration of callers that want no intelligence.
func (d *decision) fixed() {
	const reason = "fixed: nothing was looked at"
	d.Strategy = Choice[Strategy]{Value: CPUOnly, Reason: reason, Limit: LimitNone, Basis: Estimate}
	d.Threads = Choice[int]{Value: d.c.FixedThreads, Reason: reason, Limit: LimitNone, Basis: Estimate}
	d.Batch = Choice[int]{Value: d.c.FixedBatch, Reason: reason, Limit: LimitNone, Basis: Estimate}
}

// warn tells of a doubt with the answer, and logs it.
func (d *decision) warn(text string) {
	d.Warnings = append(d.Warnings, text)
	d.log.Warn().Msg("device: " + text)
}

// insist puts the caller's word in place of a choice, unless it is zero. What the rules said stays in the reason.
func insist[T comparable](c *Choice[T], word T) {
	var zero T
	if word == zero {
		return
	}
	reason := cmp.Or(c.Reason, "the rules have no answer")
	*c = Choice[T]{Value: word, Reason: "overridden; else: " + reason, Limit: LimitNone, Basis: Estimate, Overridden: true}
}
