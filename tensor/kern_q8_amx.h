/*
 * matmul_q8 with AMX, for more rows than vector registers can hold. One
 * instruction multiplies 16 rows by 16 outputs over the 32 inputs (indices k)
 * of a group. The int32 sums are stored to memory that stays in the L1 cache;
 * then the same float32 steps follow as in kern_q8.c. AMX multiplies signed
 * weights, so no correction is needed: int8 codes are used as they are stored,
 * and nibbles are converted to int8 for one chunk (256 inputs) at a time.
 *
 * Private to kern_q8.c.
 */
#ifndef TENSOR_KERN_Q8_AMX_H
#define TENSOR_KERN_Q8_AMX_H

#ifdef __AVX512VNNI__

#define AMX_ROWS 16
/* the smallest number of rows for which AMX is used; for fewer rows vector
 * instructions are as fast */
#define AMX_LEAST 13
#define AMX_FN    __attribute__((target("amx-tile,amx-int8,gfni")))

/*
 * AMX_LAG is the number of groups (32 inputs each) between a product and the
 * use of its sums. AMX_LAG is large enough that no instruction waits for a tile
 * register, and small enough that the stored sums fit into 4 KiB. With more
 * sums, other data would be evicted from the L1 cache, and the CPU would delay
 * loads, because it treats a load and an earlier store whose addresses differ
 * by 4 KiB as dependent.
 */
#define AMX_LAG  3
#define AMX_RING 4

/*
 * The int32 sums of the last AMX_RING groups. Entries for tiles beyond the end
 * of a chunk keep old values, which are multiplied by a scale of 0. Entries for
 * rows beyond the end of a block keep old values too, which do not reach the
 * outputs.
 */
struct amx_sums {
	int32_t at[AMX_RING][AMX_ROWS][VEC_LANES];
};

/*
 * Configure the tile registers. Register 0 has the sums of a block of rows, and
 * register 1 the block's codes. Registers 2 and 3 have the sums and the codes
 * of the last block, which may have fewer rows. Register 4 has codes of
 * weights.
 */
