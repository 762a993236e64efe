// Package model knows facts about ternary models: their matmul shapes and sizes, from a preset or from a GGUF file.
//
// # Basics
//
// Load takes the name of a preset or the path of a file and returns a Model. Model.Layer lists the matmuls of a layer in
// order of use, Model.Shapes the distinct ones with their counts, Model.Bytes what they take in each layout.
//
// Open reads the header of a GGUF file (versions 1 to 3, both byte orders) and checks it against the file: what a type id
// means is decided by comparing the room that each tensor has with the size that its type would take, so a wrong guess, an
// overlap, a gap and a truncated file all show before any weight is read.
//
// File.Ternary loads the weights of a tensor as codes of -1, 0 and 1 with their scale, front to back and 64 KiB at a time:
// I2_S, TL1 and TL2 of bitnet.cpp, TQ1_0 and TQ2_0 of ggml, IQ1_BN and IQ2_BN of ik_llama.cpp. File.TernaryAs does it for
// who knows more of how the tensor was packed than its file tells.
//
// # Caveats
//
// Type id 36, I2_S, stands for three layouts, and nothing in a file tells which one it has: blocks of 128 weights (x86
// builds of bitnet.cpp, its converters, ik_llama.cpp, the published files), blocks of 64 (quantised on ARM), and four rows
// interleaved (x86 builds without ACT_PARALLEL). The first is assumed, and Model.Warnings says so. Loading one of the
// others gives wrong weights without an error; Packing.I2S names the right one.
//
// TL1 and TL2 are packed in tiles whose sizes are compiled into the kernels of the build that wrote the file. No key holds
// them, and a TL1 tensor in other tiles is just as good a TL1 tensor, with its weights in another order. So tiles are
// assumed only where all that a file tells speaks for an unchanged bitnet.cpp: general.file_type 38 or 39, the
// architecture that its converter writes, and no tensor of that type with a shape that is not among those of one model
// that setup_env.py has tiles for. That leaves bitnet_b1_58-large and -3B, and Llama3-8B-1.58 as TL2 (as TL1 there are two
// sets of tiles). Every other model needs Packing.Tiles, even where bitnet.cpp claims to support it: it gives
// BitNet-b1.58-2B-4T the tiles of the 3B and Falcon those of Llama3, and its converter has none for their shapes. Who
// tuned the tiles of one of the three models has a file that looks the same and loads in the wrong order.
//
// What wrong tiles can be found by is an index that stands for no weights (7 of 16 for pairs, 2 for triples), a negative
// triple of zeros, and anything but zeros behind the last weight. Wrong tiles of TL2 that move the border between triples
// and pairs do not pass these by any likelihood; all others do pass. Model.Warnings says what was assumed.
//
// TQ1_0 and TQ2_0 have a scale for each block of 256 weights, IQ1_BN and IQ2_BN for each row. They are loaded if these are
// all the same, or 0 where the weights are, as those of a BitNet model are. A tensor with several scales is refused.
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
// 2026-11-21: the layout of TL1 and TL2 is that of preprocess_weights_tl1 and _tl2 in utils/convert-hf-to-gguf-bitnet.py of
// microsoft/BitNet (09074a0), the only known writer; the place of the scale is that of ggml_bitnet_transform_tensor in
// utils/codegen_tl1.py and codegen_tl2.py. Tests compare digests of what that converter, run on known weights, packed.
// TQ1_0 and TQ2_0 are those of ggml-quants.c, IQ1_BN and IQ2_BN of iqk_quantize.cpp, likewise.
//
// 2026-11-21: tiles that a file does not tell are looked up in one table and otherwise asked for. The road not taken, to
// try tiles until no code is impossible, would decode nearly every file to a plausible model with shuffled rows.
//
// 2026-11-21: IQ2_BN_R4 is not loaded: its rows are interleaved for one kernel, and ik_llama.cpp repacks IQ2_BN itself.
//
// 2026-11-21: a tensor without dimensions is a scalar, as in ggml: the converter for TL1 and TL2 writes its scales so.
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
