#include "tests/harness.h"

#include "base/checked.h"
#include "tensor/f16.h"
#include "tensor/tile.h"
#include "tests/tensor/kern_cases.h"
#include "tests/tensor/tile_reader.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N     100 /* largest number of outputs of a matrix */
#define GUARD 64  /* number of bytes or floats that must not change */

static const enum dtype all_types[] = { DTYPE_TILE_F16, DTYPE_TILE_Q4_0,
	DTYPE_TILE_Q8_0, DTYPE_GROUP_Q4_0, DTYPE_GROUP_Q8_0, DTYPE_SUPER_Q4_0,
	DTYPE_SUPER_Q8_0, DTYPE_SUPER_IQ4_NL, DTYPE_SUPER_NF4,
	DTYPE_SUPER_FP4 };
static const enum dtype int_types[] = { DTYPE_TILE_Q4_0, DTYPE_TILE_Q8_0 };

/* ---- weights ---- */

/* How the codes and scales of a matrix are filled. */
enum fill {
	RANDOM,
	LOWEST,  /* all codes -8 or -128 */
	HIGHEST, /* all codes 7 or 127 */
	NO_SCALE,
	LARGE_SCALE, /* 65504 and -65504 */
	TINY_SCALE,  /* the smallest subnormals */
	FILLS
};

struct matrix {
	enum dtype type;
	unsigned n, k;
	uint8_t *tiles;
	double *value; /* [n][k] */
	bool w_f16;    /* whether the product rounds the weights to fp16 */
};

static bool is_four(enum dtype type)
{
	return tile_info(type)->bits == 4;
}

static unsigned tile_size(enum dtype type)
{
	return type == DTYPE_TILE_F16 ? 2048 : is_four(type) ? 576 : 1088;
}

static int some_code(enum fill fill, bool four, uint64_t stream, uint64_t i)
{
	const int most = four ? 7 : 127;

	if (fill == LOWEST || fill == HIGHEST)
		return fill == LOWEST ? -most - 1 : most;
	return (int)(rng_uniform(seed, stream, i) * (2 * most + 2)) - most - 1;
}

static uint16_t some_scale(enum fill fill, uint64_t stream, uint64_t i)
{
	switch (fill) {
	case NO_SCALE:
		return i % 3 ? 0 : 0x8000;
	case LARGE_SCALE:
		return i % 3 ? 0x7bff : 0xfbff;
	case TINY_SCALE:
		return (uint16_t)(1 + i % 5);
	default:
		return f32_to_f16((float)(rng_uniform(seed, stream, i) - .3));
	}
}

/* Get the position of the code (in bits) and of the scale (in bytes) of the
 * weight of output n and input k within a tile of this format. */
static void place(enum dtype type, unsigned n, unsigned k, unsigned *code,
	unsigned *scale)
{
	const unsigned e = k / 2 * 64 + 2 * n + k % 2, g = e / 32, j = e % 32;
	const unsigned s = e / 256, v = e % 256 / 64, i = e % 64;

	switch ((int)type) {
	case DTYPE_TILE_F16:
		*scale = 2 * e;
		break;
	case DTYPE_TILE_Q4_0:
		*code = 8 * (k / 2 * 32 + n) + 4 * (k % 2);
		*scale = 512 + 2 * n;
		break;
	case DTYPE_TILE_Q8_0:
		*code = 8 * (k / 4 * 128 + n * 4 + k % 4);
		*scale = 1024 + 2 * n;
		break;
	case DTYPE_GROUP_Q4_0:
		*code = 8 * (g * 18 + 2 + j % 16) + j / 16 * 4;
		*scale = g * 18;
		break;
	case DTYPE_GROUP_Q8_0:
		*code = 8 * (g * 34 + 2 + j);
		*scale = g * 34;
		break;
	case DTYPE_SUPER_Q4_0:
	case DTYPE_SUPER_IQ4_NL:
	case DTYPE_SUPER_NF4:
	case DTYPE_SUPER_FP4:
		*code = 8 * (s * 144 + 16 + 2 * i + v % 2) + v / 2 * 4;
		*scale = s * 144 + g % 8 * 2;
		break;
	case DTYPE_SUPER_Q8_0:
		*code = 8 * (s * 272 + 16 + e % 256);
		*scale = s * 272 + g % 8 * 2;
		break;
	}
}

