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
};

/* Rows of activations from the chunk's k on, and a strip's outputs. */
struct block {
	const uint8_t *codes, *start, *scale;
	size_t row_bytes;
	float *y;
	size_t ldy;
	bool first; /* nothing is in the outputs yet */
};

static ALWAYS_INLINE vec scale_of(const struct block *b)
{
	float scale;

	memcpy(&scale, b->scale, sizeof(scale));
	return all(scale);
}

static ALWAYS_INLINE void enter(float *y, vec part, vec scale, const bool first)
{
	store(y, fma_vec(part, scale, first ? all(0) : load(y)));
}

static ALWAYS_INLINE void step_rows(struct block *b, unsigned rows)
{
	b->codes += rows * b->row_bytes;
	b->start += rows * b->row_bytes;
	b->scale += rows * b->row_bytes;
	b->y += rows * b->ldy;
}

/*
 * What follows in memory the work at hand: the next chunk of weights, and the
 * next rows. It is fetched piece by piece beside the work, because no
 * processor waits for many pieces at a time.
 */
struct ahead {
	const uint8_t *weights;
	unsigned lines; /* pieces of weights, with each step */
	unsigned rows;
	struct block next;
};

static ALWAYS_INLINE void rows_after(
	struct ahead *a, struct block b, unsigned rows, unsigned after)
{
	step_rows(&b, rows);
	a->next = b;
	a->rows = after;
}

/* So many that a chunk of this size is fetched in so many steps. */
static ALWAYS_INLINE unsigned lines_a_step(size_t bytes, unsigned steps)
{
	return (unsigned)(bytes / 64 + steps - 1) / steps;
}

static ALWAYS_INLINE void fetch_step(struct ahead *a)
{
	for (unsigned i = 0; i < a->lines; i++, a->weights += 64)
		__builtin_prefetch(a->weights);
	if (!a->rows)
		return;
#pragma GCC unroll 4
	for (int i = 0; i < Q8_GROUP; i += 64)
		__builtin_prefetch(a->next.codes + i);
	__builtin_prefetch(a->next.start);
	__builtin_prefetch(a->next.scale);
	__builtin_prefetch(a->next.y);
	__builtin_prefetch(a->next.y + TILE / 2);
	step_rows(&a->next, 1);
	a->rows--;
}

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

/* A chunk's codes in the order of the products, and its scales. */
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

static ALWAYS_INLINE void six_step(struct six *s, size_t bytes)
{
	s->first += bytes;
	s->fourth += bytes;
}

/* 16 k, from `at` of the rows on. */
static ALWAYS_INLINE void add_half(ivec (*acc)[2], const struct half *h,
	const struct six *x, size_t at, const struct shape s)
{
	for (int i = 0; i < 4; i++) {
		const ivec w0 = h->w[i][s.v], w1 = h->w[i][s.v + 1];

		for (int r = 0; r < s.rows; r++) {
			const ivec c = six_get(x, r, at + 4 * (size_t)i);

			acc[r][0] = dot(acc[r][0], w0, c, s.four);
			acc[r][1] = dot(acc[r][1], w1, c, s.four);
		}
	}
}

static ALWAYS_INLINE void add_sums(vec (*sum)[2], ivec (*acc)[2],
	const ivec *start, const vec *scale, const struct shape s)
{
	for (int v = 0; v < 2; v++) {
		const vec d = scale[s.v + v];

		for (int r = 0; r < s.rows; r++)
			sum[r][v] = fma_vec(
				__builtin_convertvector(
					sum_end(acc[r][v], start[r], s.four),
					vec),
				d, sum[r][v]);
	}
}

/* The next `rows` rows of a chunk as it is stored. */
static ALWAYS_INLINE void stored_sums(vec (*sum)[2], const struct chunk *c,
	const struct block *b, const struct shape s)
{
	struct six x = six_rows(b->codes, b->row_bytes);
	struct six from = six_rows(b->start, b->row_bytes);
	const uint8_t *tile = c->w;

	for (unsigned n = c->tiles; n; n--, tile += tile_size(s.four)) {
		ivec acc[ROWS][2], start[ROWS];
		vec scale[STRIP_VECS];
		struct half half;

		for (int r = 0; r < s.rows; r++) {
			start[r] = six_get(&from, r, 0);
			acc[r][0] = acc[r][1] = sum_begin(start[r]);
		}
		prefetch(tile + AHEAD, s.four);
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) {
			half_codes(&half, tile, h, s.four);
			add_half(acc, &half, &x, (size_t)h * 16, s);
		}
		tile_scales(scale, tile, s.four);
		add_sums(sum, acc, start, scale, s);
		six_step(&x, TILE);
		six_step(&from, 4);
	}
}

