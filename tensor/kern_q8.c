/*
 * Products of int8 activations and tiled weights, and the activations'
 * quantization, compiled once for each instruction set with -DKERN_ISA=.
 *
 * A strip is walked in chunks of 256 k, which is a group of activations:
 * `part` is its sum for a block of rows, in registers while it grows, and
 * enters the outputs at the end of the chunk. For many rows the chunk's codes
 * are first brought into the order of the dot products, in the workspace; for
 * few that happens in registers. Either way the same operations follow, so
 * neither can be told from the result.
 */
#include "tensor/kern_q8.h"

/* ---- quantize ---- */

/* NaN becomes 0. */
static ALWAYS_INLINE vec saturated(vec v)
{
	v = pickf(v == v, v, all(0));
	v = pickf(v > Q8_HUGE, all(Q8_HUGE), v);
	return pickf(v < -Q8_HUGE, all(-Q8_HUGE), v);
}

static float largest(const float *x, unsigned n)
{
	vec most = { 0 };
	float m = 0;

	for (unsigned i = 0; i < n; i += VEC_LANES) {
		const vec v = saturated(load(x + i));
		const vec a = (vec)((ivec)v & INT32_MAX);

		most = pickf(a > most, a, most);
	}
	for (int l = 0; l < VEC_LANES; l++)
		m = most[l] > m ? most[l] : m;
	return m;
}

/* q[n] = x * inverse, to the nearest integer, ties to even. */
static void codes_of(int8_t *q, const float *x, unsigned n, float inverse)
{
	const float magic = 0x1.8p23f; /* adding it rounds to an integer */

	for (unsigned i = 0; i < n; i += VEC_LANES) {
		const vec v = saturated(load(x + i)) * inverse + magic;
		const ivec c = (ivec)v - (ivec)all(magic);

		for (int l = 0; l < VEC_LANES; l++)
			q[i + l] = (int8_t)c[l];
	}
}

static void turn(int8_t *restrict to, const int8_t *restrict q)
{
	for (int s = 0; s < 4; s++)
		for (int i = 0; i < 4; i++)
			to[4 * s + i] = q[s + 4 * i];
}

void JOIN(kern_quantize_, KERN_ISA)(void *dst, const float *x, unsigned k)
{
	uint8_t *const p = dst;
	int8_t *const q = dst, *const turned = q + q8_turned_at(k);
	const size_t scale_at = q8_scale_at(k);
	size_t end = scale_at;

	for (unsigned i = 0; i < k; i += Q8_GROUP, end += sizeof(float)) {
		const unsigned n = k - i < Q8_GROUP ? k - i : Q8_GROUP;
		const float most = largest(x + i, n);
		const bool zero = most < Q8_TINY;
		const float scale = zero ? 0 : most / 127;

		codes_of(q + i, x + i, n, zero ? 0 : 127 / most);
		memcpy(p + end, &scale, sizeof(scale));
	}
	for (unsigned i = 0; i < k; i += 16)
		turn(turned + i, q + i);
	for (unsigned g = 0; g < k / TILE; g++) {
		int32_t sum = 0, start;

		for (int i = 0; i < TILE; i++)
			sum += q[g * TILE + i];
		start = -8 * sum;
		memcpy(p + q8_start_at(k, true) + 4 * g, &start, 4);
		start = -128 * sum;
		memcpy(p + q8_start_at(k, false) + 4 * g, &start, 4);
	}
	memset(p + end, 0, q8_row_bytes(k) - end);
}

/* ---- chunks ---- */

/* 256 k of a strip, or what is left of it. */
struct chunk {
	const uint8_t *w; /* the first tile, as it is stored */
	unsigned tiles;
	const struct ready *ready; /* its codes in order, in the workspace */
	/* The next one, to be fetched beside the work on this one; NULL once
	 * it was asked for. */
	const uint8_t *next;
};

/* Rows of activations from the chunk's k on. */
struct block {
	const uint8_t *codes, *start, *scale;
	size_t row_bytes;
};

#if VEC_LANES > 4

/* Rows in registers beside two vectors of outputs: an integer and a float32
 * sum each. */
#define ROWS   (VEC_LANES == 16 ? 6 : 3)
#define TURNED true

/*
 * So few rows that it does not pay to store codes: for nibbles, whose decoding
 * costs as much as three rows, one register tile; for bytes, which want no
 * more than an exclusive or, several. None without AVX-512, whose registers
 * hold a strip.
 */
static ALWAYS_INLINE unsigned few(bool four)
{
	return VEC_LANES < 16 ? 0 : four ? ROWS : 4 * ROWS;
}

struct ready {
	struct half half[Q8_TILES][2];
	vec scale[Q8_TILES][STRIP_VECS];
};