static double put(enum dtype type, uint8_t *tile, unsigned n, unsigned k,
	int code, uint16_t scale)
{
	unsigned at_code = 0, at_scale = 0;
	uint8_t *b;

	place(type, n, k, &at_code, &at_scale);
	b = tile + at_code / 8;
	if (is_four(type))
		*b = (uint8_t)((*b & ~(15u << at_code % 8)) |
			(unsigned)(code + 8) << at_code % 8);
	else if (type != DTYPE_TILE_F16)
		*b = (uint8_t)code;
	else
		code = 1;
	memcpy(tile + at_scale, &scale, 2);
	return (type >= DTYPE_SUPER_IQ4_NL ? super_value(type, code + 8)
					   : code) *
		(double)f16_to_f32(scale);
}

/* Make a matrix of whole strips (32 outputs each), of which the first n outputs
 * are used. With `odd` the tiles are at an odd address. */
static void matrix_make(struct matrix *m, enum dtype type, unsigned n,
	unsigned k, enum fill fill, bool odd)
{
	const unsigned strips = (n + 31) / 32, bytes = tile_size(type);
	const size_t size = (size_t)strips * (k / 32) * bytes;

	*m = (struct matrix){ type, n, k, calloc(1, size + 1),
		calloc((size_t)strips * 32 * k, sizeof(double)) };
	m->tiles += odd;
	for (unsigned j = 0; j < strips * 32; j++)
		for (unsigned i = 0; i < k; i++) {
			const size_t t = (size_t)(j / 32) * (k / 32) + i / 32;
			const size_t e = (size_t)j * k + i;
			unsigned c, s = 0;

			place(type, j % 32, i % 32, &c, &s);
			m->value[e] = put(type, m->tiles + t * bytes, j % 32,
				i % 32, some_code(fill, is_four(type), 11, e),
				some_scale(fill, 12, t * bytes + s));
		}
}

/* Round to fp16: to 11 significant bits, but at least to a multiple of
 * 2^-24. */
static double to_f16(double x)
{
	double unit;
	int e;

	frexp(x, &e);
	unit = ldexp(1, e < -13 ? -24 : e - 11);
	return rint(x / unit) * unit;
}

static void matrix_round(struct matrix *m)
{
	m->w_f16 = true;
	for (size_t i = 0; i < (size_t)m->n * m->k; i++)
		m->value[i] = to_f16(m->value[i]);
}

static void matrix_free(struct matrix *m, bool odd)
{
	free(m->tiles - odd);
	free(m->value);
}

/* ---- running a kernel between guards ---- */

static void *guarded(size_t bytes)
{
	uint8_t *p = aligned_alloc(64, (bytes + GUARD + 63) & ~(size_t)63);

	memset(p + bytes, 0xa5, GUARD);
	return p;
}

static void guard_check(const void *p, size_t bytes, const char *what)
{
	for (size_t i = 0; i < GUARD; i++)
		if (((const uint8_t *)p)[bytes + i] != 0xa5)
			fail_msg("%s: byte %zu beyond its end was written",
				what, i);
}

static uint8_t *quantized(
	const struct kern *k, const float *x, unsigned rows, unsigned cols)
{
	const size_t bytes = kern_q8_bytes(cols);
	uint8_t *q = guarded(rows * bytes);

	memset(q, 0x5a, rows * bytes);
	for (unsigned r = 0; r < rows; r++)
		k->quantize(q + r * bytes, x + (size_t)r * cols, cols);
	guard_check(q, rows * bytes, k->name);
	return q;
}

/* Rows of activations in float32, and the same rows quantized. */
struct rows {
	float *x;
	uint8_t *q;
	unsigned k;
};

/*
 * Compute y[rows][n] for the rows from `first` on and the weights from output
 * j0 on. `q8` selects the int8 kernel. The kernel writes to memory with a gap
 * after each row; the gap must not change.
 */
