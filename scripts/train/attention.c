/*
 * Attention, forward and backward, that computes only the scores that the mask
 * does not hide, for training on a CPU whose matrix unit multiplies bfloat16
 * (AMX). The matrix of all scores is never stored: scores are computed in tiles
 * of 32 queries by 32 keys, used and discarded. Tiles that the mask hides are
 * skipped, and the backward pass computes the scores again. This follows Dao et
 * al., "FlashAttention-2" (2023), section 3, but stores the scores of 32
 * queries with all their keys before the softmax, instead of updating a running
 * maximum. fused.py builds this file and calls its functions.
 *
 * A row is one sequence of the batch. q and o are [rows][length][heads][width],
 * k and v are [rows][length][kv_heads][width], and mask, which is added to the
 * scores, is [rows][length][length]. All of these tensors are bfloat16. lse
 * [rows][heads][length] (float) is the logarithm of the sum of the exponentials
 * of a query's scores. The width of a head is a multiple of 32, at most
 * MOST_WIDTH.
 */
#include <stdint.h>

#if defined(__AMX_BF16__) && defined(__AVX512BF16__)
#include <immintrin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIDE       32      /* queries and keys of a tile */
#define MOST_WIDTH 128     /* largest width of a head */
#define NEVER      (-1e3f) /* a mask value below this hides the key */

typedef uint16_t bf16;

enum sight { HIDDEN, MIXED, CLEAR };

struct attention {
	int64_t rows, length, heads, kv_heads, width;
	const bf16 *q, *k, *v, *mask;
	/* number of blocks of SIDE positions; the last may be partial */
	int64_t blocks;
	float scale;
	uint8_t *sight; /* [rows][blocks][blocks] enum sight */
};

/* Buffers of a thread. k_rows and v_rows have the keys and values of one row
 * and KV head in the format of pair_rows; k_columns and v_columns have the same
 * keys and values in the format of pair_columns. */
struct packed {
	bf16 *k_rows, *k_columns, *v_rows,
		*v_columns; /* [blocks][SIDE * width] */
	float *score;       /* [SIDE][length] */
	bf16 *weight;       /* [SIDE][length] */
	float *dk, *dv;     /* [length][width] */
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static float get(bf16 x)
{
	uint32_t bits = (uint32_t)x << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static __m512 get16(const bf16 *x)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(
		_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)x)),
		16));
}

static void put16(bf16 *to, __m512 x)
{
	_mm256_storeu_si256((void *)to, (__m256i)_mm512_cvtneps_pbh(x));
}

/* exp(x) as 2^n (1 + r + r^2/2 ...), where x = n ln 2 + r. For x below -87 the
 * result is exp(-87), which is as good as 0. */
static __m512 exp16(__m512 x)
{
	const __m512 c[] = { _mm512_set1_ps(1), _mm512_set1_ps(1),
		_mm512_set1_ps(0.5f), _mm512_set1_ps(0.166666667f),
		_mm512_set1_ps(0.0416666667f), _mm512_set1_ps(0.00833333333f) };
	__m512 t, n, r, p = c[5];

	x = _mm512_max_ps(x, _mm512_set1_ps(-87));
	t = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504f));
	n = _mm512_roundscale_ps(t, 0);
	r = _mm512_mul_ps(_mm512_sub_ps(t, n), _mm512_set1_ps(0.693147181f));
	for (int i = 4; i >= 0; i--)
		p = _mm512_fmadd_ps(p, r, c[i]);
	return _mm512_scalef_ps(p, n);
}

/* Request the permission to use the AMX tile registers. Returns 0, or -1 if the
 * system has none. */
int attention_open(void)
{
	enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

	return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) ? -1 : 0;
}

