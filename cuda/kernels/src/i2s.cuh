// i2s.cuh: two bits a weight. Word s of a lane's 16 bytes holds, in bits 2j and 2j+1 of byte b, the code w+1 of row
// g + 8(j&1) and column 32t + 8s + 4(j>>1) + b of the tile.
#pragma once

#include "mul.cuh"

struct I2S {
	static constexpr int columns = 128, bytes = 512, dwords = 8;
	static constexpr bool tail = false;
	using Words = u32x4;

	MEMBER Words read(Address w, int, int offset) { return streamed(w, offset); }

	MEMBER Tiles tiles(const Mul &p) {
		const int count = ceilDiv(p.k, columns);
		return shareOf(count, count * bytes);
	}
};

// Shift brings each code down to bits 0 and 1.
struct Shift : I2S {
	static constexpr int planes = 1;

	MEMBER void decode(Part<Shift> &part, Words words) {
		for (int s = 0; s < 4; s++) {
			for (int j = 0; j < 4; j++) {
				part.codes[j & 1][2 * s + (j >> 1)] = words[s] >> 2 * j & 0x03030303;
			}
		}
	}

	MEMBER int combine(const int (&planes)[1], int) { return planes[0]; }
};

// NoShift leaves each code where it is, 1, 4, 16 or 64 times too large, and sums each of the four apart. No sum passes
// 192 * 128 * K/8, as a lane has an eighth of a row's columns in a plane: it fits an int32 up to K = 699,050.
struct NoShift : I2S {
	static constexpr int planes = 2;

	MEMBER void decode(Part<NoShift> &part, Words words) {
		for (int s = 0; s < 4; s++) {
			for (int j = 0; j < 4; j++) {
				part.codes[j & 1][2 * s + (j >> 1)] = words[s] & 0x03030303 << 2 * j;
			}
		}
	}

	// combine is exact: each plane is a multiple of what it is divided by.
	MEMBER int combine(const int (&planes)[2], int row) { return (planes[0] >> 2 * row) + (planes[1] >> (4 + 2 * row)); }
};
