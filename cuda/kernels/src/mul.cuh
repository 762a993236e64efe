// mul.cuh is what every product of ternary weights and int8 activations shares:
//
//	for m < M { for n < N { dst[m*N+n] = Σ_k (code[n][k] - 1) * x[m*stride+k] } }
//
// as Σ code * x - Σ x, of which the quantiser made the second. Weights lie in tiles of 16 rows, row of tiles after row of
// tiles. Lane 4g+t of a warp has rows g and g+8 of a tile, and the columns of 4 * dwords activations in a row, from
// column 4 * dwords * t of the tile on. With gridDim.z > 1 the columns are split: each part adds to dst, which must be
// zero before.
#pragma once

#include "device.cuh"

#define MUL_PARAMETERS int *dst, const u8 *w, const i8 *x, const int *sum, int m, int n, int k, int stride
#define MUL_ARGUMENTS Mul{dst, w, x, sum, m, n, k, stride}

// MUL is the kernel of one variant: its symbol, the threads of a block, and a body such as dots<NoShift, 4, 1, 1, 1>.
#define MUL(SYMBOL, THREADS, ...) \
	ENTRY(SYMBOL, THREADS, MUL_PARAMETERS) { __VA_ARGS__(MUL_ARGUMENTS); }

struct Mul {
	int *dst;       // M x N
	const u8 *w;    // rows of tiles
	const i8 *x;    // M x stride, zero from column K on
	const int *sum; // per token, Σ_k x
	int m, n, k, stride;
};

// Part is what one lane has of a tile: codes[r][d] are the codes of row g + 8r for the d-th dword of its activations.
template <class Decoder>
struct Part {
	u32 codes[2][Decoder::dwords];
};

// Tiles are the tiles of one kind in a row of tiles, as far as they belong to this block.
struct Tiles {
	int rowBytes; // from one row of tiles to the next
	int first, count;
	int offset; // of the first of its kind in the row, in bytes
	int column; // its first column
};

// shareOf gives this block its part of count tiles.
DEVICE Tiles shareOf(int count, int rowBytes) {
	const int z = blockZ(), splits = blocksZ();
	const int first = count * z / splits;
	return Tiles{rowBytes, first, count * (z + 1) / splits - first, 0, 0};
}

DEVICE int ceilDiv(int a, int b) { return (a + b - 1) / b; }

// rowTile is the start of a row of tiles; beyond the last it is the last, so that every read is of weights.
DEVICE Address rowTile(const Mul &p, int tile, const Tiles &tiles) {
	return (Address)p.w + (u64)min(tile, ceilDiv(p.n, 16) - 1) * tiles.rowBytes + tiles.offset;
}

// tokenAt is the start of a token; beyond the last it is the last.
DEVICE Address tokenAt(const Mul &p, int token) { return (Address)p.x + (u64)min(token, p.m - 1) * p.stride; }

// activations reads a lane's dwords of a tile.
template <class Decoder>
DEVICE void activations(u32 (&xs)[Decoder::dwords], Address x, int offset) {
#pragma unroll
	for (int i = 0; i < Decoder::dwords / 4; i++) {
		const u32x4 four = cached(x, offset + 16 * i);
		for (int j = 0; j < 4; j++) {
			xs[4 * i + j] = four[j];
		}
	}
}

// Line is where the results of a token go.
struct Line {
	int *to;
	int sum; // what is still to be taken off
	bool exists;
};

DEVICE Line lineOf(const Mul &p, int token) {
	Line line{p.dst + (u64)token * p.n, 0, token < p.m};
	if (line.exists && blockZ() == 0) {
		line.sum = p.sum[token];
	}
	return line;
}

// emit stores one result, or adds it where the columns are split.
DEVICE void emit(const Mul &p, const Line &line, int row, int codes) {
	if (line.exists && row < p.n) {
		if (blocksZ() == 1) {
			line.to[row] = codes - line.sum;
		} else {
			addTo(line.to + row, codes - line.sum);
		}
	}
}

// Place is where a warp is at work: KW warps share the columns of 16*RT rows and T tokens.
template <int KW, int RT, int T>
struct Place {
	static constexpr int groups = KW < 4 ? 4 / KW : 1; // of KW warps in a block: four warps at least
	static constexpr int rows = 16 * RT;

	int lane, g, t;
	int kw;    // which of the KW warps
	int group; // which of the block's groups
	int tile;  // the first row of tiles
	int token; // the first token
};

template <int KW, int RT, int T>
DEVICE Place<KW, RT, T> placed() {
	const int lane = thread() % 32, warp = thread() / 32, group = warp / KW;
	return {lane, lane / 4, lane % 4, warp % KW, group, int(blockX() * Place<KW, RT, T>::groups + group) * RT, int(blockY()) * T};
}

// keep puts away what this warp has of a row and a token of its place, until gather adds up what all KW warps have.
template <int KW, int RT, int T>
DEVICE void keep(const Mul &p, const Place<KW, RT, T> &at, int token, int row, int value) {
	if constexpr (KW == 1) {
		emit(p, lineOf(p, at.token + token), 16 * at.tile + row, value);
	} else {
		scratch[((at.group * KW + at.kw) * T + token) * at.rows + row] = value;
	}
}

template <int KW, int RT, int T>
DEVICE void gather(const Mul &p, const Place<KW, RT, T> &at) {
	if constexpr (KW > 1) {
		barrier();
		for (int i = 32 * at.kw + at.lane; i < T * at.rows; i += 32 * KW) {
			int value = 0;
#pragma unroll
			for (int warp = 0; warp < KW; warp++) {
				value += scratch[(at.group * KW + warp) * T * at.rows + i];
			}
			emit(p, lineOf(p, at.token + i / at.rows), 16 * at.tile + i % at.rows, value);
		}
	}
}
