// tl2.cuh: five bits for three weights, the index |9u + 3v + w| and the sign of 9u + 3v + w. A tile is 16 rows of 192
// columns: 16 bytes of indices a lane, and then 4 bytes of signs a lane. Nibble j of byte b of word s is the index of row
// g + 8j and columns 48t + 12s + {b, 4+b, 8+b}; its sign is bit 8b + 2s + j. What is left of a row, fewer than 192
// columns, follows in tiles of TL1.
#pragma once

#include "tl1.cuh"

struct TL2 {
	static constexpr int columns = 192, bytes = 640, dwords = 12, planes = 1;
	static constexpr bool tail = true;
	using Tail = TL1;
	struct Words {
		u32x4 indices;
		u32 signs;
	};

	MEMBER Words read(Address w, int lane, int offset) { return {streamed(w, offset), streamedWord(w - 12 * lane, offset + 512)}; }

	MEMBER int rowBytes(const Mul &p) { return p.k / columns * bytes + ceilDiv(p.k % columns, TL1::columns) * TL1::bytes; }

	MEMBER Tiles tiles(const Mul &p) { return shareOf(p.k / columns, rowBytes(p)); }

	MEMBER Tiles tailTiles(const Mul &p) {
		Tiles rest = shareOf(ceilDiv(p.k % columns, TL1::columns), rowBytes(p));
		rest.offset = p.k / columns * bytes;
		rest.column = p.k / columns * columns;
		return rest;
	}

	// decode works on four triples at once; no byte borrows from or carries into the next. The code of a triple, 13 more
	// than its value, is 9(u+1) + 3(v+1) + (w+1): up to 26, c/9 = (7c + 2) >> 6, and 7c + 2 fits a byte.
	MEMBER void decode(Part<TL2> &part, const Words &words) {
		for (int s = 0; s < 4; s++) {
			for (int row = 0; row < 2; row++) {
				const u32 index = words.indices[s] >> 4 * row & 0x0f0f0f0f;
				const u32 negative = words.signs >> (2 * s + row) & 0x01010101;
				const u32 code = index + 0x0d0d0d0d - 2 * (index & negative * 15);
				const u32 first = (code * 7 + 0x02020202) >> 6 & 0x03030303;
				const u32 rest = code - 9 * first;
				const u32 second = rest * 11 >> 5 & 0x03030303;
				part.codes[row][3 * s] = first;
				part.codes[row][3 * s + 1] = second;
				part.codes[row][3 * s + 2] = rest - 3 * second;
			}
		}
	}

	MEMBER int combine(const int (&planes)[1], int) { return planes[0]; }
};
