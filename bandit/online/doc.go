/*
Package online chooses among a few proven settings while a service runs, and keeps looking whether another one has become
better.

# Basics

	c := online.New(online.Options{Arms: arms}) // arm 0 is the incumbent
	choice := c.Choose(online.Context{Batch: 1, Load: 0.3})
	// serve the request with arm choice.Arm
	c.Report(choice, nanosecondsPerToken)

Each context (batch to a power of two, quarter of load) learns apart. An arm's cost is kept as its logarithm
relative to a baseline, which follows the incumbent's latest requests: a burst that slows every arm slows the baseline
too. What was seen fades with Options.Memory, so that drift is noticed.

Which arm may be better is drawn from what is believed of each (Thompson, Biometrika 1933; a discounted posterior after
Raj & Kalyani, 2017). Four bounds keep the service safe: at most Options.Share of a context's requests go to another arm
than its incumbent, counted from the start; only an arm whose cost is within Options.Loss of the incumbent's at the
pessimistic end of what is known is tried; three reports in a row beyond that loss, or one failure, suspend an arm; and where
the tries of a context cost more than the loss on average, it tries nothing for a while, then for twice as long.
An arm takes the incumbent's place when it is faster by three standard deviations.

# What it achieves

Regret over 40,000 requests of a simulated service, in requests' worth of its best arm, the mean of 5 seeds; "fixed" is
the best single arm in hindsight, "untouched" the incumbent for ever. TestRegret plays it.

	service                                        ours  epsilon-greedy  UCB1  random  fixed  untouched
	the incumbent is the best                        47             265  1005    2597      0          0
	all alike                                         1               3    10      10      0          0
	another is 6 % better under this load            79             201  1049    1980      0       2553
	another is 15 % better, reports with spikes     128             506  1042    5032      0       7059
	bursts                                           80            1102   835    3695      0          0
	bursts, another is 10 % better                  127            1979  1044    3692      0       4444
	the incumbent slows by 20 %                      36             845  1266    2160    600       3301
	the same amid bursts, reports with spikes       695             938   992    2160    600       3301
	the best changes twice                           53            1201  1264    2361   2000       2000
	an arm collapses                                222            1032  1129    5770    412        412

Of these requests at most 0.12 % went to an arm more than 10 % slower than the best and than arm 0. A request costs
0.3 µs for choosing and reporting together, and allocates nothing.

# Caveats

The share is of requests, not of their time. An arm that is slow by much costs more time than its share before it is
suspended, three requests at a time.

An incumbent that fails three times in a row is suspended, and another serves, whatever it is known to cost. One that fails
now and then stays.

The incumbent itself may become slow. Nothing bounds that but how soon another is proven better: with the figures above
and 10 % of noise a slowdown of 20 % costs some 40 requests' worth.

Costs are compared within a context: report the same unit always.

# Decisions

2026-11-21: Thompson sampling under a saved-up share, not UCB: of the arms that could be better it tries the likely ones,
and what quiet times save is spent when something changes. UCB1 tries every arm for ever.

2026-11-21: When the incumbent's cost steps away from what was usual, what was seen of the other arms is taken back to a
sample each, and a pause of the breaker ends. Fading alone took 2,000 requests to give up a belief that had become wrong.
The price is some tries after each burst, within the share.

2026-11-21: The baseline follows the incumbent instead of the load being modelled: no feature of a service tells all of
what slows every request.
*/
package online