static void tiles_begin(void)
{
	struct {
		uint8_t palette, start, reserved[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} shape = { .palette = 1 };

	for (int i = 0; i < 8; i++) {
		shape.bytes[i] = 64;
		shape.rows[i] = 16;
	}
	_tile_loadconfig(&shape);
}

/*
 * Set c to a times b, or add the product to c if `add` is set. c is
 * [SIDE][SIDE], with rows c_width apart; a is [SIDE][depth], with rows a_width
 * apart; b is [depth / 2][b_width][2], as AMX needs it: each two rows of the
 * matrix are stored as one row of pairs.
 */
static void multiply(float *c, int64_t c_width, const bf16 *a, int64_t a_width,
	const bf16 *b, int64_t b_width, int64_t depth, int add)
{
	int64_t c_step = 4 * c_width, a_step = 2 * a_width,
		b_step = 4 * b_width;

	if (add) {
		_tile_loadd(0, c, c_step);
		_tile_loadd(1, c + 16, c_step);
		_tile_loadd(2, c + 16 * c_width, c_step);
		_tile_loadd(3, c + 16 * c_width + 16, c_step);
	} else {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	}
	for (int64_t i = 0; i < depth; i += 32) {
		_tile_loadd(4, a + i, a_step);
		_tile_loadd(5, a + 16 * a_width + i, a_step);
		_tile_loadd(6, b + i * b_width, b_step);
		_tile_loadd(7, b + i * b_width + 32, b_step);
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_stored(0, c, c_step);
	_tile_stored(1, c + 16, c_step);
	_tile_stored(2, c + 16 * c_width, c_step);
	_tile_stored(3, c + 16 * c_width + 16, c_step);
}

/* Transpose [16][16] words of 32 bits from `from` to `to`. Rows are from_width
 * and to_width words apart. */
static void transpose(uint32_t *to, int64_t to_width, const uint32_t *from,
	int64_t from_width)
{
	__m512i a[16], b[16];

	for (int i = 0; i < 16; i++)
		a[i] = _mm512_loadu_si512(from + i * from_width);
	for (int i = 0; i < 16; i += 2) {
		b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
		b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
	}
	for (int i = 0; i < 16; i += 4) {
		a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
		a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
		a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
		a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
	}
	for (int i = 0; i < 4; i++) {
		b[i] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0x88);
		b[i + 4] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0xdd);
		b[i + 8] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0x88);
		b[i + 12] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0xdd);
	}
	for (int i = 0; i < 8; i++) {
		a[i] = _mm512_shuffle_i32x4(b[i], b[i + 8], 0x88);
		a[i + 8] = _mm512_shuffle_i32x4(b[i], b[i + 8], 0xdd);
	}
	for (int i = 0; i < 16; i++)
		_mm512_storeu_si512(to + i * to_width, a[i]);
}

/* Convert x [SIDE][SIDE] to bfloat16 and store it transposed. */
static void transpose_put(bf16 *to, const float *x)
{
	uint32_t turned[16 * 16];

	for (int r = 0; r < SIDE; r += 16)
		for (int c = 0; c < SIDE; c += 16) {
			transpose(turned, 16,
				(const uint32_t *)x + r * SIDE + c, SIDE);
			for (int i = 0; i < 16; i++)
				put16(to + (c + i) * SIDE + r,
					_mm512_loadu_ps(turned + 16 * i));
		}
}

/* Copy SIDE positions of x from position `at` on to rows of `to`. Positions of
 * x are `step` values apart. Positions after the end of x become rows of
 * zeros. */
static void copy_block(bf16 *to, const bf16 *x, int64_t at, int64_t length,
	int64_t step, int64_t width)
{
	int64_t there = least(SIDE, length - at);

	for (int64_t i = 0; i < there; i++)
		memcpy(to + i * width, x + (at + i) * step,
			(size_t)width * sizeof(*to));
	memset(to + there * width, 0,
		(size_t)((SIDE - there) * width) * sizeof(*to));
}

/* Convert rows [SIDE][width] to the format of the right operand of multiply(),
 * for a product that sums over positions. */
