// dots.cuh multiplies by dp4a, up to four tokens at a time: all that sm_61 has, and the least work where a token is alone.
#pragma once

#include "mul.cuh"

// dotStep adds the products of UNROLL tiles. It begins with all reads of weights, so that many are under way.
template <class Decoder, int KW, int RT, int T, int UNROLL>
DEVICE void dotStep(Address (&w)[RT], Address (&x)[T], int lane, int (&acc)[T][RT][2][Decoder::planes]) {
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
		for (int token = 0; token < T; token++) {
			u32 xs[Decoder::dwords];
			activations<Decoder>(xs, x[token], u * KW * Decoder::columns);
#pragma unroll
			for (int i = 0; i < RT * 2 * Decoder::dwords; i++) {
				const int r = i / (2 * Decoder::dwords), row = i / Decoder::dwords % 2, d = i % Decoder::dwords;
				int &sum = acc[token][r][row][d % Decoder::planes];
				sum = dot4(part[r].codes[row][d], xs[d], sum);
			}
		}
	}
#pragma unroll
	for (int r = 0; r < RT; r++) {
		w[r] += UNROLL * KW * Decoder::bytes;
	}
#pragma unroll
	for (int token = 0; token < T; token++) {
		x[token] += UNROLL * KW * Decoder::columns;
	}
}

// dotTiles adds the products of this warp's share of some tiles.
template <class Decoder, int UNROLL, int KW, int RT, int T>
DEVICE void dotTiles(const Mul &p, const Place<KW, RT, T> &at, const Tiles &tiles, int (&acc)[T][RT][2][Decoder::planes]) {
	const int first = tiles.first + at.kw;
	Address w[RT], x[T];
#pragma unroll
	for (int r = 0; r < RT; r++) {
		w[r] = rowTile(p, at.tile + r, tiles) + first * Decoder::bytes + 16 * at.lane;
	}
#pragma unroll
	for (int token = 0; token < T; token++) {
		x[token] = tokenAt(p, at.token + token) + tiles.column + first * Decoder::columns + 4 * Decoder::dwords * at.t;
	}
	int left = tiles.count - at.kw;
	for (; left > (UNROLL - 1) * KW; left -= UNROLL * KW) {
		dotStep<Decoder, KW, RT, T, UNROLL>(w, x, at.lane, acc);
	}
	if constexpr (UNROLL > 1) {
		for (; left > 0; left -= KW) {
			dotStep<Decoder, KW, RT, T, 1>(w, x, at.lane, acc);
		}
	}
}

template <class Decoder, int KW, int RT, int T, int UNROLL>
DEVICE void dots(const Mul &p) {
	const auto at = placed<KW, RT, T>();
	int acc[T][RT][2][Decoder::planes] = {};
	dotTiles<Decoder, UNROLL>(p, at, Decoder::tiles(p), acc);
	if constexpr (Decoder::tail) {
		dotTiles<typename Decoder::Tail, 1>(p, at, Decoder::tailTiles(p), acc);
	}
#pragma unroll
	for (int token = 0; token < T; token++) {
#pragma unroll
		for (int r = 0; r < RT; r++) {
#pragma unroll
			for (int row = 0; row < 2; row++) {
				int value = Decoder::combine(acc[token][r][row], row);
				value += exchange(value, 1);
				value += exchange(value, 2);
				if (at.t == row) {
					keep(p, at, token, 16 * r + 8 * row + at.g, value);
				}
			}
		}
	}
	gather(p, at);
}
