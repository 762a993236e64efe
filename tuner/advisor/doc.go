/*
Package advisor turns facts, measurements and the configuration in use into ranked advice. It changes nothing by itself.

# Basics

	a, err := advisor.New(advisor.Options{})
	report := a.Advise(advisor.Context{Host: host, Current: advisor.Settings{"threads": "8"}})
	report.WriteText(os.Stdout)

A rule takes a Context and returns at most one Suggestion. The built-in ones are a file and a row each (rules.go); others
come in through Advisor.Add under an id that begins with "custom/". What a rule needs and the context lacks is told in
Report.Skipped, so that an empty report explains itself; a rule that fails or panics is told in Report.Failed and stops no
other.

What a suggestion is expected to bring is an estimate with its source, until this host has measured it: Context.Evidence
then takes its place, with the interval and the runs that hold the samples, and grades the impact. A change that brought
nothing here is not suggested again.

# Caveats

The figures of Defaults are nobody's promise. Most stand as the rules were given to us; each has its source in a tag.

A suggestion with a Change is about a knob that the tuner can measure, and Measure names the command. All other advice is
outside the tuner's reach.

Advice without a figure (Options.Further) is of low impact by decree.

# Decisions

2026-11-21: the settings in use are text by name, and a name that is not given is unknown, never a default: a rule that
guessed how many threads run would advise against what nobody does.

2026-11-21: a rule says itself what it lacks, by an error, instead of listing its needs in its row: which part it needs
often depends on another part, and custom rules say it the same way.

2026-11-21: a measurement grades the impact, also of what a rule calls critical for want of one. Only the rule against
wrong results stays critical: no speed makes up for them. The road not taken, critical for ever, would cry wolf on hosts
whose engine loses nothing.

2026-11-21: what was measured with this program's own kernels is no evidence of another engine (the setting "engine"): it is
told beside the estimate and does not replace it. Two threads under a quota of one CPU are as fast as one where workers
park, and lose twenty times where more of them spin than there are CPUs.

2026-11-21: a quota is rounded down, and advice against the one thread above it is of low impact: with workers that spin and
a quota of 1.5, 2 threads made 1.4 times the tokens of one, while with a quota of 1 they made 0.86 times. Whether the part
of a CPU is worth it only a measurement tells.

2026-11-21: impact goes by the estimate of a range, the greatest among its figures. The low end would call nearly all
advice low, the high end nearly all of it high.

2026-11-21: exactly 10 and exactly 30 % are medium (R2.6 leaves it open).

2026-11-21: the open triggers (R2.20). Many small operations: more than 200 in a pass, and more than half of them under
15 µs by a profile or under 2^19 weights by a graph. Suitable for flash attention: compute capability 8.0, what
FlashAttention-2 runs on. High memory use: a peak from 80 % of the memory on.

2026-11-21: the ids that are silenced come from the caller, which for the command is a flag that its config file can hold.
The road not taken is a list in the store, which a verb that only reads may not write. An id with a digest is silenced only
while the advice stays the same.

2026-11-21: github.com/santhosh-tekuri/jsonschema checks, in tests only, that reports follow the schema. It implements all
of draft 2020-12; walking the schema with code of our own would test our walker.
*/
package advisor