static void pair_rows(bf16 *to, const bf16 *rows, int64_t width)
{
	for (int64_t i = 0; i < SIDE; i += 2)
		for (int64_t c = 0; c < width; c++) {
			to[i * width + 2 * c] = rows[i * width + c];
			to[i * width + 2 * c + 1] = rows[(i + 1) * width + c];
		}
}

/* Transpose rows [SIDE][width] and convert them to the format of the right
 * operand of multiply(), for a product that sums over the width. */
static void pair_columns(bf16 *to, const bf16 *rows, int64_t width)
{
	for (int64_t c = 0; c < width; c += 32)
		for (int64_t r = 0; r < SIDE; r += 16)
			transpose((uint32_t *)to + c / 2 * SIDE + r, SIDE,
				(const uint32_t *)(rows + r * width + c),
				width / 2);
}

/* Find which tiles the mask hides completely (HIDDEN), and in which tiles the
 * mask changes no score (CLEAR). All other tiles are MIXED. */
static uint8_t *see(const struct attention *a)
{
	int64_t n = a->blocks, length = a->length;
	uint8_t *sight = malloc((size_t)(a->rows * n * n));

	if (!sight)
		abort();
#pragma omp parallel for schedule(static)
	for (int64_t t = 0; t < a->rows * n * n; t++) {
		int64_t row = t / (n * n), q = t / n % n * SIDE,
			k = t % n * SIDE;
		int seen = 0, hidden = q + SIDE > length || k + SIDE > length;

		for (int64_t i = q; i < least(q + SIDE, length); i++)
			for (int64_t j = k; j < least(k + SIDE, length); j++) {
				float m = get(
					a->mask[(row * length + i) * length +
						j]);

				seen |= m > NEVER;
				hidden |= m != 0;
			}
		sight[t] = !seen ? HIDDEN : hidden ? MIXED : CLEAR;
	}
	return sight;
}

/* Scale and mask the scores of a tile. Positions after the end of the sequence
 * are hidden. */
static void finish_score(float *s, int64_t step, const struct attention *a,
	int64_t row, int64_t qb, int64_t kb)
{
	int64_t n = a->blocks, length = a->length, q = qb * SIDE, k = kb * SIDE;
	const bf16 *mask = a->mask + row * length * length;
	float added[SIDE * SIDE] = { 0 };

	if (a->sight[(row * n + qb) * n + kb] == MIXED)
		for (int64_t i = 0; i < SIDE; i++)
			for (int64_t j = 0; j < SIDE; j++)
				added[i * SIDE + j] =
					q + i < length && k + j < length
					? get(mask[(q + i) * length + k + j])
					: -1e4f;
	for (int64_t i = 0; i < SIDE; i++)
		for (int64_t j = 0; j < SIDE; j += 16)
			_mm512_storeu_ps(s + i * step + j,
				_mm512_fmadd_ps(
					_mm512_loadu_ps(s + i * step + j),
					_mm512_set1_ps(a->scale),
					_mm512_loadu_ps(added + i * SIDE + j)));
}

static void *room(int64_t count, size_t size)
{
	void *p = aligned_alloc(64, ((size_t)count * size + 63) / 64 * 64);

	if (!p)
		abort();
	return p;
}

static void pack_open(struct packed *p, const struct attention *a)
{
	int64_t positions = a->blocks * SIDE, size = positions * a->width;

	p->k_rows = room(size, sizeof(bf16));
	p->k_columns = room(size, sizeof(bf16));
	p->v_rows = room(size, sizeof(bf16));
	p->v_columns = room(size, sizeof(bf16));
	p->score = room(SIDE * positions, sizeof(float));
	p->weight = room(SIDE * positions, sizeof(bf16));
	p->dk = room(size, sizeof(float));
	p->dv = room(size, sizeof(float));
}

static void pack_close(struct packed *p)
{
	free(p->k_rows);
	free(p->k_columns);
	free(p->v_rows);
	free(p->v_columns);
	free(p->score);
	free(p->weight);
	free(p->dk);
	free(p->dv);
}

