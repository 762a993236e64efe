// Package measuretest is a host with invented noise on a virtual clock, to try on it whatever decides under noise.
//
// # Basics
//
// [New] makes a host from a seed and kinds of noise; [Simulator.Arm] gives a measure.Subject of known true cost on it,
// [Simulator.Timer] a measure.Timer that watches its counters:
//
//	host := measuretest.New(seed, measuretest.SharedHost()...)
//	base := host.Arm("base", 105*time.Microsecond)
//	cand := host.Arm("cand", 100*time.Microsecond) // truly 5 % faster
//	c, err := host.Timer(seed).Compare(ctx, base, cand, measure.CompareOptions{MinGain: 0.01})
//
// No real time passes: a comparison of 40 blocks takes some tens of microseconds, so a test can afford thousands of
// seeds. [Models] lists the hosts that a decision procedure should survive.
//
// # Caveats
//
// Noise multiplies or delays; it never depends on which arm runs, but for [WarmUp]. Real interference that hits one
// candidate only (a cache conflict, a bad alignment) is part of that candidate's cost and is not noise.
//
// # Decisions
//
// 2026-11-21: Noise acts on the shared clock, not on each arm by itself. Independent noise per arm would have been
// simpler, and would have shown nothing of what drift and bursts do to measurements that are not paired.
//
// 2026-11-21: A kind of noise is a function, not a type of an interface: it composes by listing, and a test can invent
// its own in one line.
package measuretest
