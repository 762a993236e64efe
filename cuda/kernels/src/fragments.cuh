// fragments.cuh multiplies by tensor cores for few tokens: the warps share the columns as they do for dp4a, and what a
// lane decodes of a tile is the fragment of A already. Nothing is staged in shared memory.
#pragma once

#include "mul.cuh"
#include "tensor.cuh"

// fragmentStep adds the products of UNROLL tiles with 8*TT tokens.
template <class Decoder, int KW, int RT, int TT, int UNROLL>
DEVICE void fragmentStep(Address (&w)[RT], Address (&x)[TT], int lane, int (&acc)[TT][RT][4]) {
	typename Decoder::Words words[UNROLL][RT];
#pragma unroll
	for (int u = 0; u < UNROLL; u++) {
#pragma unroll
		for (int r = 0; r < RT; r++) {
			words[u][r] = Decoder::read(w[r], lane, u * KW * Decoder::bytes);
		}
	}
#pragma unroll
	for (int u = 0; u < UNROLL; u++) {
		Part<Decoder> part[RT];
#pragma unroll
		for (int r = 0; r < RT; r++) {
			Decoder::decode(part[r], words[u][r]);
		}
#pragma unroll
		for (int tt = 0; tt < TT; tt++) {
			u32 xs[Decoder::dwords];
			activations<Decoder>(xs, x[tt], u * KW * Decoder::columns);
#pragma unroll
			for (int r = 0; r < RT; r++) {
				multiply<Decoder>(acc[tt][r], part[r], xs);
			}
		}
	}
#pragma unroll
	for (int r = 0; r < RT; r++) {
		w[r] += UNROLL * KW * Decoder::bytes;
	}
#pragma unroll
	for (int tt = 0; tt < TT; tt++) {
		x[tt] += UNROLL * KW * Decoder::columns;
	}
}

template <class Decoder, int UNROLL, int KW, int RT, int T, int TT>
DEVICE void fragmentTiles(const Mul &p, const Place<KW, RT, T> &at, const Tiles &tiles, int (&acc)[TT][RT][4]) {
	const int first = tiles.first + at.kw;
	Address w[RT], x[TT];
#pragma unroll
	for (int r = 0; r < RT; r++) {
		w[r] = rowTile(p, at.tile + r, tiles) + first * Decoder::bytes + 16 * at.lane;
	}
#pragma unroll
	for (int tt = 0; tt < TT; tt++) {
		x[tt] = tokenAt(p, at.token + 8 * tt + at.g) + tiles.column + first * Decoder::columns + 4 * Decoder::dwords * at.t;
	}
	int left = tiles.count - at.kw;
	for (; left > (UNROLL - 1) * KW; left -= UNROLL * KW) {
		fragmentStep<Decoder, KW, RT, TT, UNROLL>(w, x, at.lane, acc);
	}
	if constexpr (UNROLL > 1) {
		for (; left > 0; left -= KW) {
			fragmentStep<Decoder, KW, RT, TT, 1>(w, x, at.lane, acc);
		}
	}
}

template <class Decoder, int KW, int RT, int TT, int UNROLL>
DEVICE void fragments(const Mul &p) {
	const auto at = placed<KW, RT, 8 * TT>();
	int acc[TT][RT][4] = {};
	fragmentTiles<Decoder, UNROLL>(p, at, Decoder::tiles(p), acc);
	if constexpr (Decoder::tail) {
		fragmentTiles<typename Decoder::Tail, 1>(p, at, Decoder::tailTiles(p), acc);
	}
#pragma unroll
	for (int tt = 0; tt < TT; tt++) {
#pragma unroll
		for (int r = 0; r < RT; r++) {
#pragma unroll
			for (int i = 0; i < 4; i++) {
				keep(p, at, 8 * tt + 2 * at.t + i % 2, 16 * r + 8 * (i / 2) + at.g, acc[tt][r][i]);
			}
		}
	}
	gather(p, at);
}