/* Convert the keys and values of KV head g of a row to the formats of struct
 * packed. */
static void pack(
	struct packed *p, const struct attention *a, int64_t row, int64_t g)
{
	int64_t width = a->width, tile = SIDE * width;
	int64_t step = a->kv_heads * width;
	int64_t at = (row * a->length * a->kv_heads + g) * width;
	bf16 block[SIDE * MOST_WIDTH];

	for (int64_t b = 0; b < a->blocks; b++) {
		copy_block(block, a->k + at, b * SIDE, a->length, step, width);
		pair_rows(p->k_rows + b * tile, block, width);
		pair_columns(p->k_columns + b * tile, block, width);
		copy_block(block, a->v + at, b * SIDE, a->length, step, width);
		pair_rows(p->v_rows + b * tile, block, width);
		pair_columns(p->v_columns + b * tile, block, width);
	}
}

/* Softmax of scores s [SIDE][count] without the division by the sum: p receives
 * the weights exp(score - largest score of the query), sum[i] the sum of the
 * weights of query i, and to[i] the logarithm of the sum of the exponentials of
 * the scores of query i. */
static void exponentials(
	const float *s, int64_t count, bf16 *p, float *sum, float *to)
{
	for (int64_t i = 0; i < SIDE; i++) {
		const float *row = s + i * count;
		__m512 most = _mm512_set1_ps(-1e30f),
		       total = _mm512_setzero_ps();
		float top;

		for (int64_t j = 0; j < count; j += 16)
			most = _mm512_max_ps(most, _mm512_loadu_ps(row + j));
		top = _mm512_reduce_max_ps(most);
		for (int64_t j = 0; j < count; j += 16) {
			__m512 e = exp16(_mm512_sub_ps(
				_mm512_loadu_ps(row + j), _mm512_set1_ps(top)));

			total = _mm512_add_ps(total, e);
			put16(p + i * count + j, e);
		}
		sum[i] = _mm512_reduce_add_ps(total);
		to[i] = top + logf(sum[i]);
	}
}

/* Compute the attention of one tile of queries of head h. */
static void attend_block(const struct attention *a, struct packed *p, bf16 *o,
	float *lse, int64_t row, int64_t h, int64_t qb)
{
	int64_t n = a->blocks, width = a->width, tile = SIDE * width;
	int64_t step = a->heads * width, from = qb * SIDE;
	int64_t at = (row * a->length * a->heads + h) * width;
	const uint8_t *sight = a->sight + (row * n + qb) * n;
	float out[SIDE * MOST_WIDTH], sum[SIDE], logs[SIDE];
	bf16 q[SIDE * MOST_WIDTH];
	int64_t count = 0, seen = 0;

	for (int64_t b = 0; b < n; b++)
		count += SIDE * (sight[b] != HIDDEN);
	copy_block(q, a->q + at, from, a->length, step, width);
	for (int64_t b = 0; b < n; b++) {
		if (sight[b] == HIDDEN)
			continue;
		multiply(p->score + seen, count, q, width,
			p->k_columns + b * tile, SIDE, width, 0);
		finish_score(p->score + seen, count, a, row, qb, b);
		seen += SIDE;
	}
	exponentials(p->score, count, p->weight, sum, logs);
	seen = 0;
	for (int64_t b = 0; b < n; b++) {
		if (sight[b] == HIDDEN)
			continue;
		for (int64_t c = 0; c < width; c += SIDE)
			multiply(out + c, width, p->weight + seen, count,
				p->v_rows + b * tile + 2 * c, width, SIDE,
				seen > 0);
		seen += SIDE;
	}
	for (int64_t r = 0; r < least(SIDE, a->length - from); r++) {
		bf16 *to = o + at + (from + r) * step;

		for (int64_t c = 0; c < width; c += 16)
			put16(to + c,
				_mm512_mul_ps(
					_mm512_loadu_ps(out + r * width + c),
					_mm512_set1_ps(1 / sum[r])));
		lse[(row * a->heads + h) * a->length + from + r] = logs[r];
	}
}

