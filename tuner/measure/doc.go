// Package measure times things honestly: it says how much faster one is than another, how sure that is, and when
// it cannot tell.
//
// # Basics
//
// A [Subject] is anything that can run n times and say how long it took. A [Timer] warms it up, then takes samples:
//
//	timer := measure.Timer{Watch: measure.Local()}
//	floor, err := timer.NoiseFloor(ctx, base, 0)
//	c, err := timer.Compare(ctx, base, cand, measure.CompareOptions{MinGain: 0.01, NoiseFloor: floor})
//	verdict := measure.Decide(c, 0.01, floor) // ADOPT, KEEP_DEFAULT or INCONCLUSIVE
//
// Five ideas make the answer one to rely on.
//
// Warm up until it is steady. A sample is as many iterations as last 1 ms. Rounds of samples, each twice as long as the
// last, are run until one is less than 5 % faster than the one before.
//
// Pair. The two subjects take turns in blocks, base-candidate-candidate-base or the mirror of it, by the fall of a
// coin, and each block gives one log ratio. What slows the whole machine slows both; a drift that is linear over the
// block cancels. And since a coin decides who gets which slot, equal subjects have log ratios that are symmetric about
// 0 whatever the noise is, even if its bad moments come in company: that is a property of the design (Fisher, The
// Design of Experiments, 1935), not an assumption about the machine. This is also duet benchmarking (Bulej et al.,
// ICPE 2020), taken in turns.
//
// Let no sample weigh much. A block counts by the rank of its distance from the centre, and the far 60 % count alike:
// the signed-rank test with winsorised scores, whose interval needs that symmetry and nothing more (see [Estimate]).
//
// Pay for every look. Compare may stop at a quarter, half and three quarters of its blocks. Its intervals are wider for
// it, by just so much that all looks together err no more often than one would (Lan & DeMets, 1983).
//
// Censor what the host admits. A block during which the CPU quota ran out or the hypervisor took the CPU is kept aside
// and repeated: it says something of the host, not of the subjects. Contention with other processes is not censored:
// pairing copes with it, and whoever deploys the result will have it too.
//
// # What it achieves
//
// On the invented hosts of package measuretest. "Equal, 1 %" is how often a candidate that is no faster is adopted when a
// gain of 1 % is asked for, "equal, any" when any gain will do, "exactly 1 %" how often one is adopted that has just
// the gain asked for: 20,000 runs each, each at most 2.5 % by design. "Truly 5 %" is how often such a gain is adopted,
// with the noise floor taken into account, in how many blocks of at most 40 on average (500 runs); "width" half of the
// 95 % interval with 20 blocks.
//
//	host         equal, 1 %   equal, any   exactly 1 %   truly 5 %   blocks   width
//	quiet           0.00 %       2.4 %        2.3 %       100.0 %      10     0.27 %
//	jitter          0.03 %       2.5 %        2.3 %       100.0 %      16     1.62 %
//	spikes          0.02 %       2.6 %        2.5 %        99.6 %      20     1.96 %
//	drift           0.00 %       2.3 %        2.6 %       100.0 %      12     1.07 %
//	bursts          0.01 %       2.3 %        2.4 %       100.0 %      15     1.26 %
//	warm-up         0.00 %       2.5 %        2.4 %       100.0 %      12     1.09 %
//	throttled       0.01 %       2.4 %        2.4 %       100.0 %      12     1.08 %
//	stolen          0.00 %       2.4 %        2.5 %       100.0 %      13     1.15 %
//	bimodal         0.20 %       2.6 %        2.5 %        81.2 %      30     3.63 %
//	shared host     0.06 %       2.5 %        2.4 %        98.2 %      23     2.58 %
//
// What the alternatives do there, on the shared host unless another is named:
//
//   - All samples of base, then all of cand, instead of pairs: 6 times the error; 23 times under drift.
//   - The ratio of minima, on the host with spikes: 50 times the error, and no better for more samples.
//   - Looking after each block at an interval meant for one look: 11 % false alarms instead of 2.5 %.
//   - Judging the best of eight equal candidates by the blocks that made it best: 11 % instead of 2.5 %.
//   - Intervals from 40 blocks: ours ±1.33 %, 20 % trimmed mean ±1.46 %, Wilcoxon ±1.90 %, mean ±4.2 %.
//
// The Study tests measure all of it again, with fewer runs.
//
// # Caveats
//
// A race that picks a winner among many has seen the winner lucky. Race with [Timer.Pair], then put what is left to
// [Timer.Compare], which always takes fresh blocks; and if several finalists are each given a chance to be adopted, the
// chances of a false alarm add up: ask each for a Confidence of 1 - 0.05/finalists.
//
// A Comparison that stopped early because the gain looked large overstates it a little. Its interval is honest.
//
// The bound of 2.5 % is half of 1 - Confidence. The much lower rates at a minimum gain of 1 % hold where the interval is
// not much wider than that gain; on a host noisier than these, raise Confidence.
//
// The interval covers the noise of this run on this host: not another boot, another address layout, another day.
//
// A slow candidate runs longer and is censored more often, so the quota of a throttled host falls on the two unequally
// where they differ much. The fault is on the safe side: the blocks that count are those in which both ran unhindered.
//
// Steal is told in ticks of 10 ms, ten samples long. A tick is taken as spread over the time since the tick before, so
// only steady steal above MaxSteal is censored, the first tick never; a single theft is left to the robust centre.
//
// Warming that is slower than the rounds, less than 5 % from one to the next, passes for steady. It is drift then, and
// cancels as far as both subjects share it.
//
// # Decisions
//
// 2026-11-22: A run may be paced (see [Pacer]). It rests between blocks and between other slices of work, never within a
// block, so that pairs stay pairs. The pacer travels in the context, because weights are made and results verified by code
// that knows no Timer. The road not taken, stopping the process from outside, needs no co-operation, but a sample that
// spans a stop has to be found and dropped.
//
// 2026-11-21: Signed ranks with winsorised scores. One bad sample in 16 spoils a quarter of the blocks, near the
// breakdown point of Wilcoxon's test (0.29), whose interval is then half as wide again. Trimmed means with Student's t
// (Tukey & McLaughlin, 1963; Yuen, 1974) are nearly as narrow, but their coverage is an approximation, and at the 99.7 %
// of a first look nobody knows how good a one. The minimum, and the mean of the fastest few, reward luck.
//
// 2026-11-21: A fair coin for every block, not strict alternation or equal shares: only independent coins make the
// rank distribution exact. Balance would gain next to nothing, as each block is balanced in itself.
//
// 2026-11-21: The power family with exponent 2 for spending alpha, not O'Brien and Fleming's: theirs leaves nothing that
// ten blocks could prove by ranks, and most candidates in tuning are far better or far worse. Nor a confidence
// sequence, valid at every block: it is wider at the end, and nobody needs to look that often.
//
// 2026-11-21: Pair.Result does not account for looks. A race looks as often as it likes; if it errs, the loss is a good
// arm and not a false claim, since only Compare certifies.
//
// 2026-11-21: Decide wants the measured gain above the noise floor, not the low end of the interval. The interval holds
// the noise of the blocks already; to ask that its low end exceed the floor counts the same noise twice, and on the
// shared host loses 5.5 % of the true 5 % gains instead of 1.8 %, more if the floor was measured in fewer blocks. And it
// keeps the base only where a gain of minGain is ruled out: with the floor as the mark, a noisy host would rule out
// what it merely cannot see.
//
// 2026-11-21: Unbounded intervals are (0, math.MaxFloat64), not infinity, because JSON has none, and not 0, because
// then High < 1 would read as proof that an unmeasured candidate is slow.
//
// 2026-11-21: gonum, in tests only, for Student's t and the binomial distribution. The two normal functions that the
// package itself needs are one line each over the standard library.
package measure
