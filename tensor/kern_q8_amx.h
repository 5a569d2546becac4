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

/*
 * Groups between a product and the use of its sums: so many that nothing waits
 * for a tile, and so few that what is written by then is one page of the
 * nearest cache. With more, loads are taken to depend on the stores a page
 * away, and other data is pushed out.
 */
#define AMX_LAG  3
#define AMX_RING 4

/* Tiles that a chunk lacks, and rows that a block does, leave what was there:
 * the former have a scale of 0, the latter are not entered. */
struct amx_sums {
	int32_t at[AMX_RING][AMX_ROWS][VEC_LANES];
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
	_tile_stored(0, s->at[t % AMX_RING], sizeof(s->at[0][0]));
}

/* One row's outputs, and codes of the block of rows behind. */
static ALWAYS_INLINE void amx_prefetch(struct block *b)
{
#pragma GCC unroll 4
	for (int i = 0; i < Q8_GROUP; i += 64)
		__builtin_prefetch(b->codes + AMX_ROWS * b->row_bytes + i);
	__builtin_prefetch(b->scale);
	__builtin_prefetch(b->y);
	__builtin_prefetch(b->y + TILE / 2);
	step_rows(b, 1);
}

static ALWAYS_INLINE void amx_add(vec *sum, const struct amx_sums *s,
	unsigned t, int v, const struct chunk *c)
{
	const vec d = c->ready->tile[t].scale[v];

#pragma GCC unroll 16
	for (int r = 0; r < AMX_ROWS; r++) {
		const ivec i = *(const ivec *)s->at[t % AMX_RING][r];

		sum[r] = fma_vec(__builtin_convertvector(i, vec), d, sum[r]);
	}
}

static ALWAYS_INLINE void amx_take(vec (*part)[2], int v, vec *sum)
{
#pragma GCC unroll 16
	for (int r = 0; r < AMX_ROWS; r++) {
		part[r][v] = sum[r];
		sum[r] = all(0);
	}
}

/* The chunk's groups for a vector of outputs, while the sums of the vector
 * before become complete. */
static ALWAYS_INLINE AMX_FN void amx_vector(vec *sum, vec (*part)[2],
	struct amx_sums *s, const int v, const struct chunk *c,
	const struct block *b, struct block *ahead)
{
#pragma GCC unroll 8
	for (unsigned t = 0; t < Q8_TILES; t++) {
		if (t < c->tiles)
			amx_group(s, t, v, c, b);
		amx_prefetch(ahead);
		if (t == AMX_LAG)
			amx_take(part, !v, sum);
		amx_add(sum, s, (t - AMX_LAG) % Q8_TILES, t < AMX_LAG ? !v : v,
			c);
	}
}

static ALWAYS_INLINE void amx_enter(
	vec (*part)[2], struct block *b, unsigned rows, const bool four)
{
	const struct shape one = { .rows = 1, .four = four };

	for (unsigned r = 0; r < rows; r++, step_rows(b, 1))
		enter_sums(&part[r], *b, one, b->first);
}

static ALWAYS_INLINE AMX_FN void amx_rows(
	const struct chunk *c, struct block b, unsigned rows, const bool four)
{
	struct amx_sums s __attribute__((aligned(64)));
	struct block done = b, ahead = b;
	vec part[AMX_ROWS][2], sum[AMX_ROWS] = { 0 };
	unsigned had = 0;

	for (unsigned n; rows; rows -= n, had = n) {
		n = rows < AMX_ROWS ? rows : AMX_ROWS;
		if (n < AMX_ROWS)
			amx_shape(n);
		amx_vector(sum, part, &s, 0, c, &b, &ahead);
		amx_enter(part, &done, had, four);
		amx_vector(sum, part, &s, 1, c, &b, &ahead);
		step_rows(&b, n);
	}
#pragma GCC unroll 8
	for (unsigned t = Q8_TILES - AMX_LAG; t < Q8_TILES; t++)
		amx_add(sum, &s, t, 1, c);
	amx_take(part, 1, sum);
	amx_enter(part, &done, had, four);
}

static ALWAYS_INLINE void amx_signed(
	struct half *to, const struct half *h, const bool four)
{
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		for (int v = 0; v < STRIP_VECS; v++) {
			const ivec w = h->w[i][v];

			to->w[i][v] = four ? (ivec)_mm512_sub_epi8((__m512i)w,
						     _mm512_set1_epi8(8))
					   : w ^ (int32_t)0x80808080;
		}
}

/* As make_ready(). */
static ALWAYS_INLINE void amx_ready(
	struct ready *to, const struct chunk *c, const bool four)
{
	for (unsigned t = 0; t < c->tiles; t++) {
		const uint8_t *tile = c->w + t * tile_size(four);

		prefetch(tile + Q8_TILES * tile_size(four), four);
		for (int h = 0; h < 2; h++) {
			struct half from;

			half_codes(&from, tile, h, four);
			amx_signed(&to->tile[t].half[h], &from, four);
		}
		tile_scales(to->tile[t].scale, tile, four);
	}
	for (unsigned t = c->tiles; t < Q8_TILES; t++)
		memset(to->tile[t].scale, 0, sizeof(to->tile[t].scale));
}

/* As strip(). */
static ALWAYS_INLINE AMX_FN void amx_strip(struct block b, const uint8_t *w,
	unsigned rows, unsigned k, struct ready *ready, const bool four)
{
	struct chunk c = { .w = w, .ready = ready };

	for (unsigned i = 0; i < k / TILE; i += Q8_TILES) {
		c.tiles = k / TILE - i < Q8_TILES ? k / TILE - i : Q8_TILES;
		amx_ready(ready, &c, four);
		__asm__ volatile("" ::: "memory"); /* tiles are loaded by it */
		if (b.first || rows % AMX_ROWS)
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
