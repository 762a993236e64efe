// Package report says in tables and plots which search strategy was best on recorded spaces.
//
// # Basics
//
//	x := replay.Experiment{Tables: tables, Strategies: bandit.Names(), Seeds: 100, Workers: 2}
//	results, err := x.Run(ctx)
//	r := report.New(&x, results, time.Since(started))
//	r.Board.WriteText(os.Stdout)    // or WriteMarkdown; its JSON is the contract of the verb replay
//	err = r.WriteHTML(file)         // one page with all plots, which needs nothing else
//	for _, f := range r.Figures() { // the same plots, one by one
//		err = f.WriteSVG(file)
//	}
//
// The plots are: the score of every strategy on every space; the score over the time, all spaces together; and of each
// space the best so far against evaluations and against virtual seconds, mean and 10 to 90 % of the runs, and the
// landscape along the two parameters that explain most.
//
// # Caveats
//
// The results of an experiment that was ended early make a report, too. A mean is of the runs that ended; a strategy that
// was not played on every space has no score, for means of other spaces do not compare.
//
// The mean of a few runs that are far off may lie outside the band of the middle 80 %.
//
// A curve is kept at some hundred places (package replay), less than a kilobyte a run, whatever the length of the run.
//
// # Decisions
//
// 2026-11-21: gonum.org/v1/plot draws all plots: it is there for the roofline of bench, and one drawing serves SVG, PNG and
// the page. The road not taken, a plotting library of JavaScript in the page, shows what the mouse points at in more ways,
// but the page would need a script of megabytes, or the network.
//
// 2026-11-21: on the page the colours of an SVG become variables of its style sheet, and lines, bands and cells get titles,
// by rewriting what the canvas wrote. It writes one path a line or area, and a test holds it to that. The road not taken is
// a canvas of our own.
//
// 2026-11-21: a curve shows by how much the best so far exceeds the optimum, on a logarithmic scale that ends at 0.1 %:
// the last percent is what searchers differ in, and times in milliseconds do not compare between spaces.
//
// 2026-11-21: tables have a row for each space and a column for each strategy: there may be many spaces, and their names
// are long.
package report