/* q: the queries of a tile; d: the gradients of their outputs. q_rows and
 * d_rows have the same values in the format of pair_rows. */
struct back_block {
	bf16 q[SIDE * MOST_WIDTH], q_rows[SIDE * MOST_WIDTH];
	bf16 d[SIDE * MOST_WIDTH], d_rows[SIDE * MOST_WIDTH];
	/* dot: for each query, the dot product of its output and of the
	 * output's gradient */
	float lse[SIDE], dot[SIDE];
};

static void back_begin(struct back_block *x, const struct attention *a,
	const bf16 *o, const float *lse, const bf16 *dout, int64_t row,
	int64_t h, int64_t qb)
{
	int64_t width = a->width, step = a->heads * width, from = qb * SIDE;
	int64_t at = (row * a->length * a->heads + h) * width;

	copy_block(x->q, a->q + at, from, a->length, step, width);
	copy_block(x->d, dout + at, from, a->length, step, width);
	pair_rows(x->q_rows, x->q, width);
	pair_rows(x->d_rows, x->d, width);
	for (int64_t i = 0; i < SIDE; i++) {
		const bf16 *out = o + at + (from + i) * step;
		__m512 sum = _mm512_setzero_ps();

		/* with this value, all weights of a position after the end of
		 * the sequence are 0 */
		x->lse[i] = 1e30f;
		x->dot[i] = 0;
		if (from + i >= a->length)
			continue;
		for (int64_t c = 0; c < width; c += 16)
			sum = _mm512_fmadd_ps(get16(out + c),
				get16(x->d + i * width + c), sum);
		x->dot[i] = _mm512_reduce_add_ps(sum);
		x->lse[i] = lse[(row * a->heads + h) * a->length + from + i];
	}
}

/* Add the contribution of one tile to the gradients dq [SIDE][width], p->dk and
 * p->dv. */
static void back_tile(const struct attention *a, struct packed *p,
	const struct back_block *x, float *dq, int add, int64_t row, int64_t qb,
	int64_t b)
{
	int64_t width = a->width, tile = SIDE * width;
	float s[SIDE * SIDE], ds[SIDE * SIDE];
	bf16 turned[SIDE * SIDE], dscore[SIDE * SIDE];

	multiply(s, SIDE, x->q, width, p->k_columns + b * tile, SIDE, width, 0);
	finish_score(s, SIDE, a, row, qb, b);
	multiply(
		ds, SIDE, x->d, width, p->v_columns + b * tile, SIDE, width, 0);
	for (int64_t i = 0; i < SIDE; i++)
		for (int64_t j = i * SIDE; j < (i + 1) * SIDE; j += 16) {
			__m512 w = exp16(_mm512_sub_ps(_mm512_loadu_ps(s + j),
				_mm512_set1_ps(x->lse[i])));
			__m512 d = _mm512_mul_ps(w,
				_mm512_sub_ps(_mm512_loadu_ps(ds + j),
					_mm512_set1_ps(x->dot[i])));

			d = _mm512_mul_ps(d, _mm512_set1_ps(a->scale));
			_mm512_storeu_ps(s + j, w);
			_mm512_storeu_ps(ds + j, d);
			put16(dscore + j, d);
		}
	transpose_put(turned, s);
	for (int64_t c = 0; c < width; c += SIDE) {
		multiply(p->dv + b * tile + c, width, turned, SIDE,
			x->d_rows + 2 * c, width, SIDE, 1);
		multiply(dq + c, width, dscore, SIDE,
			p->k_rows + b * tile + 2 * c, width, SIDE, add);
	}
	transpose_put(turned, ds);
	for (int64_t c = 0; c < width; c += SIDE)
		multiply(p->dk + b * tile + c, width, turned, SIDE,
			x->q_rows + 2 * c, width, SIDE, 1);
}

