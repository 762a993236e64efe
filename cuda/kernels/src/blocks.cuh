// blocks.cuh multiplies by tensor cores for many tokens: WARPS warps with rows of their own share 8*TT tokens, whose
// activations come to shared memory STAGES steps ahead. Weights go straight to registers, as in fragments.cuh.
#pragma once

#include "mul.cuh"
#include "tensor.cuh"

// A stage is one tile's columns of all tokens. Its 16-byte pieces are moved by one in every other token: so the eight
// lanes that read together, from two tokens, meet all banks.
template <int TOKENS>
DEVICE int pieceAt(int token, int piece) { return token * 128 + ((piece ^ (token & 1)) << 4); }

template <int WARPS, int TOKENS>
DEVICE void fetchStage(const Mul &p, u32 stage, int token, int column) {
#pragma unroll
	for (int first = 0; first < TOKENS * 8; first += WARPS * 32) {
		const int i = first + thread();
		if (TOKENS * 8 % (WARPS * 32) == 0 || i < TOKENS * 8) {
			copyAsync(stage + pieceAt<TOKENS>(i / 8, i % 8), (const void *)(tokenAt(p, token + i / 8) + column + i % 8 * 16));
		}
	}
}

template <class Decoder, int WARPS, int RT, int TT, int STAGES>
DEVICE void blocks(const Mul &p) {
	static_assert(Decoder::columns == 128 && !Decoder::tail);
	constexpr int tokens = 8 * TT, stageBytes = tokens * 128;
	const int lane = thread() % 32, g = lane / 4, t = lane % 4;
	const int tile = (blockX() * WARPS + thread() / 32) * RT, token = blockY() * tokens;
	const Tiles tiles = Decoder::tiles(p);
	const u32 ring = sharedAddress();

#pragma unroll
	for (int s = 0; s < STAGES - 1; s++) {
		if (s < tiles.count) {
			fetchStage<WARPS, tokens>(p, ring + s * stageBytes, token, (tiles.first + s) * 128);
		}
		commitCopies();
	}
	Address w[RT];
	typename Decoder::Words words[RT];
#pragma unroll
	for (int r = 0; r < RT; r++) {
		w[r] = rowTile(p, tile + r, tiles) + tiles.first * Decoder::bytes + 16 * lane;
		words[r] = Decoder::read(w[r], lane, 0);
	}
	int acc[TT][RT][4] = {};
	for (int i = 0; i < tiles.count; i++) {
		waitCopies<STAGES - 2>();
		barrier(); // this stage has arrived for all, and all have left the one before it
		const int ahead = i + STAGES - 1;
		if (ahead < tiles.count) {
			fetchStage<WARPS, tokens>(p, ring + ahead % STAGES * stageBytes, token, (tiles.first + ahead) * 128);
		}
		commitCopies();
		Part<Decoder> part[RT];
#pragma unroll
		for (int r = 0; r < RT; r++) {
			Decoder::decode(part[r], words[r]);
			w[r] += i + 1 < tiles.count ? Decoder::bytes : 0; // the last tile is read twice rather than one behind it
			words[r] = Decoder::read(w[r], lane, 0);
		}
		const u32 stage = ring + i % STAGES * stageBytes;
#pragma unroll
		for (int tt = 0; tt < TT; tt++) {
			u32 xs[8];
			sharedRead(xs, stage + pieceAt<tokens>(8 * tt + g, 2 * t));
			sharedRead(xs + 4, stage + pieceAt<tokens>(8 * tt + g, 2 * t + 1));
#pragma unroll
			for (int r = 0; r < RT; r++) {
				multiply<Decoder>(acc[tt][r], part[r], xs);
			}
		}
	}
#pragma unroll
	for (int i = 0; i < 2 * TT; i++) {
		const Line line = lineOf(p, token + 8 * (i / 2) + 2 * t + i % 2);
#pragma unroll
		for (int r = 0; r < 2 * RT; r++) {
			emit(p, line, 16 * tile + 8 * r + g, acc[i / 2][r / 2][2 * (r % 2) + i % 2]);
		}
	}
}
