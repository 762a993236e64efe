// Package replay lets the strategies of package bandit search recorded spaces, so that they can be compared offline.
//
// # Basics
//
//	table, err := replay.Read("gemm", file)            // a Kernel Tuner cache or T4 results
//	scored, err := replay.Score(table)
//	result, err := scored.Play(ctx, "auto", seed)      // the score, curves, and evaluations until near the optimum
//
//	loaded, err := replay.Load(ctx, paths, workers)    // files and directories
//	x := replay.Experiment{Tables: loaded.Tables, Strategies: bandit.Names(), Seeds: 100, Workers: 2}
//	results, err := x.Run(ctx)                         // what was complete, also where ctx ended it
//
// A table answers as a target would: a failed configuration fails again, and one that was not recorded is refused. The
// clock is virtual. One evaluation costs what it cost when it was recorded: compilation, verification, all samples, the
// framework and the searcher of that time.
//
// Spaces of this project's own are recorded sample by sample, because one sample of them is noise:
//
//	tables, err := replay.ReadSamples(file)            // experiments/2026-11-bitnet-spaces
//	live, err := tables[0].Live(seed)                  // half of the samples answer, the other half judge
//	run, err := live.Search(strategy, seed, 40, 160)   // as the live tuner searches: where it stood after each point
//
// # Caveats
//
// The recorded time of a point is taken as the truth, and told as one sample of which one is enough; its noise is in
// Samples.
//
// What a table says of a parameter is its name and values. Numbers are taken as ordered, unless they look like codes
// (0, 1, 2, …); text and truth values are not. That a combination is valid means that it was recorded.
//
// A result keeps the curves of a run at 101 places each, so that memory does not grow with the length of the runs; steps
// between two places are not seen.
//
// # Decisions
//
// 2026-11-21: an experiment goes seed by seed, and within a seed takes the longest runs first, by what they took so far.
// All runs of the longest first would end a few seconds earlier, but an experiment that is ended early would know nothing
// of the quick ones.
//
// 2026-11-21: a table is not a target of package tuner. That one measures pairs of subjects on a clock and knows the
// kernels of this project; a recorded GPU space has neither. What both share is the ask and tell of the strategies,
// and that is what is under test.
//
// 2026-11-21: samples have a format of their own, a JSON object per line, and not that of Kernel Tuner's caches: each is a
// ratio to a yardstick of the same moment, which that format has no place for, and lines can be appended while a sweep
// goes on. [Samples.Table] gives what is left for a replay without noise.
//
// 2026-11-21: the samples of a point are split between search and judge. With the same ones for both, a search that asks
// a point often enough knows the judge's truth, and a lucky point is as good as it looks.
package replay
