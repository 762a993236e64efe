// Package score says how good a search of a recorded space was, compared with random search.
//
// # Basics
//
//	space, err := score.New(times, costs)     // of all points
//	p := space.Score(run)                     // 0 = random search, 1 = knows the answer
//	best := space.Best(run, space.Clock(101)) // the curve of a run, over the time that is scored
//	n := space.Within(run, 0.05)              // evaluations until within 5 % of the optimum
//
// A score is the mean, over the time in which random search goes from 1 % to 95 % of the way from the median to the
// optimum, of how much of random search's distance to the optimum a run has saved. The score of a strategy is the mean
// over seeds, then over spaces. It follows Willemsen et al., "A methodology for comparing optimization algorithms for
// auto-tuning" (2024).
//
// # Caveats
//
// A run that is worse than random search scores below 0, and there is no floor: one that sits at the median while
// random search is near the optimum may lose more on one space than it can win on ten.
//
// Random search's expected best is that of draws with replacement among the valid points, each of median cost. Real
// random search meets failures, too, and scores a little below or above 0.
//
// # Decisions
//
// 2026-11-21: the number of draws at a time is the time divided by the median cost, and is not rounded down: the
// baseline then has no steps where the clock passes a draw.
//
// 2026-11-21: the median cost is that of all evaluations, failed ones as well, for random search pays for them.
package score
