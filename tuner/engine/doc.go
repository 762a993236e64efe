// Package engine tunes programs from outside: llama-bench of the llama.cpp family, or any command that prints a figure.
//
// # Basics
//
// An Engine says what there is to set (Describe) and measures a Setting in a process of its own (Run). Search looks for a
// Plan, a setting for each regime, and duels it with the engine's own default:
//
//	cert, err := engine.Search(ctx, &engine.LlamaBench{Path: bench, Model: file, Prompt: 512, Generate: 128}, engine.Options{Budget: 10 * time.Minute})
//
// Check duels a Plan from elsewhere without a search, if a search here could have come to it.
//
// The stages: the default, cold and then warm; threads by halves and then by middles, for all regimes at once but those whose
// curve has fallen; then one thread count that serves all regimes, so that what follows takes one process each: batch sizes,
// climbed from the engine's own, and the other flags one at a time; then each regime's own threads again with what was gained,
// and their neighbours; what is doubtful once more; the duel in fresh pairs. Every candidate runs right before or right after the
// default, and its cost is a ratio to the nearest four runs of it in the same session. What a setting failed with is a Status
// with the last lines the process wrote, and it is not started again.
//
// The history is the log: Options.Recall tells what earlier sessions measured of the same build, model and request under the
// same limits and conditions, and a stage runs only what has not run as often as it asks for. Options.Ceiling says what nothing
// can exceed, so that a thread count need not be tried that cannot read memory fast enough.
//
// Exec is any command, by a Spec in JSON. Four that are real are in testdata/spec: sort (a time taken from outside, two
// knobs), xz (a constraint, and a check that what was packed unpacks), openssl speed (a rate found by an expression) and
// e2e_benchmark.py of bitnet.cpp (a table, and an exit status that says nothing). That of xz:
//
//	{
//	  "command": ["xz", "--stdout", "-1", ["--threads={threads}"], ["--block-size={block}KiB"], "words.txt"],
//	  "knobs": [
//	    {"name": "threads", "kind": "threads", "values": ["1", "2", "3", "4"], "default": "1"},
//	    {"name": "block", "kind": "ordered", "values": ["64", "256", "1024"]}
//	  ],
//	  "constraints": ["threads <= 3"],
//	  "figure": {"elapsed": true},
//	  "check": ["sh", "-c", "xz --stdout -1 --threads={threads} words.txt | xz --test"]
//	}
//
// An argument in a list of its own is left out while a knob that it names is not set: so the program's own choice is
// measured. The figure is {"elapsed": true}, {"json": "results.0.seconds", "unit": "s", "better": "lower"} or
// {"regexp": "([0-9.]+) MB/s", "unit": "MB/s", "better": "higher"}; several numbers are repetitions.
//
// # Caveats
//
// A process takes seconds, most of them for loading the model: with five repetitions of a prompt and an answer it costs one
// loading and five requests. A search is 25 processes at the most, about nine of them the default's, and a duel 14 to 48 more: a
// pair is the default and a process for each thread count of the plan. With 11 processes before the duel the median regret on
// invented machines is 4 % rather than 2 % (experiments/2026-11-engine-search).
// llama-bench prints no text: that results are right cannot be seen from outside, see Certificate.Note. It has one thread
// count where llama-server has two: regimes with different counts are measured in processes of their own. A process group
// is killed by its id; what leaves its group survives. If this program itself is killed outright, the kernel kills the engine
// that runs then, and on Linux nothing kills what that one has started.
//
// Program tells builds apart by the bytes of the program, of the libggml and libllama that it links, and of the backends beside it.
// Libraries are looked for where the system's linker would, but for its cache. What a wrapper script starts it does not see.
//
// # Decisions
//
// 2026-11-22: what failed once in the duel is not adopted, however fast its other pairs were. Of earlier sessions only candidates,
// and the defaults that these need, count as runs: each session begins with the default, and many short ones would use up all.
//
// 2026-11-22: flags are tried at one thread count for all regimes. Before, a regime's best count was known by one lucky run, each
// flag took a process for each count, and a flag that gained in one regime could be taken into another in which it never ran.
// The best so far runs twice before others are judged by it. The road not taken is a model of the sum of effects over all
// processes: on 1,000 invented machines it was no better than means.
//
// 2026-11-22: what a process had when the budget ended is not a hang, and says nothing of its setting; repetitions that add up to
// more than their process took, a model or a build that changed in the middle, are garbage. That an engine says it is faster than
// the clock shows is a doubt in the certificate and no failure: a setting may take longer to load.
//
// 2026-11-22: a process during which the CPU slowed itself down for heat is censored and runs again after a rest, unless this host
// always does; what Intel's counters and the cooling devices' statistics do not tell (AMD, most virtual machines) is not seen.
//
// 2026-11-21: the search is a ladder of stages, not a strategy of package bandit over one space. With 25 starts of which a
// third are the default's, a model over ten knobs knows next to nothing, while the thread curve is known to have one top
// (facts of the field: the bandwidth fills, then threads disturb each other). The road not taken is a Gaussian process over
// the product of all knobs.
//
// 2026-11-21: what the engine takes by itself is measured by giving no flag, never by giving the flag with what is thought
// to be its default; a value that the engine reports as its own is not tried as a candidate.
//
// 2026-11-21: flags that change the quality of an answer (KV types) are tried only if allowed by name. Flash attention,
// run-time repacking and GPU layers sum in another order: they are tried, marked as rounding. The road not taken is to leave
// them out, which leaves out what users gain most by.
//
// 2026-11-21: specs are JSON and not TOML: encoding/json refuses unknown fields and is there; a second format would be a
// dependency for comments.
//
// 2026-11-21: a process whose CPU quota ran out counts: too many threads for a container's share are what is looked for. The
// road not taken is to censor it as package measure does with a kernel's samples; then an engine that starts a thread for
// every CPU of the host would never be measured at all. Only CPU time that the hypervisor gave to others is censored.
//
// 2026-11-22: priorities are tried only if allowed by name. From 1 on llama.cpp runs its threads under SCHED_FIFO, so that a
// program on all cores leaves no turn to anybody else; the gain is what others lose.
//
// 2026-11-22: a CPU mask always comes with strict placement. llama.cpp ignores --cpu-strict without a mask, and a mask of every
// CPU without it changes nothing.
//
// 2026-11-22: llama-bench is silent about why it cannot load a model, so that one that exits with an error is started once
// more with --verbose. The road not taken is to have it verbose always: it would write while it measures.
//
// 2026-11-22: bitnet.cpp's ACT_PARALLEL is no knob. It decides how I2_S weights lie in the file, so that a build without it
// answers a published model wrongly, and fast. The road not taken is to convert the model for each build.
//
// 2026-11-21: the JSON is read strictly, times being checked against rates, rather than taking the mean that the program
// computed: a unit that changes in some release must be an error and not a figure.
package engine
