package kernels

import "testing"

func TestEveryFiveWeightsHaveAByte(t *testing.T) {
	for layout, v := range map[Layout]*fiver{T5: t5, T5F: t5f} {
		for number, b := range v.bytes {
			if got := int(fiveNumber(v.codes[b])); got != number {
				t.Errorf("%s: the byte for five weights of number %d has number %d", layout, number, got)
			}
		}
		if b := v.bytes[0]; b != 0 {
			t.Errorf("%s: five weights of -1 are byte %#02x, want 0: padding is cleared memory", layout, b)
		}
	}
}

// TestT5TakesOneLookupAWeight checks what mul/t5/avx512vbmi takes for granted.
func TestT5TakesOneLookupAWeight(t *testing.T) {
	for i := range 256 {
		b := byte(i)
		codes, low, high := codesT5(b), codesT5(b&0x3f), codesT5(b&^3)
		lesser := codesT5(min(b, 0xc0) & 0x3f)
		want := [t5Weights]uint8{low[0], low[1], lesser[2], high[3], high[4]}
		if codes != want {
			t.Errorf("byte %#02x has codes %v, want %v: weights 0 and 1 by the low six bits, 2 by those of at most 0xc0, 3 and 4 by the high six", b, codes, want)
		}
	}
}
