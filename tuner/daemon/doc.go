/*
Package daemon tunes models in the background for as long as a host runs: it learns what is not known, checks now and then
what is, and takes back what has become worse.

# Basics

	d, err := daemon.New(daemon.Options{Tuner: t, Store: dir, Models: models, Child: []string{self, "step", "--store", dir}, Log: log})
	err = d.Run(ctx)            // until ctx ends
	state := d.State()          // a snapshot, at any time
	events, stop := d.Subscribe()

Run waits until the machine is idle (package idle), reserves CPU time of the day's budget and lets a child process run one
step: a Tune of some seconds, which goes on from what earlier steps recorded, or a check of what was learned against the
default. The child has the lowest priority and a cap on its memory, and is killed, by its own id, when load arrives, when it
hangs, and when it takes more memory or CPU time than it was given. A child that crashes costs a step.

A child works without rests only for as long as nobody else works (Rules.Idle). Otherwise it works in bursts: it asks the
daemon before each, over a pipe, and is let begin when the bursts before have been paid for with rests (Rules.BurstShare), the
host has been quiet enough for Rules.Quiet, and nobody runs at that moment. When a service comes or goes, the same child goes
on the other way. Its time is the time that it works.

Every check is kept, the last 170 of a model (Checks). What shows the daemon begins in Options.Ready, so that a second daemon of the
host takes no port from the first.

The checks of a model feed a Detector and a Rate for each regime. When the ratio to the default has fallen, the model is tuned anew
if it still beats the default, and else rolled back; when both have become slower, it is tuned anew. Every such change is one line
that says what and why.

A knob that an operator has pinned stays as it is and the others are tuned; a model whose whole config is pinned is left alone. An
operator's own tune goes before the daemon's steps.

# Caveats

A step that is killed loses the arm that it was measuring and nothing else; but a step begins with making the weights, so on
a host that is never idle for the length of a step nothing is learned.

A child has the machine's caches and memory bandwidth in common with everybody, whatever its priority. It is kept harmless by
being away, not by being nice. Even SCHED_IDLE may keep its CPU until the next tick, up to 4 ms, where the kernel does not
preempt it for who wakes up; so the workers of a child give up their CPUs every 0.2 ms while they measure
(experiments/2026-11-background). While they make weights they do not.

A child that rests holds its memory: no more layers than are needed for them to be read from memory, and no more than
Options.Memory. It gives way when others wait for memory (PSI), when a burst has been due for an hour and could not begin, and
when an operator changes something (a minute later at the most, where he does so from the command line) or tunes himself; what it
measured is kept, its set-up is not. The other models wait for their turn.

On a host where some process always runs, a burst that may only begin while nobody runs never does, though others use less of the
CPUs than the rules allow: nothing is learned there but what the first burst of each step brings.

A burst is as long as what cannot be divided: 25 ms and one block, which for prompts of a model of 0.7 G weights with the
default kernel is half a second. The rest after it is as much longer.

How busy a GPU is, is known before a step and not during one: NVML does not tell whose work it is, and of a MIG instance nothing.

Nothing of the system's state is touched: no governor, no clocks, no cgroup. What could be left behind by a kill is a child,
and the budget that it had reserved. The kernel ends the child with the daemon; the journal is for where it does not.

# Decisions

2026-11-22: When to rest is the daemon's decision, and the child asks. The road not taken, a child that paces itself, needs all
the rules in two places, and nobody would hold it to them.

2026-11-21: A child is killed at once and not stopped and continued. One that is stopped holds its memory, a sample that spans
the pause is worthless, and it may hold the lock of the store. The history is made to survive kills.

2026-11-21: The priority is that of the thread which starts the child, inherited over fork; the thread ends with the child.
Lowering it in the child would leave the threads that the Go runtime has started before.

2026-11-21: The cap on memory is RLIMIT_DATA, which counts what can be written, and not RLIMIT_AS, which counts the address
space that the Go runtime merely reserves.

2026-11-21: A single check never rolls anything back, unless the results are wrong: its interval errs once in a hundred, and
checks go on for years. The statistic is Page's CUSUM (1954) on the logarithm of the ratio, see Detector.

2026-11-21: Nothing is rolled back because the daemon ends: that was the cause of outages elsewhere (OCPBUGS-13065).

2026-11-22: Beside the ratio to the default, the time that the learned setting takes is watched (Rate): a new microcode or
neighbour slows both. How much it scatters from check to check no interval of one check tells, so that is learned from the
checks. Less than 5 % is no news, each condition of the host and each pace of a child has a Rate of its own, and the consequence
is a tune, never a rollback: the default is no better. On ten invented hosts 10,000 quiet checks each give no alarm, and a
slowdown of both by a fifth is noticed by the fourth.

2026-11-22: Whether an operator waits for the store is seen by the looks at the child, 50 a second while it works and one while it
rests, and a run is patient for two seconds. The road not taken is a goroutine that wakes the daemon ten times a second for hours.

2026-11-22: A check whose child changed its pace midway tells its ratio and no Rate: its time is neither that of the one pace nor of
the other.

2026-11-22: A child is run from /proc/self/exe. After an upgrade of the package the file is another build, with another kernel table;
what it published was no answer to the daemon, which tuned for ever.
*/
package daemon