static AMX_FN void amx_shape(unsigned rows)
{
	const uint8_t most = rows < AMX_ROWS ? (uint8_t)rows : AMX_ROWS;
	const uint8_t last = (rows - 1) % AMX_ROWS + 1;
	const struct {
		uint8_t palette, start_row, zero[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} shapes = { .palette = 1,
		.bytes = { VEC_LANES * 4, TILE, VEC_LANES * 4, TILE,
			VEC_LANES * 4 },
		.rows = { most, most, last, last, TILE / 4 } };

	_Static_assert(sizeof(shapes) == 64, "the instruction's format");
	__asm__ volatile("" ::"m"(shapes));
	_tile_loadconfig(&shapes);
}

static ALWAYS_INLINE AMX_FN void amx_group(struct amx_sums *s, unsigned t,
	int v, const struct chunk *c, const struct block *b, const bool last,
	const bool four)
{
	const void *w = four
		? (const void *)&c->ready->half[t][0].w[0][v]
		: c->w + t * tile_size(false) + (size_t)v * sizeof(ivec);
	void *to = s->at[t % AMX_RING];

	_tile_loadd(4, w, STRIP_VECS * sizeof(ivec));
	if (last) {
		_tile_zero(2);
		_tile_loadd(3, b->codes + t * TILE, b->row_bytes);
		_tile_dpbssd(2, 3, 4);
		_tile_stored(2, to, sizeof(s->at[0][0]));
	} else {
		_tile_zero(0);
		_tile_loadd(1, b->codes + t * TILE, b->row_bytes);
		_tile_dpbssd(0, 1, 4);
		_tile_stored(0, to, sizeof(s->at[0][0]));
	}
}

static ALWAYS_INLINE void amx_add(vec *sum, const struct amx_sums *s,
	unsigned t, int v, const struct chunk *c)
{
	const vec d = c->ready->scale[t][v];

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

/* Process all groups of a chunk for vector v (0 or 1) of the outputs. The sums
 * of a group are added AMX_LAG groups later, so the first steps add the last
 * sums of the other vector, which was processed before. */
static ALWAYS_INLINE AMX_FN void amx_vector(vec *sum, vec (*part)[2],
	struct amx_sums *s, const int v, const struct chunk *c,
	const struct block *b, struct ahead *ahead, const bool last,
	const bool four)
{
#pragma GCC unroll 8
	for (unsigned t = 0; t < Q8_TILES; t++) {
		if (t < c->tiles)
			amx_group(s, t, v, c, b, last, four);
		fetch_step(ahead);
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

static ALWAYS_INLINE AMX_FN void amx_rows(const struct chunk *c, struct block b,
	unsigned rows, struct ahead *ahead, const bool four)
{
	struct amx_sums s __attribute__((aligned(64)));
	struct block done = b;
	vec part[AMX_ROWS][2], sum[AMX_ROWS] = { 0 };
	unsigned had = 0;

	for (unsigned n; rows; rows -= n, had = n) {
		n = rows < AMX_ROWS ? rows : AMX_ROWS;
		rows_after(ahead, b, n, rows - n);
		if (n == AMX_ROWS)
			amx_vector(sum, part, &s, 0, c, &b, ahead, false, four);
		else
			amx_vector(sum, part, &s, 0, c, &b, ahead, true, four);
		amx_enter(part, &done, had, four);
		if (n == AMX_ROWS)
			amx_vector(sum, part, &s, 1, c, &b, ahead, false, four);
		else
			amx_vector(sum, part, &s, 1, c, &b, ahead, true, four);
		step_rows(&b, n);
	}
#pragma GCC unroll 8
	for (unsigned t = Q8_TILES - AMX_LAG; t < Q8_TILES; t++)
		amx_add(sum, &s, t, 1, c);
	amx_take(part, 1, sum);
	amx_enter(part, &done, had, four);
}

/*
 * Convert nibbles n to bytes n - 8. The lowest three bits of n - 8 are the
 * lowest three bits of n, and all its other bits are the inverse of n's highest
 * bit. Row i of the bit matrix, counted from its last byte, selects the bits of
 * n whose sum mod 2 is bit i of the result.
 */
static ALWAYS_INLINE AMX_FN ivec amx_low(ivec q)
{
	return (ivec)_mm512_gf2p8affine_epi64_epi8(
		(__m512i)q, _mm512_set1_epi64(0x0102040808080808), 0xf8);
}

static ALWAYS_INLINE AMX_FN ivec amx_high(ivec q)
{
	return (ivec)_mm512_gf2p8affine_epi64_epi8(
		(__m512i)q, _mm512_set1_epi64(0x1020408080808080), 0xf8);
}

/* Prepare a chunk for the AMX kernel, as make_ready() does for the vector
 * kernel. For int8 weights only the scales are prepared. */
static ALWAYS_INLINE AMX_FN void amx_ready(
	struct ready *to, const struct chunk *c, const bool four)
{
	for (unsigned t = 0; t < c->tiles; t++) {
		const uint8_t *tile = c->w + t * tile_size(four);

		for (int h = 0; four && h < 2; h++)
			for (int v = 0; v < STRIP_VECS; v++) {
				const struct pairs q =
					nibble_pairs(tile + h * 256, v);
				ivec(*w)[STRIP_VECS] = to->half[t][h].w;

				w[0][v] = amx_low(q.even);
				w[1][v] = amx_high(q.even);
				w[2][v] = amx_low(q.odd);
				w[3][v] = amx_high(q.odd);
			}
		tile_scales(to->scale[t], tile, four);
	}
	for (unsigned t = c->tiles; t < Q8_TILES; t++)
		memset(to->scale[t], 0, sizeof(to->scale[t]));
}

/* Process a strip (32 outputs) with AMX, as strip() in kern_q8.c does with
 * vectors. */
static ALWAYS_INLINE AMX_FN void amx_strip(struct block b, const uint8_t *w,
	unsigned rows, unsigned k, struct ready *ready, const bool four)
{
	const size_t bytes = Q8_TILES * tile_size(four);
	const unsigned blocks = (rows + AMX_ROWS - 1) / AMX_ROWS;
	struct ahead ahead = {
		.lines = lines_a_step(bytes, blocks * STRIP_VECS * Q8_TILES),
	};
	struct chunk c = { .w = w, .ready = ready };

	amx_shape(rows);
	for (unsigned i = 0; i < k / TILE; i += Q8_TILES) {
		c.tiles = k / TILE - i < Q8_TILES ? k / TILE - i : Q8_TILES;
		ahead.weights = c.w + bytes;
		amx_ready(ready, &c, four);
		/* keep the stores to *ready before the loads of tile registers,
		 * which the compiler does not know to read *ready */
		__asm__ volatile("" ::: "memory");
		amx_rows(&c, b, rows, &ahead, four);
		c.w += bytes;
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
