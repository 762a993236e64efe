// tl1.cuh: a nibble for two weights, 3(v+1) + (w+1). Word s of a lane's 16 bytes holds, in nibble j of byte b, those of
// row g + 8j and columns 32t + 8s + b and 32t + 8s + 4 + b of the tile: the columns of I2S.
#pragma once

#include "mul.cuh"

struct TL1 {
	static constexpr int columns = 128, bytes = 512, dwords = 8, planes = 1;
	static constexpr bool tail = false;
	using Words = u32x4;

	MEMBER Words read(Address w, int, int offset) { return streamed(w, offset); }

	MEMBER Tiles tiles(const Mul &p) {
		const int count = ceilDiv(p.k, columns);
		return shareOf(count, count * bytes);
	}

	// decode divides four indices at once: up to 8, i/3 = 11i >> 5, and 11i fits a byte.
	MEMBER void decode(Part<TL1> &part, Words words) {
		for (int s = 0; s < 4; s++) {
			for (int row = 0; row < 2; row++) {
				const u32 indices = words[s] >> 4 * row & 0x0f0f0f0f;
				const u32 first = indices * 11 >> 5 & 0x03030303;
				part.codes[row][2 * s] = first;
				part.codes[row][2 * s + 1] = indices - 3 * first;
			}
		}
	}

	MEMBER int combine(const int (&planes)[1], int) { return planes[0]; }
};