/* The same of one that is ready. */
static ALWAYS_INLINE void ready_sums(vec (*sum)[2], const struct chunk *c,
	const struct block *b, struct ahead *ahead, const struct shape s)
{
	struct six x = six_rows(b->codes, b->row_bytes);
	struct six from = six_rows(b->start, b->row_bytes);

	for (unsigned t = 0; t < c->tiles; t++) {
		ivec acc[ROWS][2], start[ROWS];

		fetch_step(ahead);
		for (int r = 0; r < s.rows; r++) {
			start[r] = six_get(&from, r, 0);
			acc[r][0] = acc[r][1] = sum_begin(start[r]);
		}
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++)
			add_half(acc, &c->ready->half[t][h], &x, (size_t)h * 16,
				s);
		add_sums(sum, acc, start, c->ready->scale[t], s);
		six_step(&x, TILE);
		six_step(&from, 4);
	}
}

static ALWAYS_INLINE void enter_sums(
	vec (*sum)[2], struct block b, const struct shape s, const bool first)
{
	for (int r = 0; r < s.rows; r++) {
		const struct pair p =
			in_order(sum[r][0], sum[r][1], s.v, s.four);
		const vec scale = scale_of(&b);

		enter(b.y + p.at[0], p.v[0], scale, first);
		enter(b.y + p.at[1], p.v[1], scale, first);
		step_rows(&b, 1);
	}
}

/* How many steps a chunk's rows take, each a tile by two vectors of outputs. */
static ALWAYS_INLINE unsigned chunk_steps(unsigned rows)
{
	return (rows + ROWS - 1) / ROWS * (STRIP_VECS / 2) * Q8_TILES;
}

/* `count` times `rows` rows, with `after` behind them. */
static ALWAYS_INLINE void panels(const struct chunk *c, struct block b,
	unsigned count, unsigned after, struct ahead *ahead, const int rows,
	const bool four, const bool ready)
{
	struct shape s = { .rows = rows, .four = four };

	after += (unsigned)rows * count;
	for (; count; count--, step_rows(&b, (unsigned)rows)) {
		after -= (unsigned)rows;
		rows_after(ahead, b, (unsigned)rows, after);
		for (s.v = 0; s.v < STRIP_VECS; s.v += 2) {
			vec sum[ROWS][2] = { 0 };

			if (ready)
				ready_sums(sum, c, &b, ahead, s);
			else
				stored_sums(sum, c, &b, s);
			if (b.first)
				enter_sums(sum, b, s, true);
			else
				enter_sums(sum, b, s, false);
		}
	}
}

/* Of several register tiles each has half of ROWS or more: rows_next. */
#define PANELS(n)                                                          \
	case n:                                                            \
		if (n <= ROWS &&                                           \
			(few(four) ? !ready || 2 * n >= ROWS : ready))     \
			panels(c, b, count, after, ahead, n, four, ready); \
		break;

static ALWAYS_INLINE void multiply(const struct chunk *c, struct block b,
	unsigned rows, unsigned count, unsigned after, struct ahead *ahead,
	const bool four, const bool ready)
{
	switch (rows) {
		PANELS(1)
		PANELS(2)
		PANELS(3)
		PANELS(4)
		PANELS(5)
		PANELS(6)
	}
}

#else

#define ROWS   6
#define TURNED false

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

_Static_assert(sizeof(struct ready) <= TILE_SCRATCH, "workspace");

/* ---- strips ---- */

/* All rows, in register tiles that are as full as rows_next has it. */
static ALWAYS_INLINE void chunk_rows(const struct chunk *c, struct block b,
	unsigned rows, struct ahead *ahead, const bool four, const bool ready)
{
	while (rows) {
		const unsigned step = rows_next(rows, ROWS);
		const unsigned count = rows >= 2 * ROWS ? rows / ROWS - 1 : 1;

		rows -= step * count;
		multiply(c, b, step, count, rows, ahead, four, ready);
		step_rows(&b, step * count);
	}
}

