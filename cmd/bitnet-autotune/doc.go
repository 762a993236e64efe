/*
Command bitnet-autotune finds, proves and remembers the fastest correct way to run a 1.58-bit (BitNet) model on this
host.

# Basics

	$ bitnet-autotune tune --model bitnet-embedding-270m      # measure, prove, remember
	$ bitnet-autotune config --model bitnet-embedding-270m    # answer at once from what is known
	$ bitnet-autotune explain --model bitnet-embedding-270m   # why this answer
	$ bitnet-autotune advise --model bitnet-embedding-270m --current threads=8    # what is wrong with running it so
	$ bitnet-autotune completion bash                         # for the shell

Every verb has examples in its --help. Results go to stdout, as text or, with --format json, as exactly one JSON
document; log lines and progress go to stderr. An error is one line that names what is wrong and what would be right.

# Caveats

A verb that only reads (probe, models, inspect, classify, recommend, place, advise without --try, config, explain, verify,
bench, replay, history list, show, export, check, fleet push, status, gpu list) never creates or changes the store. One tune
at a time measures with a store; a second one ends with code 4.

# Decisions

2026-11-21: github.com/spf13/cobra for the command line: completion, help and suggestions for free. The road not taken
is a switch over os.Args, which every peer outgrew.

2026-11-21: every flag can be set by an environment variable and by a key of the config file, by one rule over the flag
set instead of a list of supported variables: no list can drift.

2026-11-21: a key of the config file that is no verb's flag is refused. Passing it over, as for a newer version's key,
would hide a misspelt one.

2026-11-21: run ids are 16 hex digits wherever the command prints them. The history's own JSON, stored and exported, has
decimals: its format has a version, and a build that reads version 1 must read what this one writes.

2026-11-21: github.com/rs/zerolog writes the log lines, for people on stderr. The library packages do not log.

2026-11-21: the password of a fleet is in BITNET_AUTOTUNE_FLEET_PASSWORD and nowhere else: a flag stands in the list of
processes. Hosts of a fleet are counted by a keyed hash of /etc/machine-id, which leaves the id itself here.

2026-11-21: gonum.org/v1/plot draws the roofline of bench as SVG. The road not taken is to print the points for gnuplot,
which few servers have. Its axis labels take up room as if a logarithmic scale were linear, so we write them ourselves.

2026-11-21: a format that only one verb prints is an annotation of that verb; every other verb refuses it as wrong use. The
road not taken is a flag of that verb which hides the global one: BITNET_AUTOTUNE_FORMAT would mean two things.

2026-11-21: an interrupted bench or replay prints what it has and ends with code 3, as a tune that could not decide does.

2026-11-21: replay is a verb, and the program of experiments/2026-11-scoreboard is no more: two programs that play the same
experiment would differ in what they print. Without --seeds it plays ten, which shows the order of the strategies in a
minute or so; a score that is quoted wants a hundred.

2026-11-21: the figures of the rules are listed by reflection over the Constants of the packages, whose fields carry unit,
source and a sentence as tags. A table in the command would be a second list, and go stale.

2026-11-21: config waits 80 ms for NVML and answers without it then. It takes seconds to wake a driver that no process keeps
awake, and an answer at once is what config is for.

2026-11-21: probe and gpu list ask NVML when they are called. gpu list prints NVML's GPUs and CUDA's
devices side by side: either can see what the other does not, and the reason is what one looks for.

2026-11-21: a step of the daemon is a hidden verb of this command, and not a second program: one file to install, and the
kernels that serve are the kernels that were measured.

2026-11-21: the DaemonSet of packaging is JSON, which kubectl takes like YAML and the tests parse without another library.

2026-11-21: the certificate has no rate for a regime that was not decided. A number would be read as proven.

2026-11-21: which advice is silenced is a flag, which the config file can hold: {"silence": "threads/smt-siblings"}. A list in
the store would be written by a verb that only reads.

2026-11-21: advise --pid judges an engine under the limits of its own control group and affinity, by its command line. What
the command line does not say stays unknown: a default of this or that build would be a guess.

2026-11-21: place ends with code 0 when a model has no place: the plan is complete and says what would give it one. A script
that needs all of them says --require-all, as config has --require-measured, and gets code 3.

2026-11-21: the compatibility profile of a host is written and verified by flags of recommend rather than by a verb: it is what
recommendations rest on, and a difference ends with code 5, as every failed verification does.
*/
package main
