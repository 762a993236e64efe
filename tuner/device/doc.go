/*
Package device decides how a model should run on a host before anything was measured with it: where, with how many
threads, with which share of a GPU's memory, batch and workspace.

# Basics

Constants.Require says what a model needs: bytes of its weights, cache and activations, operations and bytes of a token.
Decide puts that beside the facts of a host and its GPUs:

	needs := device.Defaults.Require(m, device.Use{Context: 4096})
	decision, err := device.Decide(host, gpus, needs, device.Options{})

Every answer has a reason, the resource that limits it, and a basis: an estimate is a formula or a default, a probe was
read from the host, its driver or the model's file, and what is measured was timed here.

The strategy is by the first rule that matches. GPU only: a usable GPU has available what the model and its working
memory take, and it is judged faster than the CPU (a model of 1 GiB, or 1000 operations for a token, or no more than 8
cores). Hybrid: otherwise, if there is a usable GPU, memory holds all of it, and the model has more than 4 GiB. CPU only
otherwise.

Threads are one for each physical core that may be used, less what the load takes, and no more than memory can feed
where the need is known; 2 feed a GPU. The batch is the largest of {1, 2, 4, 8, 16}, or of those that the model prefers,
whose working memory takes less than 80 % of what is available, with room for the model beside it. The share of a GPU's
memory is what that batch requires over 0.9 of the total, from 0.10 to 0.95. The workspace is that of package
cuda/memory on a GPU, and what the kernels state on a CPU.

Each number in these rules is a field of Constants, which can be replaced through Options.Constants; each answer can be
through Options.Overrides, and is marked then. What was measured before (Options.Measured) replaces estimates and rules,
and an override replaces that. Options.Off gives the fixed configuration: CPU only, 4 threads, batch 1.

# Caveats

Available is less than free: cuda/memory keeps a tenth of a GPU's total in reserve.

A batch here is sequences served at once. How many tokens of a prompt a matmul takes at once is WorkspaceTokens.

Any language model takes more than 1000 operations for a token, so that R0.11 judges every GPU faster. It is a rule for
models that are much smaller.

The load is probe's: a load average, which lags by a minute and counts what this process did in it. A machine on which a
benchmark has just ended looks busy.

Working memory is estimated, and rather too high: it has the scores of all heads in float32, which engines with flash
attention do not keep.

The rules give one number of threads to all cores alike. A hybrid CPU's efficiency cores count as cores.

# Decisions

2026-11-21: github.com/rs/zerolog logs the choice and its terms, because the requirements ask for it; without
Options.Log nothing is. The road not taken, slog, would be a second format on the command's stderr.

2026-11-21: needs are computed from dimensions. Model memory: ternary weights in the layout, embedding, head where it is
not tied; norms are left out, which are less than a thousandth. Working memory, of each sequence: the cache in f16 and
the activations of 512 tokens in flight (see working). Operations: 2 for each weight, and 4 x heads x width for each
token of the context. The road not taken is a table of sizes for each model, which would know no file.

2026-11-21: load that keeps less than one core busy takes no thread. Rounded down as R0.21 has it, a load average of 0.02
takes one of two cores from an idle host, and half its speed.

2026-11-21: R0.22's need for bandwidth is that of a thread, since it divides the bandwidth into threads. It is unknown
unless somebody timed one thread: what one draws is the least predictable number of all, and rounding the quotient down
leaves up to half of the bandwidth unused. A learned curve of threads says more, and beats the rule.

2026-11-21: the model has to fit beside the working memory of its batch. R0.27 alone fills four fifths of the memory with
working memory, whatever the model takes.

2026-11-21: the memory fraction is for the batch that is advised beside it. R0.25 with the working memory of one sequence
would advise a batch and too little memory for it.

2026-11-21: a hybrid needs a GPU that can be used, and takes the one with the most memory available. R0.12 asks only that
one is listed, and R0.10 has selected none at that point.

2026-11-21: nothing is invented for an unknown host: one core, batch 1, no GPU. The road not taken, a typical host, would
be a confident answer to an unknown input. An unknown model has the needs of BitNet b1.58 2B4T.

2026-11-21: a strategy that the caller cannot run is passed over, with a reason that says so, rather than advised: the
answer is meant to be run. An override can still ask for it.

2026-11-21: the fixed configuration has 4 threads also on a host of 2 cores: it is what callers had before, unchanged.
*/
package device