static void run(const struct kern *k, float *y, const struct rows *x, bool q8,
	unsigned first, unsigned rows, const struct matrix *m, unsigned j0,
	unsigned n)
{
	const size_t scratch_bytes = kern_tile_scratch(m->k), gap = 3;
	const size_t ldy = n + gap;
	const uint8_t *w =
		m->tiles + (size_t)(j0 / 32) * (m->k / 32) * tile_size(m->type);
	void *scratch = guarded(scratch_bytes);
	float *out = malloc((rows * ldy + GUARD) * sizeof(*out));

	for (size_t i = 0; i < rows * ldy + GUARD; i++)
		out[i] = 42;
	if (q8)
		k->matmul_q8(out, ldy, x->q + first * kern_q8_bytes(m->k), rows,
			m->type, w, n, m->k, scratch);
	else
		k->matmul_tile(out, ldy, x->x + (size_t)first * m->k, m->k,
			rows, m->type, w, n, m->k, m->w_f16, scratch);
	for (size_t i = 0; i < rows * ldy + GUARD; i++)
		if ((i >= rows * ldy || i % ldy >= n) && out[i] != 42)
			fail_msg("%s: wrote column %zu of %u", k->name, i % ldy,
				n);
	guard_check(scratch, scratch_bytes, "scratch");
	for (unsigned r = 0; r < rows; r++)
		memcpy(y + (size_t)r * n, out + r * ldy, n * sizeof(*y));
	free(out);
	free(scratch);
}

/* Compute n outputs from j0 on, for `rows` rows from `first` on, and compare
 * them with these outputs in `want`. A row of `want` has `of` outputs. */
static void same(const struct kern *k, const struct rows *x, bool q8,
	unsigned first, unsigned rows, const struct matrix *m, unsigned j0,
	unsigned n, const float *want, unsigned of)
{
	float *y = malloc((size_t)rows * n * sizeof(*y));

	run(k, y, x, q8, first, rows, m, j0, n);
	for (unsigned r = 0; r < rows; r++)
		for (unsigned j = 0; j < n; j++) {
			const float a = y[(size_t)r * n + j];
			const float b = want[(size_t)(first + r) * of + j0 + j];

			if (f32_bits(a) != f32_bits(b))
				fail_msg("%s type %#x k %u, rows %u+%u, "
					 "outputs %u+%u: [%u][%u] is %a, ref "
					 "has %a",
					k->name, m->type, m->k, first, rows, j0,
					n, r, j, (double)a, (double)b);
		}
	free(y);
}

static void rows_make(struct rows *x, unsigned rows, unsigned k)
{
	*x = (struct rows){ floats(13, (size_t)rows * k), NULL, k };
	ref->round_f16(x->x, (size_t)rows * k);
	x->q = quantized(ref, x->x, rows, k);
}

static void rows_free(struct rows *x)
{
	free(x->x);
	free(x->q);
}

/* ---- the reference ---- */

/* Compare `ref` with sums in double. The bound is that of a chain of k
 * roundings. */
static void ref_check(
	const struct rows *x, bool q8, unsigned rows, const struct matrix *m)
{
	float *y = malloc((size_t)rows * m->n * sizeof(*y));
	char what[64];

	run(ref, y, x, q8, 0, rows, m, 0, m->n);
	for (unsigned r = 0; r < rows; r++)
		for (unsigned j = 0; j < m->n; j++) {
			double sum = 0, most = 0;

			for (unsigned i = 0; i < m->k; i++) {
				const double p = m->value[j * m->k + i] *
					x->x[(size_t)r * m->k + i];

				sum += p;
				most += fabs(p);
			}
			snprintf(what, sizeof(what), "type %#x k %u [%u][%u]",
				m->type, m->k, r, j);
			assert_close((double)y[(size_t)r * m->n + j], sum,
				most * (m->k + 4) * 0x1p-24 + 1e-37, what);
		}
	free(y);
}

static void test_ref_tile(void **state)
{
	static const unsigned ks[] = { 32, 96, 320 };
	struct matrix m;
	struct rows x;

	for (size_t t = 0; t < ARRAY_LEN(all_types); t++)
		for (size_t i = 0; i < ARRAY_LEN(ks); i++) {
			matrix_make(&m, all_types[t], 45, ks[i], RANDOM, false);
			rows_make(&x, 3, ks[i]);
			ref_check(&x, false, 3, &m);
			rows_free(&x);
			matrix_free(&m, false);
		}
}

/* Tests rows that int8 represents exactly: integers from -127 to 127 times a
 * power of two, with -127 in each group of 256. */
static void test_ref_q8(void **state)
{
	static const unsigned ks[] = { 32, 256, 288, 800 };
	struct matrix m;
	struct rows x;

	for (size_t t = 0; t < 2; t++)
		for (size_t i = 0; i < ARRAY_LEN(ks); i++) {
			const unsigned k = ks[i];

			x = (struct rows){ floats(14, 3 * k), NULL, k };
			for (unsigned e = 0; e < 3 * k; e++)
				x.x[e] = ldexpf(e % k % 256 == 5
						? -127
						: truncf(x.x[e] * 127),
					(int)(e % k / 256) - 4);
			x.q = quantized(ref, x.x, 3, k);
			matrix_make(&m, int_types[t], 45, k, RANDOM, false);
			ref_check(&x, true, 3, &m);
			matrix_free(&m, false);
			rows_free(&x);
		}
}

