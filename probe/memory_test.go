package probe

import "testing"

func TestSizeClass(t *testing.T) {
	for in, want := range map[uint64]uint64{
		0:               0,
		1:               1,
		gib / 2:         gib / 2,
		15962340 * kib:  16 * gib, // a laptop of 16 GiB
		16 * gib:        16 * gib,
		16*gib + 1:      20 * gib,
		24684092 * kib:  24 * gib,  // a virtual machine of 24 GiB
		32391140 * kib:  32 * gib,  // a cloud machine of 32 GiB
		379 * gib:       384 * gib, // 12 modules of 32 GiB
		527986104 * kib: 512 * gib, // a server of 512 GiB
		1<<63 - 1:       1 << 63,
	} {
		if got := sizeClass(in); got != want {
			t.Errorf("%d: %d, want %d", in, got, want)
		}
	}
}

// What a kernel reserves, up to 12 % of a module size, does not change the class.
func TestSizeClassIgnoresReserved(t *testing.T) {
	for _, modules := range []uint64{1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048} {
		size := modules * gib
		for permille := uint64(0); permille <= 120; permille++ {
			if got := sizeClass(size - size/1000*permille); got != size {
				t.Fatalf("%d GiB less %d permille: %d", modules, permille, got)
			}
		}
	}
}
