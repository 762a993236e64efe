package model

// layouts are the ternary layouts whose size Bytes tells, with the format of files that has it.
var layouts = map[string]string{
	"i2s": "i2_s", "tl1": "tl1", "tl2": "tl2", "tq1_0": "tq1_0", "tq2_0": "tq2_0", "iq1_bn": "iq1_bn", "iq2_bn": "iq2_bn",
}

// Bytes is what all ternary matmuls take in each layout, by the formula of its file format. A layout is absent where
// its format cannot hold the model: I2_S needs rows of whole blocks of 128 weights, TQ1_0 and TQ2_0 of 256, IQ1_BN and
// IQ2_BN of 64, and bitnet.cpp has no TL1 or TL2 for embedding models.
func (m Model) Bytes() map[string]uint64 {
	sizes := make(map[string]uint64)
	for layout, name := range layouts {
		if size, ok := m.bytesIn(formatNamed(name)); ok {
			sizes[layout] = size
		}
	}
	return sizes
}

func (m Model) bytesIn(f format) (uint64, bool) {
	if m.Family == Embedding && (f.name == "tl1" || f.name == "tl2") {
		return 0, false
	}
	var sum uint64
	for _, s := range m.Shapes {
		size, ok := f.size(uint64(s.N), uint64(s.K))
		if !ok || f.name == "i2_s" && s.K%blockWeights != 0 {
			return 0, false
		}
		sum += uint64(s.Count) * size
	}
	return sum, len(m.Shapes) > 0
}

func formatNamed(name string) format {
	for _, f := range formats {
		if f.name == name {
			return f
		}
	}
	panic("model: no such format")
}