/* ---- quantization ---- */

/* Get the values (codes times scale) of the row x after quantization, by a
 * product with the unit matrix. */
static void dequantized(float *y, const float *x, unsigned k)
{
	struct rows rows = { NULL, quantized(ref, x, 1, k), k };
	struct matrix m;

	matrix_make(&m, DTYPE_TILE_Q8_0, k, k, NO_SCALE, false);
	for (unsigned j = 0; j < k; j++)
		for (unsigned i = 0; i < k; i++) {
			uint8_t *t = m.tiles +
				(size_t)((j / 32) * (k / 32) + i / 32) * 1088;

			put(m.type, t, j % 32, i % 32, i == j, 0x3c00);
		}
	run(ref, y, &rows, true, 0, 1, &m, 0, k);
	matrix_free(&m, false);
	free(rows.q);
}

static void test_quantize_error(void **state)
{
	const unsigned k = 352;
	float *x = floats(15, k), y[352];

	/* two groups: the first has the largest magnitude 3, the second at most
	 * 1 */
	x[17] = 3;
	dequantized(y, x, k);
	for (unsigned g = 0; g < k; g += 256) {
		const unsigned end = k < g + 256 ? k : g + 256;
		float most = 0;

		for (unsigned i = g; i < end; i++)
			most = fmaxf(most, fabsf(x[i]));
		for (unsigned i = g; i < end; i++)
			assert_close((double)y[i], (double)x[i],
				(double)most / 254 * 1.00001, "x back");
	}
	assert_close((double)y[17], 3, 3e-7, "the largest");
	free(x);
}

static void test_quantize_ties(void **state)
{
	float x[32] = { 127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f };
	static const float want[8] = { 127, 0, 2, 2, 0, -2, -2, 126 };
	float y[32];

	dequantized(y, x, 32);
	for (int i = 0; i < 8; i++)
		assert_close((double)y[i], (double)want[i], 0, "tie");
}

static void test_quantize_odd(void **state)
{
	float x[288] = { NAN, INFINITY, -INFINITY, FLT_MAX, -1 }, y[288];

	x[256] = NAN;
	x[257] = 0x1p-149f;
	x[258] = -0x1p-110f;
	dequantized(y, x, 288);
	assert_close((double)y[0], 0, 0, "NaN");
	assert_close((double)y[1], 0x1p127, 0x1p107, "infinity");
	assert_close((double)y[2], -0x1p127, 0x1p107, "-infinity");
	assert_close((double)y[3], 0x1p127, 0x1p107, "the largest");
	for (int i = 4; i < 288; i++)
		assert_close((double)y[i], 0, 0, "beside these");
}

static void quantize_same(const float *x, unsigned rows, unsigned k)
{
	uint8_t *want = quantized(ref, x, rows, k);

	for (size_t v = 0; v < n_vecs; v++) {
		uint8_t *got = quantized(vecs[v], x, rows, k);

		for (size_t i = 0; i < rows * kern_q8_bytes(k); i++)
			if (got[i] != want[i])
				fail_msg("%s k %u: byte %zu is %u, ref has %u",
					vecs[v]->name, k, i, got[i], want[i]);
		free(got);
	}
	free(want);
}

static void test_quantize_same(void **state)
{
	static const unsigned ks[] = { 32, 64, 224, 256, 288, 1536, 8960 };
	static const float odd[] = { NAN, INFINITY, -INFINITY, FLT_MAX,
		-FLT_MAX, 0x1p-149f, 0x1p-100f, 0x1.fffffep-101f, -0.0f, 65504,
		1 };

	for (size_t i = 0; i < ARRAY_LEN(ks); i++) {
		float *x = floats(16, 3 * ks[i]);

		quantize_same(x, 3, ks[i]);
		/* every value is halfway between two codes */
		for (unsigned e = 0; e < 3 * ks[i]; e++)
			x[e] = e % 32 ? truncf(x[e] * 127) + 0.5f : 127;
		quantize_same(x, 3, ks[i]);
		for (size_t o = 0; o < ARRAY_LEN(odd); o++) {
			for (unsigned e = 0; e < ks[i]; e++)
				x[e] = odd[e % (o + 1)];
			quantize_same(x, 1, ks[i]);
		}
		free(x);
	}
}

