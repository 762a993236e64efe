// Package modeltest writes GGUF files for tests: real ones with packed weights, full-size ones without, broken ones.
//
// # Basics
//
// Write writes a model whose ternary tensors hold weights that Weights gives back, in any layout that package model loads;
// the Pack functions make the data of single tensors. WriteSparse writes the header of a full-size model in front of a
// hole, so that a file of a gigabyte takes a few megabytes on disk. Writer puts together headers by hand, sound or not.
//
// # Caveats
//
// Norms and embeddings are zero. The tokens of WriteSparse are made up, but as many and about as long as real ones.
//
// # Decisions
//
// 2026-11-21: sizes and bits are worked out here again rather than taken from package model, so that the one can prove
// the other. The road not taken, one shared table, would let a wrong formula pass every test. The Pack functions go from
// a weight to its bit where package model goes from bytes to weights, and the tests of package model compare what they make
// with digests of what the original converters and quantisers make.
package modeltest
