/*
Package tuner finds, proves and remembers the fastest correct way to run a ternary (1.58-bit) model on this host.

# Basics

	t, err := tuner.Open(tuner.Options{Store: dir})
	defer t.Close()
	plan, err := t.Plan(ctx, "bitnet-b1.58-2b-4t")                      // at once, from what is known
	cert, err := t.Tune(ctx, "bitnet-b1.58-2b-4t", tuner.Budget{Time: time.Minute}) // measures

Plan answers from the published snapshot: pinned, else measured here, else derived for other limits, else learned on a
host like this one, else the heuristic. Its Reason says in one sentence why, and which part of the key missed.

Tune is a straight line. The host and the model make a Problem. For each regime (decode, small batch, prefill) rules cut
the space before anything is measured, the log of earlier runs is told to the strategy, and every arm it asks for is
verified bit for bit and then timed in interleaved pairs with the heuristic. The best of each layout, three arms at the
least where there is time for them, meet the default on fresh samples, the layout of the answer is chosen by these duels,
and the Certificate says ADOPT, KEEP_DEFAULT or INCONCLUSIVE with the ratio and its interval. What was proven is
published; an inconclusive run publishes nothing. A regime's verdict errs with at most 1 %.

Budget.Target says where. What a problem means there (its default, heuristic, knobs, rules and kernel table) is a domain: one
implementation for the CPU, one for CUDA; everything else of a run is the same. With target auto and a GPU both are tuned, their
answers are compared in pairs, and Plan answers with the GPU's config only where a run decided for it on this very card; a run that
decides nothing leaves what an earlier one decided. Without a GPU one line says why.

With Options.Fleet hosts of one class share what they learned. Tune begins with what the others know, lets one host of
the class tune at a time (Budget.FleetWait says how long the others wait), and offers its own result. Receive takes a
config without tuning: it is verified here bit for bit and compared with the default before Plan answers with it, as
near_host. Share offers what was learned before.

TuneEngine tunes a program that is not ours, PlanEngine says which flags it should have, ReceiveEngine and Share exchange that with
the fleet. LearnedConfigs lists what a store holds, for our own kernels and for engines.

Online lets a live service choose among the settings that a run proved, and learns from what they take while it serves:

	s := t.Online("bitnet-b1.58-2b-4t")
	defer s.Close()
	choice := s.Choose(tuner.Request{Tokens: 1, Load: 0.3}) // under a microsecond
	start := time.Now()
	// run the batch as choice.Arm says
	s.Report(choice, time.Since(start))

At most 5 % of the requests are tried on another setting than the one that serves (package bandit/online says how).

Compare is the A/B test of one change: the original and the changed config in turn, with an interval, remembered with why
it was asked. Known is what such a comparison, or the runs of Tune, have shown of a change.

Background tunes a model whenever the host is idle, within a budget of CPU time, and returns at once; package daemon does so
in child processes. Rollback makes the config that was certified before answer again.

# Caveats

A run of Background has the priority of the service around it, and stops within its next sample when load arrives. Where
somebody else works, or Busy was called lately, it works in bursts with rests between them (package idle says how long), for
hours, in which it holds its weights in memory. What the service does in this process shows as somebody else's only while
the run rests: so a service should call Busy. It ends, and gives the memory back, when another run wants the store, when
others wait for memory, when no burst could begin for an hour, and when an operator pins the model. The daemon's children
can be killed at once.

Rates are of the ternary matmuls alone. Attention, norms and the output head are not in them, and the head of most of
these models is larger than the ternary body.

The default arm is what bitnet.cpp's class of engine does (see Problem.Default). A host where the heuristic already is
the best shows a large gain over that default and none over the heuristic; the certificate lists both.

Costs are ratios to the heuristic and only comparable with the same heuristic and kernel table, so a record of another
kernel table or another heuristic (the limits of the container changed) is kept but not told to a strategy.

PlanEngine reads and hashes the first MiB of the model file at each call, 1 ms where it is in memory.

An answer from facts is for the load of the moment at which a Tuner first looked at the host: a service that starts on a busy
host decodes with few threads until it is restarted or tuned.

# Decisions

2026-11-21: The regimes are searched one after the other and not as one product space: no knob of one changes the cost
of another within a layout. The product of the three spaces has millions of points, the sum has hundreds.

2026-11-21: The layout of the weights is part of every regime's space, and is chosen once for all of them: a deployment
holds its weights once. The best arm of each layout duels with the default in every regime; a layout other than the
default's is taken only if it was proven better in every regime of the objective's request, serves that request at
least 1 % faster by the duels, costs no other regime more than that, and saves within an hour of serving what repacking costs. The road not taken, a copy of
the weights for decode and another for prefill, doubles the memory for what is at most a few percent of the request.

2026-11-21: Weights that fit the last-level cache are read once, untimed, before every sample: two layouts in turn would
evict each other, and a service that decodes token after token finds its weights where the token before left them.

2026-11-21: Where nothing was learned, the threads of decoding and of small batches follow the load (package device), those
of a prompt do not. With one core of two kept busy by another process, 1 thread decoded bitnet-b1.58-large 1.4 times as
fast as 2 (58, 60 against 44, 41 tokens/s in interleaved seconds of one run), since each matmul waits for the slower
thread; prompts were 1.0 to 1.2 times as fast with 2, and with two busy cores 1.3 to 1.6 times. The heuristic that
costs are ratios to stays free of load, or the log of a busy hour would be on another scale.

2026-11-21: A trial's cost is the ratio to the heuristic of the same few milliseconds, not a time. A time would carry the
host's drift into the comparison of arms measured seconds apart. Pairing with the default instead spent four fifths of
a prefill search on the default, which is 2.5 times slower per token here and runs batches of 512.

2026-11-21: Only fresh samples decide. The winner of a search is partly chosen by luck, so its own samples flatter it.

2026-11-21: The noise floor is reported and does not enter the verdict. The duel's own interval holds the noise of its
samples already; asking for a gain above the floor as well counted the noise twice and left 6 of 20 planted gains of 5 %
undecided on a simulated shared host.

2026-11-21: Among finalists that the duel cannot tell apart, what was proven before stays, else the strategy's order
decides, which rests on all evidence: the same host should mostly give the same answer (FlashInfer 4433 and TensorRT 4730
tell what happens otherwise). The roads not taken: the fastest of the duel, which is a coin toss inside the noise, and
the fewest differences from the default, which gives away real gains on a host too noisy to prove them.

2026-11-21: A run changes nothing that it did not decide. A regime without a verdict keeps what an earlier run proved
(the certificate carries that verdict on), else the heuristic. The first version gave it the default, so that an
interrupted run made the answer 2.5 times slower than no run at all.

2026-11-21: A run with fewer threads than the host has (Budget.MaxThreads) publishes nothing: its result holds for less
than this host. Pin it to use it.

2026-11-21: What a run measured at a noise floor above 15 % is not told to a later run that finds the host quiet, and the
heuristic takes part in every duel. Else one run on a loaded host (where one thread can beat two) decided all later ones.

2026-11-21: What was learned with another kernel table is passed over whole, not re-bounded: a kernel's revision can mean
that its results changed. What a host like this one learned is passed over if its kernels are narrower than this host's.

2026-11-21: An arm that ever gave a wrong result here is carried in the certificates and is no answer any more, from no
source: neither an earlier proof of it, nor the heuristic, nor a pin counts. Only another kernel table clears it. The
first version kept serving a proven arm whose later verification failed.

2026-11-21: What a site ships (Options.Prior) answers below everything in the own store, as near_host even where the
host is identical: it was proven on another machine. Importing it into the store would have made it "measured here".

2026-11-21: A config from a fleet is a hint. It must be possible here, give the right bits here, and not be proven slower
than the default here, in a third of a duel's blocks: no gain has to be proven, only a loss not to be missed. In a tune it
is an arm to begin with and a rival of the duel, and wins only as any other arm does. Which arms other hosts found wrong
is not believed either: it would let one host take arms from all.

2026-11-21: The class of a host in a fleet is its identity and how many cores may be used: a container with 2 of 64 cores
and the whole machine are two problems, which a bound on threads alone does not tell. What was learned under
Budget.MaxThreads is not shared.

2026-11-21: What was received is kept as a learned config with a field more in its envelope, "origin", so that it never
replaces what was measured here, nor one that was refused one that is in use. A refused one is kept so that it is not
checked twice: again only under other limits or another condition. The road not taken is a bucket of its own in the
history: a new format for what is a learned config in all but its origin.

2026-11-21: Whatever the fleet does, a run comes to the same certificate as without it, with one line more; so it is asked
between the steps of a run, and while measuring nothing runs but the renewal of the turn, a request every 8 s. The road
not taken is to watch it for the result of whoever has the turn, whose wake-ups would be in the samples. Waiting for another host comes before the budget and is off by default: it can be in vain.

2026-11-21: A changed condition (governor, microcode, kernel release, …) keeps the answer, doubles its interval on the
scale of logarithms and asks for a check (Plan.Recheck). Dropping the answer would tune anew after each kernel update;
keeping quiet would promise an interval that nobody measured. The factor is our choice, for want of a measurement.

2026-11-21: A run that begins with a proven config uses at most half of its budget. Told the log, the strategy has little
left to ask, but on a noisy host it can go on refining ties for ever.

2026-11-21: ObjectiveMixed weighs the regimes as one request of 512 prompt and 128 generated tokens. Small batches get
time and a setting, but no weight in the ratio.

2026-11-21: The GPU has to be proven faster than the CPU to be the answer: the CPU is on every host and needs no driver. A
split of the layers between both is not taken: a token passes its layers one after the other, so it takes the sum of both parts and
lies between them; where a card is too small for all layers, its time is reckoned from the measured rates and told.

2026-11-21: What was learned on a GPU is kept under target cuda with the card (name, capability, memory, driver) in the host's identity.
Another card is another host; another driver is a host like this one. The UUID is not in it: cards of one kind are alike.

2026-11-21: On a GPU, arms that a duel cannot tell apart are ranked by their workspace, the smaller first: its memory is what
models compete for. Weighing bytes against time in the cost itself would need an exchange rate that nobody knows.

2026-11-21: Plan opens the driver only where something was learned on a GPU: initialising it may take longer than all of Plan.

2026-11-21: A session chooses among the arms of the duel only, in the plan's layout: all are verified bit for bit on this
host, and none needs the weights packed again. A plan that was not measured here, and an operator's pin, leave one arm.
What sessions learn is kept in the history in regimes of their own ("online/…"), so that a run is never told it: a
service's requests are no paired blocks.

2026-11-21: What a run proved after a session learned serves first, and what the session knew of it and the others goes on as
evidence. The road not taken, that whoever served goes on serving, kept a service on the setting with which it began
before anything was measured.

2026-11-21: RunBench keeps the distinct matrices of one shape and layout once, for all kernels and residencies: a row
multiplies the first so many in turn. The first version held a set for each kernel, and a quick run of five layouts would
have filled memory for most of its 20 s. A row from a cache uses the fewest matrices that the caches before it cannot
keep, not the most that the cache holds: how much of an L3 a virtual machine has, nobody tells.

2026-11-21: The budget of a bench is planned with the pace of each kernel on one small matrix, dear rows are left out
first and decode rows from memory last, and what is left out is named. The road not taken, fewer samples for every row,
gives a table in which nothing has an interval.

2026-11-21: A decode row's limit is the better of two read loops, with and without software prefetch, as measured once in
the run for each number of threads and residency. Which is better depends on all of these.

2026-11-21: Compare keeps its samples as records of the changed arm beside the original as yardstick, which is what a record
is. The road not taken is a bucket of its own in the history.

2026-11-21: with more threads than the quota allows, Compare counts the time in which the quota stops a sample, which every
other measurement sets aside, and lets a period pass before each sample: else the arm after the greedy one pays for it.

2026-11-21: where there is no time for pairs, the rates that the CPU and the GPU were measured at one after the other decide
between them if they differ by more than a factor of 2. The CPU's weights alone take seconds to make, and its prompts as long:
to insist on pairs would leave a GPU that is a hundred times as fast unused after a run of a minute.

2026-11-21: evidence of a change counts under the same quota, CPUs and usable cores only. The limit of memory moves with the
host and no rate with it.

2026-11-22: A pinned knob is laid over whatever answers and over the default too, so that a run proves a gain over a default with the
same knob, and its verdict, also to keep the default, is an answer that has the knob. Where a knob does not go with the rest, such as
a kernel with another's tile, the point of the space is taken that agrees in the most knobs. What was learned under pins is marked in
its envelope: once they are lifted it is only derived, and the daemon tunes anew. The road not taken is a config pinned whole, whose
other knobs then nobody tunes.

2026-11-22: What is rolled back is kept beside what answers, as a config that was refused, named by its hash. A pull of the fleet and a
later rollback pass it over, whatever the conditions are, until a run certifies it anew. After wrong results it also names the wrong
arm, which no config that answers may have.

2026-11-22: The modes are of the Tuner and not of the daemon alone: a service that is to be frozen is frozen also where it calls Tune.
Frozen fails in Plan; who wants an answer at any price does not want it frozen. What an operator does is done in every mode.

2026-11-22: A run that finds the store held by another says so with a second lock and waits a second; the daemon kills its child for it.
Before, an operator's tune was refused for as long as the daemon had anything to do.
*/
//
// 2026-11-22: what is shared of an engine is the settings of its knobs, under the hash of its program and of the libraries of
// its build. The version that an engine prints does not tell two builds with other flags apart. The roads not taken: to share the
// command, which would let whoever writes to the fleet run it; and to trust a spec of engine exec that is not the very same file.
//
// 2026-11-22: a config of an engine that cannot be checked, because its program is not here, is kept as a proposal and answers
// nothing. One that was refused without measuring is looked at again, as nothing was paid for it.
//
// 2026-11-22: an engine's check is seven pairs, the fewest that have an interval, after a cold and a warm run of its own settings.
// Its class has the names of the GPUs in it, for an engine takes those without being told.
// A plan whose flags, but for the counts of threads, differ between decode and prefill is refused: a server has one value for both,
// and would run one of them as nobody measured it. What cannot be checked, for want of time or as the engine does not run with
// that request, stays open and keeps nothing else from being checked.
//
// 2026-11-22: Verify leaves Plan.Recheck as it is. It shows that the config is no more than 1 % slower than the default, within
// seconds; to clear the doubt would promise the interval of a tune under conditions that nobody tuned under.
//
// 2026-11-22: Plan waits 5 s for a GPU's driver, counted from when the process first asked it, and answers for the CPU until it is
// there. Drivers that nobody keeps awake take seconds, so that the 100 ms of other answers would make a GPU's config useless.
//
// 2026-11-21: engines that are not ours (engine:llama-bench and others) have TuneEngine and PlanEngine beside Tune and Plan,
// and their own certificate. Their settings are flags by name and no kernel of our table, and a run of theirs is 25
// processes, not thousands of samples: one Config for both would be a Config of which half is empty. What they share is the
// store, its lock, the history and the meaning of a verdict.
package tuner