static ALWAYS_INLINE void strip(struct block b, const uint8_t *w, unsigned rows,
	unsigned k, struct ready *ready, const bool four,
	const bool store_codes)
{
	const size_t bytes = Q8_TILES * tile_size(four);
	struct ahead ahead = { .lines =
				       lines_a_step(bytes, chunk_steps(rows)) };
	struct chunk c = { .w = w, .ready = ready };

	for (unsigned i = 0; i < k / TILE; i += Q8_TILES) {
		c.tiles = k / TILE - i < Q8_TILES ? k / TILE - i : Q8_TILES;
		ahead.weights = c.w + bytes;
		if (store_codes)
			make_ready(ready, &c, four);
		chunk_rows(&c, b, rows, &ahead, four, store_codes);
		c.w += bytes;
		b.codes += Q8_GROUP;
		b.start += Q8_TILES * sizeof(int32_t);
		b.scale += sizeof(float);
		b.first = false;
	}
}

typedef void strip_fn(const struct block *, const uint8_t *w, unsigned rows,
	unsigned k, void *scratch);

/* A function of its own for each way to do it: together they want more
 * registers than there are. */
#define STRIP_FN(name, four, store_codes)                                   \
	static __attribute__((noinline)) void name(const struct block *b,   \
		const uint8_t *w, unsigned rows, unsigned k, void *scratch) \
	{                                                                   \
		strip(*b, w, rows, k, scratch, four, store_codes);          \
	}

STRIP_FN(q4_few, true, false)
STRIP_FN(q8_few, false, false)
STRIP_FN(q4_many, true, true)
STRIP_FN(q8_many, false, true)

/* A strip of which n outputs are wanted goes by way of a whole one. */
static void short_strip(strip_fn *fn, struct block b, const uint8_t *w,
	unsigned n, unsigned rows, unsigned k, void *scratch)
{
	const size_t ldy = b.ldy;
	float *y = b.y, whole[ROWS][TILE];

	b.ldy = TILE;
	for (unsigned step; rows; rows -= step) {
		step = rows < ROWS ? rows : ROWS;
		b.y = whole[0];
		fn(&b, w, step, k, scratch);
		for (unsigned r = 0; r < step; r++, y += ldy)
			memcpy(y, whole[r], n * sizeof(*y));
		step_rows(&b, step);
	}
}

/* By fns[whether nibbles][whether there are many rows]. */
static ALWAYS_INLINE void multiply_strips(strip_fn *const fns[2][2], float *y,
	size_t ldy, const void *xq, unsigned rows, enum dtype wt, const void *w,
	unsigned n, unsigned k, void *scratch)
{
	const bool four = wt == DTYPE_TILE_Q4_0;
	const size_t bytes = k / TILE * tile_size(four);
	const uint8_t *x = xq, *at = w;
	struct block b = { x + (four && TURNED ? q8_turned_at(k) : 0),
		x + q8_start_at(k, four), x + q8_scale_at(k), q8_row_bytes(k),
		y, ldy, true };

	for (; n >= TILE; n -= TILE, at += bytes, b.y += TILE)
		fns[four][rows > few(four)](&b, at, rows, k, scratch);
	if (n)
		short_strip(fns[four][ROWS > few(four)], b, at, n, rows, k,
			scratch);
}

void JOIN(kern_matmul_q8_, KERN_ISA)(float *y, size_t ldy, const void *xq,
	unsigned rows, enum dtype wt, const void *w, unsigned n, unsigned k,
	void *scratch)
{
	static strip_fn *const fns[2][2] = { { q8_few, q8_many },
		{ q4_few, q4_many } };

	multiply_strips(fns, y, ldy, xq, rows, wt, w, n, k, scratch);
}

#ifdef __AVX512VNNI__
#include "tensor/kern_q8_amx.h" /* on what is above */

void kern_matmul_q8_amx(float *y, size_t ldy, const void *xq, unsigned rows,
	enum dtype wt, const void *w, unsigned n, unsigned k, void *scratch)
{
	static strip_fn *const fns[2][2] = { { q8_amx, q8_amx },
		{ q4_amx, q4_amx } };

	if (rows < AMX_LEAST)
		JOIN(kern_matmul_q8_, KERN_ISA)
	(y, ldy, xq, rows, wt, w, n, k, scratch);
	else multiply_strips(fns, y, ldy, xq, rows, wt, w, n, k, scratch);
}
#endif