static ALWAYS_INLINE void make_ready(
	struct ready *to, const struct chunk *c, bool four)
{
	for (unsigned t = 0; t < c->tiles; t++) {
		const uint8_t *tile = c->w + t * tile_size(four);

		half_codes(&to->half[t][0], tile, 0, four);
		half_codes(&to->half[t][1], tile, 1, four);
		tile_scales(to->scale[t], tile, four);
	}
}

/* What one step works on: `rows` rows by two vectors of outputs, from v on. */
struct shape {
	int rows, v;
	bool four;
};

/*
 * One of six rows, from three addresses: six would leave the compiler no
 * registers for what else it steps through, so it must not know what the
 * third is made of.
 */
struct six {
	const uint8_t *first, *fourth;
	size_t stride;
};

static ALWAYS_INLINE struct six six_rows(const uint8_t *p, size_t stride)
{
	struct six s = { p, p + 3 * stride, stride };

	__asm__("" : "+r"(s.fourth));
	return s;
}

static ALWAYS_INLINE ivec six_get(const struct six *s, int r, size_t at)
{
	return all32((r < 3 ? s->first + r * s->stride
			    : s->fourth + (r - 3) * s->stride) +
		at);
}

static ALWAYS_INLINE void add_half(ivec (*acc)[2], const struct half *h,
	const struct six *x, int half, const struct shape s)
{
	for (int i = 0; i < 4; i++)
		for (int r = 0; r < s.rows; r++) {
			const ivec c = six_get(x, r, half * 16 + 4 * i);

			for (int v = 0; v < 2; v++)
				acc[r][v] = dot(
					acc[r][v], h->w[i][s.v + v], c, s.four);
		}
}

/* Tile t of the chunk. */
static ALWAYS_INLINE void add_tile(vec (*sum)[2], const struct chunk *c,
	const struct block *b, unsigned t, const struct shape s,
	const bool ready)
{
	const uint8_t *tile = c->w + t * tile_size(s.four);
	const struct six x = six_rows(b->codes + t * TILE, b->row_bytes);
	const struct six from = six_rows(b->start + t * 4, b->row_bytes);
	ivec acc[ROWS][2], start[ROWS];
	vec scale[STRIP_VECS];
	struct half half;

	for (int r = 0; r < s.rows; r++) {
		start[r] = six_get(&from, r, 0);
		acc[r][0] = acc[r][1] = sum_begin(start[r]);
	}
	if (!ready)
		prefetch(tile + AHEAD, s.four);
	else if (c->next)
		prefetch(c->next + t * tile_size(s.four), s.four);
#pragma GCC unroll 2
	for (int h = 0; h < 2; h++) {
		if (!ready)
			half_codes(&half, tile, h, s.four);
		add_half(acc, ready ? &c->ready->half[t][h] : &half, &x, h, s);
	}
	if (!ready)
		tile_scales(scale, tile, s.four);
	for (int v = 0; v < 2; v++) {
		const vec d =
			ready ? c->ready->scale[t][s.v + v] : scale[s.v + v];

		for (int r = 0; r < s.rows; r++)
			sum[r][v] = fma_vec(
				__builtin_convertvector(
					sum_end(acc[r][v], start[r], s.four),
					vec),
				d, sum[r][v]);
	}
}

static ALWAYS_INLINE void chunk_sums(float part[][TILE], const struct chunk *c,
	const struct block *b, const int rows, const bool four,
	const bool ready)
{
	for (int v = 0; v < STRIP_VECS; v += 2) {
		const struct shape s = { rows, v, four };
		vec sum[ROWS][2] = { 0 };

		for (unsigned t = 0; t < c->tiles; t++)
			add_tile(sum, c, b, t, s, ready);
		for (int r = 0; r < rows; r++)
			store_pair(part[r], sum[r][0], sum[r][1], v, four);
	}
}

/* Of several register tiles each has half of ROWS or more: rows_next. */
#define SUMS(n)                                                        \
	case n:                                                        \
		if (n <= ROWS &&                                       \
			(few(four) ? !ready || 2 * n >= ROWS : ready)) \
			chunk_sums(part, c, b, n, four, ready);        \
		break;

static ALWAYS_INLINE void sums(float part[][TILE], const struct chunk *c,
	const struct block *b, unsigned rows, const bool four, const bool ready)
{
	switch (rows) {
		SUMS(1)
		SUMS(2)
		SUMS(3)
		SUMS(4)
		SUMS(5)
		SUMS(6)
	}
}

#else

#define ROWS   6
#define TURNED false

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
 * Sums of 32 products with a nibble fit int16 (32 * 8 * 127 = 32512), and of
 * two with an int8 (2 * 128 * 127).
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

