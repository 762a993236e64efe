package kernels

import "testing"

func TestT5HasAByteForEveryFiveWeights(t *testing.T) {
	for number := range len(t5Byte) {
		if got := int(numberT5(codesT5(t5Byte[number]))); got != number {
			t.Errorf("the byte for five weights of number %d has number %d", number, got)
		}
	}
	if got := t5Byte[0]; got != 0 {
		t.Errorf("five weights of -1 are byte %#02x, want 0: padding is cleared memory", got)
	}
}

// TestT5TakesOneLookupAWeight checks what mul/t5/avx512vbmi takes for granted.
func TestT5TakesOneLookupAWeight(t *testing.T) {
	for i := range 256 {
		b := byte(i)
		codes, low, high := codesT5(b), codesT5(b&0x3f), codesT5(b&^3)
		if b >= 0xc0 {
			low[2] = 0
		}
		want := [t5Weights]uint8{low[0], low[1], low[2], high[3], high[4]}
		if codes != want {
			t.Errorf("byte %#02x has codes %v, want %v: weights 0 to 2 by the low six bits, 3 and 4 by the high six", b, codes, want)
		}
	}
}
