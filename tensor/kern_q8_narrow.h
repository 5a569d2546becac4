/*
 * The micro-kernel of kern_q8.c in plain C, for vectors of four lanes without
 * dot-product instructions. The micro-kernel processes one row at a time and
 * sums products in int16 as long as the sums fit. This file defines the same
 * names as kern_q8_wide.h.
 *
 * Private to kern_q8.c.
 */
#ifndef TENSOR_KERN_Q8_NARROW_H
#define TENSOR_KERN_Q8_NARROW_H

#include "tensor/kern_q8_chunk.h"

#ifndef Q8_WIDE

#define ROWS     6
#define FEW_ROWS ROWS
#define PERMUTED false

static ALWAYS_INLINE unsigned chunk_steps(unsigned rows)
{
	return rows * Q8_TILES;
}

static ALWAYS_INLINE unsigned few(bool four)
{
	return 0;
}

struct ready {
	int16_t w[Q8_GROUP][TILE];
	float scale[Q8_TILES][TILE];
};

static void ready_nibbles(int16_t (*w)[TILE], const uint8_t *tile)
{
	for (int p = 0; p < TILE / 2; p++)
		for (int n = 0; n < TILE; n++) {
			const uint8_t b = tile[p * TILE + n];

			w[2 * p][n] = (int16_t)((b & 15) - 8);
			w[2 * p + 1][n] = (int16_t)((b >> 4) - 8);
		}
}

static void ready_bytes(int16_t (*w)[TILE], const uint8_t *tile)
{
	for (int k = 0; k < TILE; k += 4)
		for (int n = 0; n < TILE; n++)
			for (int i = 0; i < 4; i++)
				w[k + i][n] =
					(int8_t)tile[k * TILE + n * 4 + i];
}

static ALWAYS_INLINE void make_ready(
	struct ready *to, const struct chunk *c, bool four)
{
	for (unsigned t = 0; t < c->tiles; t++) {
		const uint8_t *tile = c->w + t * tile_size(four);

		if (four)
			ready_nibbles(to->w + t * TILE, tile);
		else
			ready_bytes(to->w + t * TILE, tile);
		for (int n = 0; n < TILE; n += VEC_LANES)
			store(to->scale[t] + n,
				load_f16(tile + tile_size(four) - 64 + 2 * n));
	}
}

/*
 * The sum of 32 products of a nibble and an int8 code fits int16 (32 * 8 * 127
 * = 32512). For two int8 codes, only the sum of two products fits (2 * 128 *
 * 127 = 32512).
 */
static ALWAYS_INLINE void add_codes(int32_t *restrict acc,
	const int16_t *restrict w, const int8_t *restrict x, const bool four)
{
	const int step = four ? TILE : 2;

	for (int k = 0; k < TILE; k += step) {
		int16_t s[TILE] = { 0 };

		for (int i = k; i < k + step; i++)
			for (int n = 0; n < TILE; n++)
				s[n] = (int16_t)(s[n] + w[i * TILE + n] * x[i]);
		for (int n = 0; n < TILE; n++)
			acc[n] += s[n];
	}
}

static ALWAYS_INLINE void multiply(const struct chunk *c, struct block b,
	unsigned rows, unsigned count, unsigned after, struct ahead *ahead,
	const bool four, const bool ready)
{
	const struct ready *w = c->ready;

	for (unsigned r = rows * count; r; r--, step_rows(&b, 1)) {
		const int8_t *x = (const int8_t *)b.codes;
		float part[TILE] = { 0 };

		rows_after(ahead, b, 1, r - 1 + after);
		for (unsigned t = 0; t < c->tiles; t++) {
			int32_t acc[TILE] = { 0 };

			fetch_step(ahead);

			add_codes(acc, w->w[t * TILE], x + t * TILE, four);
			for (int n = 0; n < TILE; n++)
				part[n] = __builtin_fmaf(
					(float)acc[n], w->scale[t][n], part[n]);
		}
		for (int n = 0; n < TILE; n += VEC_LANES)
			enter(b.y + n, load(part + n), scale_of(&b), b.first);
	}
}

#endif

#endif