static void put_rows(bf16 *to, const float *x, int64_t at, int64_t length,
	int64_t step, int64_t width)
{
	for (int64_t i = 0; i < least(SIDE, length - at); i++)
		for (int64_t c = 0; c < width; c += 16)
			put16(to + (at + i) * step + c,
				_mm512_loadu_ps(x + i * width + c));
}

static struct attention describe(const bf16 *q, const bf16 *k, const bf16 *v,
	const bf16 *mask, int64_t rows, int64_t length, int64_t heads,
	int64_t kv_heads, int64_t width)
{
	struct attention a = { rows, length, heads, kv_heads, width, q, k, v,
		mask, (length + SIDE - 1) / SIDE, 1 / sqrtf((float)width),
		NULL };

	a.sight = see(&a);
	return a;
}

void attend(const bf16 *q, const bf16 *k, const bf16 *v, const bf16 *mask,
	bf16 *o, float *lse, int64_t rows, int64_t length, int64_t heads,
	int64_t kv_heads, int64_t width)
{
	struct attention a =
		describe(q, k, v, mask, rows, length, heads, kv_heads, width);
	int64_t group = heads / kv_heads;

#pragma omp parallel
	{
		struct packed p;

		pack_open(&p, &a);
#pragma omp for schedule(dynamic)
		for (int64_t t = 0; t < rows * kv_heads; t++) {
			int64_t row = t / kv_heads, g = t % kv_heads;

			tiles_begin();
			pack(&p, &a, row, g);
			for (int64_t i = 0; i < group * a.blocks; i++)
				attend_block(&a, &p, o, lse, row,
					g * group + i / a.blocks, i % a.blocks);
			_tile_release();
		}
		pack_close(&p);
	}
	free(a.sight);
}

void attend_back(const bf16 *q, const bf16 *k, const bf16 *v, const bf16 *mask,
	const bf16 *o, const float *lse, const bf16 *dout, bf16 *dq, bf16 *dk,
	bf16 *dv, int64_t rows, int64_t length, int64_t heads, int64_t kv_heads,
	int64_t width)
{
	struct attention a =
		describe(q, k, v, mask, rows, length, heads, kv_heads, width);
	int64_t group = heads / kv_heads, n = a.blocks, tile = SIDE * width;

#pragma omp parallel
	{
		struct packed p;
		struct back_block x;
		float sum[SIDE * MOST_WIDTH];

		pack_open(&p, &a);
#pragma omp for schedule(dynamic)
		for (int64_t t = 0; t < rows * kv_heads; t++) {
			int64_t row = t / kv_heads, g = t % kv_heads;
			int64_t at = row * length;

			tiles_begin();
			pack(&p, &a, row, g);
			memset(p.dk, 0, (size_t)(n * tile) * sizeof(*p.dk));
			memset(p.dv, 0, (size_t)(n * tile) * sizeof(*p.dv));
			for (int64_t i = 0; i < group * n; i++) {
				int64_t h = g * group + i / n, qb = i % n;
				int add = 0;

				back_begin(&x, &a, o, lse, dout, row, h, qb);
				for (int64_t b = 0; b < n; b++) {
					if (a.sight[(row * n + qb) * n + b] ==
						HIDDEN)
						continue;
					back_tile(&a, &p, &x, sum, add, row, qb,
						b);
					add = 1;
				}
				put_rows(dq + (at * heads + h) * width, sum,
					qb * SIDE, length, heads * width,
					width);
			}
			for (int64_t b = 0; b < n; b++) {
				int64_t to = (at * kv_heads + g) * width;

				put_rows(dk + to, p.dk + b * tile, b * SIDE,
					length, kv_heads * width, width);
				put_rows(dv + to, p.dv + b * tile, b * SIDE,
					length, kv_heads * width, width);
			}
			_tile_release();
		}
		pack_close(&p);
	}
	free(a.sight);
}

#else

int attention_open(void)
{
	return -1;
}

#endif
