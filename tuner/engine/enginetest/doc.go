// Package enginetest is a stand-in for llama-bench: a program with a known performance surface, noise, failures and hangs,
// as a process and, in virtual time, as an engine.Engine.
//
// # Basics
//
// Main is the program; a test binary calls it where its own name is llama-bench. Virtual is the same surface without a
// process. Best is the truth that a search is judged by.
//
// # Caveats
//
// The surface has the shape that the field reports (decode bound by bandwidth and hurt by hyper-threads, prefill bound by
// arithmetic and by the batch), and no measured machine's figures.
//
// # Decisions
//
// 2026-11-21: noise has two parts, 5 % from one repetition to the next and 2 % from one process to the next, with every
// sixteenth repetition 30 % late: the spread that llama.cpp's users print is of the first kind, and a tuner that believes
// repetitions to be independent is misled by the second. The road not taken is one kind of noise.
package enginetest
