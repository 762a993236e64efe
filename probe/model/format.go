package model

import "strings"

// format is one way in which a tensor can lie in a file. Several formats can share one type id.
type format struct {
	id      uint32
	name    string
	ternary bool
	// size is how many bytes n rows of k weights take; false if the format cannot hold such rows. nil = not known.
	size func(n, k uint64) (uint64, bool)
	// tail is how many bytes of size, at its end, hold the scale of the tensor. A converter may have left them out
	// and put the scale into a tensor of its own, called NAME_scale, right behind.
	tail uint64
}

// blocks is the size of rows made of whole blocks of weights, with perRow bytes for each row besides.
func blocks(weights, bytes, perRow uint64) func(n, k uint64) (uint64, bool) {
	return func(n, k uint64) (uint64, bool) { return n * (k/weights*bytes + perRow), k%weights == 0 }
}

// twoBit is the size of I2_S and TL1: N*K/4 bytes of codes, a float32 scale, and padding to 32 bytes.
func twoBit(n, k uint64) (uint64, bool) { return n*k/4 + 32, n*k%4 == 0 }

// tl2Bytes is the size of TL2: its codes, rounded up to 32 bytes, and 32 bytes for the scale (bitnet.cpp, ggml_nbytes).
func tl2Bytes(n, k uint64) (uint64, bool) {
	return (tl2Codes(n, k)+31)/32*32 + 32, k >= 256
}

// tl2Codes is the size of the codes of TL2: 5 bits for every three weights but those of 256 columns, which take 4 bits for
// every two. Its converter fills up with zeros where fewer columns than 256 are in twos.
func tl2Codes(n, k uint64) uint64 { return (k-256)*n/3*5/8 + 256*n/2*4/8 }

// formats lists what the type ids mean: in mainline ggml, and where they differ in the forks that run BitNet models,
// bitnet.cpp (36 to 39) and ik_llama.cpp (from 97).
var formats = []format{
	{id: 0, name: "f32", size: blocks(1, 4, 0)},
	{id: 1, name: "f16", size: blocks(1, 2, 0)},
	{id: 2, name: "q4_0", size: blocks(32, 18, 0)},
	{id: 3, name: "q4_1", size: blocks(32, 20, 0)},
	{id: 6, name: "q5_0", size: blocks(32, 22, 0)},
	{id: 7, name: "q5_1", size: blocks(32, 24, 0)},
	{id: 8, name: "q8_0", size: blocks(32, 34, 0)},
	{id: 9, name: "q8_1", size: blocks(32, 36, 0)},
	{id: 10, name: "q2_k", size: blocks(256, 84, 0)},
	{id: 11, name: "q3_k", size: blocks(256, 110, 0)},
	{id: 12, name: "q4_k", size: blocks(256, 144, 0)},
	{id: 13, name: "q5_k", size: blocks(256, 176, 0)},
	{id: 14, name: "q6_k", size: blocks(256, 210, 0)},
	{id: 15, name: "q8_k", size: blocks(256, 292, 0)},
	{id: 16, name: "iq2_xxs", size: blocks(256, 66, 0)},
	{id: 17, name: "iq2_xs", size: blocks(256, 74, 0)},
	{id: 18, name: "iq3_xxs", size: blocks(256, 98, 0)},
	{id: 19, name: "iq1_s", size: blocks(256, 50, 0)},
	{id: 20, name: "iq4_nl", size: blocks(32, 18, 0)},
	{id: 21, name: "iq3_s", size: blocks(256, 110, 0)},
	{id: 22, name: "iq2_s", size: blocks(256, 82, 0)},
	{id: 23, name: "iq4_xs", size: blocks(256, 136, 0)},
	{id: 24, name: "i8", size: blocks(1, 1, 0)},
	{id: 25, name: "i16", size: blocks(1, 2, 0)},
	{id: 26, name: "i32", size: blocks(1, 4, 0)},
	{id: 27, name: "i64", size: blocks(1, 8, 0)},
	{id: 28, name: "f64", size: blocks(1, 8, 0)},
	{id: 29, name: "iq1_m", size: blocks(256, 56, 0)},
	{id: 30, name: "bf16", size: blocks(1, 2, 0)},
	{id: 34, name: "tq1_0", ternary: true, size: blocks(256, 54, 0)},
	{id: 35, name: "tq2_0", ternary: true, size: blocks(256, 66, 0)},
	{id: 36, name: "i2_s", ternary: true, size: twoBit, tail: 32},
	{id: 38, name: "tl1", ternary: true, size: twoBit, tail: 32},
	{id: 39, name: "tl2", ternary: true, size: tl2Bytes, tail: 32},
	{id: 39, name: "mxfp4", size: blocks(32, 17, 0)},
	{id: 40, name: "nvfp4", size: blocks(64, 36, 0)},
	{id: 41, name: "q1_0", size: blocks(128, 18, 0)},
	{id: 42, name: "q2_0", size: blocks(64, 18, 0)},
	{id: 42, name: "q2_0_g128", size: blocks(128, 34, 0)},
	{id: 134, name: "iq1_bn", ternary: true, size: blocks(64, 13, 2)},
	{id: 135, name: "iq2_bn", ternary: true, size: blocks(64, 16, 4)},
	{id: 335, name: "iq2_bn_r4", ternary: true, size: blocks(64, 16, 4)},
}

// unsized are the other type ids of ik_llama.cpp. Their sizes are not known here, so a tensor of such a type is only
// known to end before the next one begins.
var unsized = []uint32{
	97, 98, 99, 133, 136, 137, 138, 139, 140, 141, 144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157,
	158, 202, 206, 208, 210, 211, 212, 213, 214, 216, 217, 218, 219, 220, 221, 222, 223, 229, 230, 233, 337, 338, 339,
	340, 344, 352, 397, 398, 399,
}

// removed are type ids that ggml gave up, with the name they had.
var removed = map[uint32]string{
	4: "q4_2", 5: "q4_3", 31: "q4_0_4_4", 32: "q4_0_4_8", 33: "q4_0_8_8", 37: "iq4_nl_4_8, or i8_s of bitnet.cpp",
}

// formatsOf returns what id can mean.
func formatsOf(id uint32) []format {
	var found []format
	for _, f := range formats {
		if f.id == id {
			found = append(found, f)
		}
	}
	return found
}

// names joins the names of fs: "tl2 or mxfp4".
func names(fs []format) string {
	list := make([]string, len(fs))
	for i, f := range fs {
		list[i] = f.name
	}
	return strings.Join(list, " or ")
}