/* ---- all implementations ---- */

/* Compute every number of rows in rows[] with every number of outputs in ns[],
 * and compare the results with one run of the reference. */
static void grid(enum dtype type, bool q8, unsigned k, const unsigned *rows,
	size_t n_rows)
{
	static const unsigned ns[] = { 1, 15, 16, 31, 32, 33, 64, N };
	const unsigned most = rows[n_rows - 1];
	const bool odd = k == 96; /* weights need no alignment */
	float *want = malloc((size_t)most * N * sizeof(*want));
	struct matrix m;
	struct rows x;

	matrix_make(&m, type, N, k, RANDOM, odd);
	rows_make(&x, most, k);
	run(ref, want, &x, q8, 0, most, &m, 0, N);
	for (size_t v = 0; v < n_vecs; v++)
		for (size_t i = 0; i < n_rows; i++)
			for (size_t j = 0; j < ARRAY_LEN(ns); j++)
				same(vecs[v], &x, q8, 0, rows[i], &m, 0, ns[j],
					want, N);
	rows_free(&x);
	matrix_free(&m, odd);
	free(want);
}

static void test_q8_same(void **state)
{
	static const unsigned ks[] = { 32, 64, 96, 256, 288, 1536 };
	static const unsigned rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 31, 33,
		64, 300 };

	for (size_t t = 0; t < 2; t++)
		for (size_t i = 0; i < ARRAY_LEN(ks); i++)
			grid(int_types[t], true, ks[i], rows,
				ARRAY_LEN(rows) - (ks[i] > 96));
}

static void test_tile_same(void **state)
{
	static const unsigned ks[] = { 32, 96, 288, 544 };
	static const unsigned rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 17 };

	for (size_t t = 0; t < ARRAY_LEN(all_types); t++)
		for (size_t i = 0; i < ARRAY_LEN(ks); i++)
			grid(all_types[t], false, ks[i], rows, ARRAY_LEN(rows));
}

/* The results have the same bytes as those of one call if each row is computed
 * alone, and if the outputs are divided between two calls at any strip (32
 * outputs). */
static void test_batch_invariance(void **state)
{
	const unsigned rows = 37, k = 544;
	float *want = malloc((size_t)rows * N * sizeof(*want));
	struct matrix m;
	struct rows x;

	rows_make(&x, rows, k);
	for (size_t t = 0; t < ARRAY_LEN(all_types) + 2; t++) {
		const bool q8 = t >= ARRAY_LEN(all_types);
		const enum dtype type =
			q8 ? int_types[t % ARRAY_LEN(all_types)] : all_types[t];

		matrix_make(&m, type, N, k, RANDOM, false);
		for (size_t v = 0; v < n_vecs; v++) {
			run(vecs[v], want, &x, q8, 0, rows, &m, 0, N);
			for (unsigned r = 0; r < rows; r++)
				same(vecs[v], &x, q8, r, 1, &m, 0, N, want, N);
			for (unsigned j = 32; j < N; j += 32) {
				same(vecs[v], &x, q8, 0, rows, &m, 0, j, want,
					N);
				same(vecs[v], &x, q8, 3, rows - 3, &m, j, N - j,
					want, N);
			}
		}
		matrix_free(&m, false);
	}
	rows_free(&x);
	free(want);
}

/* Replace n activations by values at the limits of integer sums and scales;
 * `which` selects the values. */
static void strain(float *x, size_t n, int which)
{
	for (size_t i = 0; i < n; i++) {
		if (which == 0)
			x[i] = 0;
		else if (which == 1)
			x[i] = -65504;
		else if (which == 2)
			x[i] = i % 300 == 7 ? 65504 : x[i] * 0x1p-14f;
		else if (which == 3)
			x[i] = i % 2 ? 1 : -1;
	}
}

static void compare(
	const struct rows *x, bool q8, unsigned rows, const struct matrix *m)
{
	float want[39 * 40];

	run(ref, want, x, q8, 0, rows, m, 0, m->n);
	if (!q8)
		ref_check(x, q8, rows, m);
	for (size_t v = 0; v < n_vecs; v++) {
		same(vecs[v], x, q8, 0, rows, m, 0, m->n, want, m->n);
		same(vecs[v], x, q8, 2, 1, m, 0, m->n, want, m->n);
	}
}