static ALWAYS_INLINE void sums(float part[][TILE], const struct chunk *c,
	const struct block *b, unsigned rows, const bool four, const bool ready)
{
	for (unsigned r = 0; r < rows; r++) {
		const int8_t *x = (const int8_t *)b->codes + r * b->row_bytes;

		memset(part[r], 0, sizeof(part[r]));
		for (unsigned t = 0; t < c->tiles; t++) {
			int32_t acc[TILE] = { 0 };

			add_codes(
				acc, c->ready->w[t * TILE], x + t * TILE, four);
			for (int n = 0; n < TILE; n++)
				part[r][n] = __builtin_fmaf((float)acc[n],
					c->ready->scale[t][n], part[r][n]);
		}
	}
}

#endif

_Static_assert(sizeof(struct ready) <= TILE_SCRATCH, "workspace");

/* ---- strips ---- */

/* The outputs of a strip that are wanted, of one row. */
static void enter(
	float *y, const float *part, float scale, unsigned n, bool first)
{
	if (n == TILE) {
		for (int i = 0; i < TILE; i += VEC_LANES)
			store(y + i,
				fma_vec(load(part + i), all(scale),
					first ? all(0) : load(y + i)));
		return;
	}
	for (unsigned i = 0; i < n; i++)
		y[i] = __builtin_fmaf(part[i], scale, first ? 0 : y[i]);
}

struct out {
	float *y;
	size_t ldy;
	unsigned rows, n;
};

/* All rows by one chunk of a strip. */
static ALWAYS_INLINE void chunk_rows(const struct out *o, struct chunk c,
	struct block b, const bool first, const bool four, const bool ready)
{
	float part[ROWS][TILE] __attribute__((aligned(64)));
	float *y = o->y;
	unsigned step;

	for (unsigned left = o->rows; left; left -= step) {
		step = rows_next(left, ROWS);
		sums(part, &c, &b, step, four, ready);
		for (unsigned r = 0; r < step; r++, y += o->ldy) {
			float scale;

			memcpy(&scale, b.scale + r * b.row_bytes, 4);
			enter(y, part[r], scale, o->n, first);
		}
		b.codes += step * b.row_bytes;
		b.start += step * b.row_bytes;
		b.scale += step * b.row_bytes;
		c.next = NULL;
	}
}

static ALWAYS_INLINE void strip(const struct out *o, const uint8_t *xq,
	const uint8_t *w, unsigned k, struct ready *ready, const bool four,
	const bool store_codes)
{
	struct chunk c = { .w = w, .ready = ready };
	struct block b = { xq + (four && TURNED ? q8_turned_at(k) : 0),
		xq + q8_start_at(k, four), xq + q8_scale_at(k),
		q8_row_bytes(k) };

	for (unsigned i = 0; i < k / TILE; i += Q8_TILES) {
		c.tiles = k / TILE - i < Q8_TILES ? k / TILE - i : Q8_TILES;
		if (store_codes)
			make_ready(ready, &c, four);
		c.next = c.w + Q8_TILES * tile_size(four);
		chunk_rows(o, c, b, i == 0, four, store_codes);
		c.w = c.next;
		b.codes += Q8_GROUP;
		b.start += Q8_TILES * sizeof(int32_t);
		b.scale += sizeof(float);
	}
}

/* A function of its own for each way to do it: together they want more
 * registers than there are. */
#define STRIP_FN(name, four, store_codes)                                     \
	static __attribute__((noinline)) void name(const struct out *o,       \
		const uint8_t *xq, const uint8_t *w, unsigned k, void *ready) \
	{                                                                     \
		strip(o, xq, w, k, ready, four, store_codes);                 \
	}

STRIP_FN(q4_few, true, false)
STRIP_FN(q8_few, false, false)
STRIP_FN(q4_many, true, true)
STRIP_FN(q8_many, false, true)

void JOIN(kern_matmul_q8_, KERN_ISA)(float *y, size_t ldy, const void *xq,
	unsigned rows, enum dtype wt, const void *w, unsigned n, unsigned k,
	void *scratch)
{
	const bool four = wt == DTYPE_TILE_Q4_0;
	const size_t bytes = k / TILE * tile_size(four);
	const uint8_t *at = w;

	for (unsigned j = 0; j < n; j += TILE, at += bytes) {
		const struct out o = { y + j, ldy, rows,
			n - j < TILE ? n - j : TILE };

		if (rows > few(four))
			(four ? q4_many : q8_many)(&o, xq, at, k, scratch);
		else
			(four ? q4_few : q8_few)(&o, xq, at, k, scratch);
	}
}
