/*
 * matmul_q8 on AMX, for more rows than its registers of vectors want: 16 rows
 * by 16 outputs by the 32 k of a group are one instruction, whose sums go by
 * way of the nearest cache into the same float32 steps as kern_q8.c's.
 *
 * Private to kern_q8.c, which has made codes ready in its own order; here they
 * are signed, so that nothing is to be made up for.
 */
#ifndef TENSOR_KERN_Q8_AMX_H
#define TENSOR_KERN_Q8_AMX_H

#ifdef __AVX512VNNI__

#define AMX_ROWS  16
#define AMX_LEAST 32 /* rows: for fewer, vectors do as well */
#define AMX_FN    __attribute__((target("amx-tile,amx-int8")))

/* Sums of groups, two of them in turn. */
struct amx_sums {
	int32_t at[2][AMX_ROWS][VEC_LANES];
};

/* Tile register 0: sums; 1: codes of rows; 2: codes of weights. */
static AMX_FN void amx_shape(unsigned rows)
{
	struct {
		uint8_t palette, start_row, zero[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} cfg = { .palette = 1,
		.bytes = { VEC_LANES * 4, TILE, VEC_LANES * 4 },
		.rows = { (uint8_t)rows, (uint8_t)rows, TILE / 4 } };

	_Static_assert(sizeof(cfg) == 64, "as the instruction wants it");
	__asm__ volatile("" ::"m"(cfg));
	_tile_loadconfig(&cfg);
}

static ALWAYS_INLINE AMX_FN void amx_group(struct amx_sums *s, unsigned t,
	int v, const struct chunk *c, const struct block *b)
{
	_tile_zero(0);
	_tile_loadd(1, b->codes + t * TILE, b->row_bytes);
	_tile_loadd(2, &c->ready->tile[t].half[0].w[0][v],
		STRIP_VECS * sizeof(ivec));
	_tile_dpbssd(0, 1, 2);
	_tile_stored(0, s->at[t % 2], sizeof(s->at[0][0]));
}

static ALWAYS_INLINE void amx_prefetch(struct block *next)
{
#pragma GCC unroll 4
	for (int i = 0; i < Q8_GROUP; i += 64)
		__builtin_prefetch(next->codes + i);
	__builtin_prefetch(next->scale);
	__builtin_prefetch(next->y);
	__builtin_prefetch(next->y + TILE / 2);
	step_rows(next, 1);
}

/* part[r][v] = the chunk's sums of a vector of outputs. */
static ALWAYS_INLINE AMX_FN void amx_chunk(vec (*part)[2], int v,
	const struct chunk *c, const struct block *b, struct block *next,
	const int rows)
{
	struct amx_sums s __attribute__((aligned(64)));
	vec sum[AMX_ROWS] = { 0 };

	amx_group(&s, 0, v, c, b);
	for (unsigned t = 0; t < c->tiles; t++) {
		const vec d = c->ready->tile[t].scale[v];

		if (t + 1 < c->tiles)
			amx_group(&s, t + 1, v, c, b);
		amx_prefetch(next);
#pragma GCC unroll 16
		for (int r = 0; r < rows; r++) {
			const ivec i = *(const ivec *)s.at[t % 2][r];

			sum[r] = fma_vec(
				__builtin_convertvector(i, vec), d, sum[r]);
		}
	}
#pragma GCC unroll 16
	for (int r = 0; r < rows; r++)
		part[r][v] = sum[r];
}

static ALWAYS_INLINE AMX_FN void amx_rows(
	const struct chunk *c, struct block b, unsigned rows, const bool four)
{
	for (unsigned n; rows; rows -= n) {
		const struct shape one = { .rows = 1, .four = four };
		struct block next = b;
		vec part[AMX_ROWS][2];

		n = rows < AMX_ROWS ? rows : AMX_ROWS;
		if (n < AMX_ROWS)
			amx_shape(n);
		step_rows(&next, n);
		for (int v = 0; v < STRIP_VECS; v++)
			if (n > AMX_ROWS / 2)
				amx_chunk(part, v, c, &b, &next, AMX_ROWS);
			else
				amx_chunk(part, v, c, &b, &next, AMX_ROWS / 2);
		for (unsigned r = 0; r < n; r++, step_rows(&b, 1))
			enter_sums(&part[r], b, one, b.first);
	}
}

static ALWAYS_INLINE void amx_signed(
	struct ready *to, unsigned tiles, const bool four)
{
	for (unsigned t = 0; t < tiles; t++)
		for (int i = 0; i < TILE / 4; i++)
			for (int v = 0; v < STRIP_VECS; v++) {
				ivec *w = &to->tile[t].half[i / 4].w[i % 4][v];

				*w = four ? (ivec)_mm512_sub_epi8((__m512i)*w,
						    _mm512_set1_epi8(8))
					  : *w ^ (int32_t)0x80808080;
			}
}

/* As strip(). */
static ALWAYS_INLINE AMX_FN void amx_strip(struct block b, const uint8_t *w,
	unsigned rows, unsigned k, struct ready *ready, const bool four)
{
	struct chunk c = { .w = w, .ready = ready };

	for (unsigned i = 0; i < k / TILE; i += Q8_TILES) {
		c.tiles = k / TILE - i < Q8_TILES ? k / TILE - i : Q8_TILES;
		make_ready(ready, &c, four);
		amx_signed(ready, c.tiles, four);
		__asm__ volatile("" ::: "memory"); /* tiles are loaded by it */
		amx_shape(AMX_ROWS);
		amx_rows(&c, b, rows, four);
		c.w += Q8_TILES * tile_size(four);
		b.codes += Q8_GROUP;
		b.scale += sizeof(float);
		b.first = false;
	}
	_tile_release();
}

static AMX_FN void q4_amx(const struct block *b, const uint8_t *w,
	unsigned rows, unsigned k, void *scratch)
{
	amx_strip(*b, w, rows, k, scratch, true);
}

static AMX_FN void q8_amx(const struct block *b, const uint8_t *w,
	unsigned rows, unsigned k, void *scratch)
{
	amx_strip(*b, w, rows, k, scratch, false);
}

#endif

#endif