static void extremes(enum dtype type, bool q8, enum fill fill, int which)
{
	const unsigned rows = harness_full() ? 39 : 19, n = 40, k = 288;
	struct matrix m;
	struct rows x = { floats(17, rows * k), NULL, k };

	strain(x.x, rows * k, which);
	x.q = quantized(ref, x.x, rows, k);
	matrix_make(&m, type, n, k, fill, false);
	compare(&x, q8, rows, &m);
	/* unless scales are large, the weights are also finite after rounding
	 * to fp16 */
	if (!q8 && fill != LARGE_SCALE) {
		matrix_round(&m);
		compare(&x, q8, rows, &m);
	}
	matrix_free(&m, false);
	rows_free(&x);
}

static void test_extremes(void **state)
{
	for (int fill = 0; fill < FILLS; fill++)
		for (int which = 0; which < 5; which++) {
			for (size_t t = 0; t < ARRAY_LEN(all_types); t++)
				extremes(all_types[t], false, (enum fill)fill,
					which);
			for (size_t t = 0; t < 2; t++)
				extremes(int_types[t], true, (enum fill)fill,
					which);
		}
}

/*
 * Get single weights as products with the unit matrix. Every scale is combined
 * with every code, and every pair of codes in a byte occurs; scales include
 * zero, subnormals, and the largest.
 */
static void super_codes(enum dtype type, bool w_f16)
{
	static uint8_t tile[576];
	struct matrix m = { type, 32, 32, tile, NULL, w_f16 };
	struct rows unit = { calloc(1024, sizeof(float)), NULL, 32 };
	/* All weights must be finite: the product with the unit matrix also
	 * multiplies each weight by 0, and infinity times 0 is NaN. */
	const uint16_t largest = w_f16 ? 0x6000 : 0x7bff;
	float want[1024];
	unsigned h = 0;

	for (int i = 0; i < 32; i++)
		unit.x[33 * i] = 1;
	for (unsigned t = 0; h < 0x10000; t++) {
		for (unsigned s = 0; s < 32; s++, h += 29) {
			uint8_t *p = tile + s / 8 * 144;
			uint16_t scale = h & 0x7fff;

			scale = scale > largest ? largest : scale;
			scale |= h & 0x8000;
			memcpy(p + s % 8 * 2, &scale, 2);
			for (unsigned j = s % 8 * 16; j < s % 8 * 16 + 16; j++)
				p[16 + j] = (uint8_t)(j / 2 % 16 |
					(j / 2 * 3 + t) % 16 << 4);
		}
		run(ref, want, &unit, false, 0, 32, &m, 0, 32);
		for (unsigned k = 0; k < 32; k++)
			for (unsigned n = 0; n < 32; n++) {
				const double w =
					stored(type, tile, (int)n, (int)k);

				assert_close((double)want[k * 32 + n],
					w_f16 ? to_f16(w) : w, 0, "weight");
			}
		for (size_t v = 0; v < n_vecs; v++)
			same(vecs[v], &unit, false, 0, 32, &m, 0, 32, want, 32);
	}
	free(unit.x);
}

static void test_super_codes(void **state)
{
	static const enum dtype types[] = { DTYPE_SUPER_Q4_0,
		DTYPE_SUPER_IQ4_NL, DTYPE_SUPER_NF4, DTYPE_SUPER_FP4 };

	for (size_t t = 0; t < ARRAY_LEN(types); t++) {
		super_codes(types[t], false);
		super_codes(types[t], true);
	}
}

static void test_sizes(void **state)
{
	for (unsigned k = 32; k <= 1u << 20; k *= 2) {
		assert_true(kern_tile_scratch(k) <= 1u << 20);
		assert_true(kern_q8_bytes(k) % 64 == 0);
		assert_true(kern_q8_bytes(k) >= k + k / 256);
	}
	assert_true(kern_q8_bytes(UINT32_MAX - 31) > UINT32_MAX);
}

static const struct CMUnitTest tests[] = {
	TEST(test_ref_tile),
	TEST(test_ref_q8),
	TEST(test_quantize_error),
	TEST(test_quantize_ties),
	TEST(test_quantize_odd),
	TEST(test_quantize_same),
	TEST(test_q8_same),
	TEST(test_tile_same),
	TEST(test_batch_invariance),
	TEST(test_super_codes),
	TEST(test_extremes),
	TEST(test_sizes),
};

TEST_FILE(tests)
