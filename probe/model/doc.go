// Package model knows facts about ternary models: their matmul shapes and sizes, from a preset or from a GGUF file.
//
// # Basics
//
// Load takes the name of a preset or the path of a file and returns a Model. Model.Layer lists the matmuls of a layer in
// order of use, Model.Shapes the distinct ones with their counts, Model.Bytes what they take in each layout.
//
// Open reads the header of a GGUF file (versions 1 to 3, both byte orders) and checks it against the file: what a type id
// means is decided by comparing the room that each tensor has with the size that its type would take, so a wrong guess, an
// overlap, a gap and a truncated file all show before any weight is read. File.Ternary loads the weights of an I2_S tensor.
//
// # Caveats
//
// Type id 36, I2_S, stands for three layouts, and nothing in a file tells which one it has: blocks of 128 weights (x86
// builds of bitnet.cpp, its converters, ik_llama.cpp, the published files), blocks of 64 (quantised on ARM), and four rows
// interleaved (x86 builds without ACT_PARALLEL). The first is assumed, and Model.Warnings says so. Loading one of the
// others gives wrong weights without an error.
//
// Id 39 is TL2 in bitnet.cpp and MXFP4 in ggml, and general.file_type 38 to 40 are ambiguous in the same way. Their sizes
// differ, so the room up to the next tensor decides; only for a last tensor with bytes to spare does it take
// general.file_type and general.architecture.
//
// Bytes are those of the file formats. What a kernel's run-time layout takes besides, as padding, only its packer knows.
//
// A tensor of a type known by number only (the less common types of ik_llama.cpp) is taken to fill its room.
//
// # Decisions
//
// 2026-11-21: an own GGUF reader rather than gguf-parser-go v0.26, the best-kept one for Go: it rejects the type ids 36,
// 38, 39, 134 and 135, takes 190 ms for a header of 128 thousand tokens where this takes a few, and panics on an alignment
// of 0, a wrong type of general.architecture and overflowing dimensions.
//
// 2026-11-21: arrays and long strings are passed over, not kept. The road not taken is a full metadata reader: nothing
// here needs a token.
//
// 2026-11-21: what ggml itself refuses is refused (nested arrays, duplicate names, gaps between tensors), and so are type
// ids that neither ggml nor its two forks for BitNet define: a reader that shrugs at a type cannot check its extent. The
// price is that a file with a future type needs a new release.
//
// 2026-11-21: a file without ternary tensors is a Model without shapes, not an error, because inspecting it is useful;
// Model.Tunable is the error for those who want to tune.
//
// 2026-11-21: a fingerprint leaves out the vocabulary and the heads: rates are those of the ternary matmuls, which do not
// depend on either, and published files of one model differ in padding the vocabulary.
package model
