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
// The stages: the default, cold and then warm; threads by halves and then by middles, for all regimes at once; batch sizes,
// climbed from the engine's own; the other flags one at a time; threads again if one of these gained; what is doubtful once
// more; the duel in fresh pairs. No candidate is further than two processes from a run of the default, and its cost is a
// ratio to the defaults around it. What a setting failed with is a Status with the last lines the process wrote, and it is
// not started again.
//
// Exec is any command, by a Spec in JSON. Three that are real are in testdata/spec: sort (a time taken from outside, two
// knobs), xz (a constraint, and a check that what was packed unpacks) and openssl speed (a rate found by an expression):
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
// A process takes seconds, most of them for loading the model, so that a search is some 25 processes and a duel 14 to 32.
// llama-bench prints no text: that results are right cannot be seen from outside, see Certificate.Note. It has one thread
// count where llama-server has two: regimes with different counts are measured in processes of their own. A process group
// is killed by its id; what leaves its group survives. If this program itself is killed outright, the engine that runs then
// ends by itself.
//
// Program tells builds apart by the bytes of the program, of the libggml and libllama that it links, and of the backends beside it.
// What a wrapper script starts it does not see, nor libraries that LD_LIBRARY_PATH names: for these it fails.
//
// # Decisions
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
// 2026-11-21: the JSON is read strictly, times being checked against rates, rather than taking the mean that the program
// computed: a unit that changes in some release must be an error and not a figure.
package engine
