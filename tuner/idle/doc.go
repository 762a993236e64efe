/*
Package idle decides when a background tuner may use the machine: it reads how busy the machine is, says why not, and keeps
account of the CPU time that was spent.

# Basics

	gate := idle.Gate{Rules: idle.DefaultRules}
	gate.Look(idle.Local(time.Now()), 0)         // every second or so
	if why := gate.Admit(time.Now()); why == "" { // quiet for the whole of Rules.Quiet
		settle, err := ledger.Reserve(20 * time.Second) // CPU time, out of the day's budget
		// … measure …
		err = settle(used)
	}

	pace := idle.Pace{Share: gate.Rules.BurstShare}
	if gate.Light() != "" && !now.Before(pace.Next()) { // somebody would feel it: one burst
		// … measure for some 10 ms …
		pace.Worked(end, end.Sub(now))
	}

A Reading is what the counters of /proc and the cgroup say at one moment, a Usage what happened between two. Own CPU time is
told to Look and taken out, so that a tuner does not keep itself away.

# Caveats

The counters of /proc/stat advance in ticks of 10 ms, so a Usage of 60 ms on two CPUs is known to a twelfth of the machine.
In a container they are the whole machine's, which is what shares caches and memory with what is measured.

In ticks, too, somebody who uses less than Rules.Idle of the CPUs cannot be told from the machine's own housekeeping: he is
taken for nobody, and met.

A fact that the machine does not tell (no PSI, no battery, no quota) keeps nobody away, and is named in Reading.Unknown.

# Decisions

2026-11-21: The budget is that of any 24 hours, kept as hourly charges, and not of a calendar day: at midnight two days'
budgets would meet. A charge from the future, after the clock was set back, counts as made now. A clock set ahead by a day
forgets what was spent: one budget too many for each such jump, where the road not taken, a budget tied to a date, would
keep the tuner away until the clock reaches that date again.

2026-11-21: CPU time is reserved, on disk, before it is used and settled afterwards. Who is killed in between has spent
all that was reserved; so a tuner that dies and is restarted in a loop stays within its budget.

2026-11-22: Beside a service a tuner is bounded by the share of the time that it works, not by how it works. Whatever a
request suffers that meets a burst, with bursts of a thousandth of the time hardly more than a thousandth of the requests
meet one, and a p99 moves to what p99.1 was at the most. The road not taken is to make meetings harmless: caches and memory
bandwidth are shared whatever the priority. The price is time: a minute of work takes 17 hours.

2026-11-21: One tuner to a host is a lock on a file in /run/lock: the kernel drops it with the process, however that ends.
An abstract socket would leave no file, but is one to a network namespace, and so one to a container.

2026-11-22: Of a GPU the most that any look of the quiet time saw counts, and not what it is used now: one that serves batches is idle
between two of them, and NVML's figure is of a sixth of a second to a second.
*/
package idle
