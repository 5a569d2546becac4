#include "tests/harness.h"

#include "base/checked.h"
#include "tensor/f16.h"
#include "tests/tensor/attend_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIM_MAX   128
#define HEADS_MAX 7
#define OUT_MAX   (DIM_MAX * HEADS_MAX)

/* ---- calls of all kernels ---- */

/*
 * Compute the attention of a scene (queries and KV cache, see attend_cases.h)
 * with all vector kernels. Check that all kernels give the same bytes, and that
 * each head has the same bytes as in a call for this head alone. The result is
 * stored in `out`.
 */
static void call_all(const struct scene *s, const uint16_t *table, float *out)
{
	const size_t bytes = (size_t)s->heads * s->dim * sizeof(*out);
	float again[OUT_MAX];

	call(vecs[0], s, 0, s->heads, table, out);
	for (size_t v = 1; v < n_vecs; v++) {
		call(vecs[v], s, 0, s->heads, table, again);
		if (memcmp(again, out, bytes))
			fail_msg("%s and %s differ: n %u, dim %u, heads %u",
				vecs[0]->name, vecs[v]->name, s->n, s->dim,
				s->heads);
	}
	for (unsigned h = 0; h < s->heads; h++) {
		call(vecs[n_vecs - 1], s, h, 1, table, again);
		if (memcmp(again, out + (size_t)h * s->dim,
			    s->dim * sizeof(*out)))
			fail_msg("head %u of %u alone differs: n %u, dim %u", h,
				s->heads, s->n, s->dim);
	}
}

/* ---- the expected result ---- */

static float greatest(const float *x, size_t n)
{
	float most = 0;

	for (size_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(x[i]));
	return most;
}

/* Compute the attention of head h in double. Returns the largest sum of |q k| *
 * scale among the slots. */
static double softmax(const struct scene *s, unsigned h, double *out)
{
	double *score = malloc(s->n * sizeof(*score));
	double most = -INFINITY, sum = 0, size = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		double dot = 0, all = 0;

		for (unsigned d = 0; d < s->dim; d++) {
			const double qk = (double)s->q[h * s->dim + d] *
				(double)s->k[i * s->dim + d];

			dot += qk;
			all += fabs(qk);
		}
		score[i] = dot * (double)s->scale;
		most = fmax(most, score[i]);
		size = fmax(size, all * fabs((double)s->scale));
	}
	memset(out, 0, s->dim * sizeof(*out));
	for (uint32_t i = 0; i < s->n; i++) {
		const double w = exp(score[i] - most);

		sum += w;
		for (unsigned d = 0; d < s->dim; d++)
			out[d] += w * (double)s->v[i * s->dim + d];
	}
	for (unsigned d = 0; d < s->dim; d++)
		out[d] /= sum;
	free(score);
	return size;
}

static void check_near(
	const struct scene *s, unsigned h, const float *got, double bound)
{
	double want[DIM_MAX];
	char what[80];

	softmax(s, h, want);
	snprintf(what, sizeof(what), "n %u, dim %u, head %u of %u", s->n,
		s->dim, h, s->heads);
	for (unsigned d = 0; d < s->dim; d++)
		assert_close((double)got[d], want[d], bound, what);
}

/*
 * Check a scene against double precision. A score has an error of dim / 16 + 5
 * roundings and two more, each at most 2^-24 of the sum of |q k|. The error of
 * a score becomes a relative error of its softmax weight. It counts twice, for
 * the weight itself and for the sum of the weights by which it is divided; the
 * error of the exponential, 2e-7, is added. The products with values are added
 * one after another within each block of 64 slots, and then the sums of the
 * blocks.
 */
static void check_exact(const struct scene *s)
{
	const double v = (double)greatest(s->v, (size_t)s->n * s->dim);
	float got[OUT_MAX];

	call_all(s, NULL, got);
	for (unsigned h = 0; h < s->heads; h++) {
		double want[DIM_MAX];
		const double size = softmax(s, h, want);
		const double score = (s->dim / 16.0 + 7) * 0x1p-24 * size;
		const double rounds = (80 + s->n / 64.0 * 4) * 0x1p-24;

		check_near(s, h, got + (size_t)h * s->dim,
			v * (2 * score + 6e-7 + rounds));
	}
}

static const uint32_t lengths[] = { 1, 2, 63, 64, 65, 127, 128, 129, 300,
	1000 };
static const unsigned dims[] = { 1, 20, 64, 80, 128 };
static const unsigned groups[] = { 1, 2, 4, 6, 7 };

static void every_scene(void (*check)(const struct scene *s))
{
	for (size_t n = 0; n < ARRAY_LEN(lengths); n++)
		for (size_t d = 0; d < ARRAY_LEN(dims); d++)
			for (size_t h = 0; h < ARRAY_LEN(groups); h++)
				for (int f16 = 0; f16 < 2; f16++) {
					struct scene s;

					scene_make(&s, lengths[n], dims[d],
						groups[h], f16);
					check(&s);
					scene_free(&s);
				}
}

/* ---- float32 ---- */

static void test_attend(void **state)
{
	every_scene(check_exact);
}

/* Compare `ref` with the double precision result of this file. */
static void test_attend_ref(void **state)
{
	float got[OUT_MAX];
	struct scene s;

	scene_make(&s, 129, 80, 3, true);
	call(ref, &s, 0, 3, NULL, got);
	for (unsigned h = 0; h < 3; h++)
		check_near(&s, h, got + (size_t)h * 80, 1e-7);
	scene_free(&s);
}

/* Tests scores beyond the range of exp, positive and negative. */
static void test_attend_sharp(void **state)
{
	for (int f16 = 0; f16 < 2; f16++) {
		struct scene s;

		scene_make(&s, 300, 64, 6, f16);
		s.scale = 1000;
		check_exact(&s);
		s.scale = -1000;
		check_exact(&s);
		scene_free(&s);
	}
}

static void test_attend_equal(void **state)
{
	struct scene s;

	scene_make(&s, 1000, 80, 4, true);
	memset(s.q, 0, 4 * 80 * sizeof(*s.q));
	check_exact(&s);
	scene_free(&s);
}

/* If one score, at any slot, is far above all other scores, the result is the
 * value vector of this slot. */
static void test_attend_one(void **state)
{
	static const uint32_t at[] = { 0, 63, 64, 130, 199 };
	float got[OUT_MAX];

	for (size_t a = 0; a < ARRAY_LEN(at); a++) {
		struct scene s;

		scene_make(&s, 200, 64, 2, false);
		memcpy(s.q, s.k + at[a] * 64, 64 * sizeof(*s.q));
		memcpy(s.q + 64, s.k + at[a] * 64, 64 * sizeof(*s.q));
		s.scale = 1000;
		call_all(&s, NULL, got);
		assert_memory_equal(got, s.v + at[a] * 64, 64 * sizeof(*got));
		assert_memory_equal(
			got + 64, s.v + at[a] * 64, 64 * sizeof(*got));
		scene_free(&s);
	}
}

/* Lowering all scores by the same large number does not change the softmax. */
static void test_attend_far_down(void **state)
{
	struct scene s;

	scene_make(&s, 130, 20, 4, false);
	for (uint32_t i = 0; i < s.n; i++)
		s.k[i * 20] = 30000;
	for (unsigned h = 0; h < s.heads; h++)
		s.q[h * 20] = -1;
	scene_store(&s);
	check_exact(&s);
	scene_free(&s);
}

/* A block of 64 slots whose scores are all -infinity has no effect, before or
 * after other blocks. */
static void test_attend_infinite(void **state)
{
	for (int behind = 0; behind < 2; behind++) {
		const uint32_t from = behind ? 64 : 0, to = behind ? 128 : 64;
		float got[OUT_MAX];
		double want = 0;
		struct scene s;

		scene_make(&s, 128, 1, 2, false);
		for (uint32_t i = 0; i < s.n; i++)
			s.k[i] = i >= from && i < to ? -3e38f : 0;
		s.q[0] = s.q[1] = 3e38f;
		scene_store(&s);
		for (uint32_t i = 0; i < s.n; i++)
			want += s.k[i] == 0 ? (double)s.v[i] / 64 : 0;
		call_all(&s, NULL, got);
		assert_close((double)got[0], want, 1e-5, "half of them");
		scene_free(&s);
	}
}

/* A NaN or infinity in the query of a head makes the output of this head NaN,
 * but does not change the output of any other head, with all kernels. */
static void test_attend_nan(void **state)
{
	static const float odd[] = { NAN, INFINITY };

	for (size_t o = 0; o < ARRAY_LEN(odd); o++)
		for (size_t v = 0; v < n_vecs; v++) {
			float good[OUT_MAX], got[OUT_MAX];
			struct scene s;

			scene_make(&s, 70, 64, 6, true);
			call(vecs[v], &s, 0, 6, NULL, good);
			s.q[3 * 64 + 5] = odd[o];
			call(vecs[v], &s, 0, 6, NULL, got);
			for (unsigned i = 0; i < 6 * 64; i++) {
				if (i / 64 == 3)
					assert_true(isnan(got[i]));
				else
					assert_true(got[i] == good[i]);
			}
			scene_free(&s);
		}
}

/* ---- fp16 with a table ---- */

static struct fence table_fence;
static uint16_t *table; /* an inaccessible page follows the table */

static int table_setup(void **state)
{
	const size_t bytes = KERN_EXP2_ENTRIES * sizeof(*table);

	fence_make(&table_fence, bytes);
	table = table_fence.at;
	kern_exp2_table(table);
	return setup(state);
}

static int table_teardown(void **state)
{
	fence_free(&table_fence);
	return 0;
}

#define TABLE_TEST(name) \
	cmocka_unit_test_setup_teardown(name, table_setup, table_teardown)

/* The value of a positive fp16 number, computed from its exponent and
 * fraction. */
static double half_value(unsigned bits)
{
	const int exponent = (int)(bits >> 10), fraction = (int)(bits & 0x3ff);

	if (exponent == 0)
		return ldexp(fraction, -24);
	return ldexp(1024 + fraction, exponent - 25);
}

static void test_exp2_table(void **state)
{
	const unsigned infinity = 0x7c00;

	assert_int_equal(table[0], 0x3c00);
	for (unsigned i = 0; i < KERN_EXP2_ENTRIES; i++) {
		char what[32];

		if (i >= infinity) {
			assert_int_equal(table[i], 0);
			continue;
		}
		const double x = -half_value(i), want = exp2(x);
		const double got = half_value(table[i]);

		snprintf(what, sizeof(what), "2^%.9g", x);
		if (want >= 0x1p-14)
			assert_close(got, want, want * 0x1p-11, what);
		else
			assert_close(got, want, 0x1p-25, what);
		if (x <= -25)
			assert_int_equal(table[i], 0);
		if (i)
			assert_true(table[i] <= table[i - 1]);
	}
}

/* Check that all outputs are fp16 numbers, with an error of at most 1 % of the
 * largest value. */
static void check_table(const struct scene *s)
{
	const double v = (double)greatest(s->v, (size_t)s->n * s->dim);
	float got[OUT_MAX];

	call_all(s, table, got);
	for (unsigned i = 0; i < s->heads * s->dim; i++)
		assert_true(got[i] == f16_to_f32(f32_to_f16(got[i])));
	for (unsigned h = 0; h < s->heads; h++)
		check_near(s, h, got + (size_t)h * s->dim, v * 1e-2);
}

static void test_table(void **state)
{
	every_scene(check_table);
}

static void test_table_ref(void **state)
{
	static const uint32_t rows[] = { 1, 64, 65, 300 };

	for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
		float got[OUT_MAX], want[OUT_MAX];
		struct scene s;

		scene_make(&s, rows[r], 80, 3, r % 2);
		call(ref, &s, 0, 3, table, want);
		call_all(&s, table, got);
		for (unsigned i = 0; i < 3 * 80; i++)
			assert_close(
				(double)got[i], (double)want[i], 3e-3, "ref");
		for (unsigned h = 0; h < 3; h++)
			check_near(&s, h, want + (size_t)h * 80, 1e-2);
		scene_free(&s);
	}
}

/* The softmax weights differ by up to e^8. Rounding of the scores to fp16
 * changes the weights by up to 1 %. */
static void test_table_spread(void **state)
{
	struct scene s;

	scene_make(&s, 300, 64, 4, true);
	s.scale = 1;
	check_table(&s);
	scene_free(&s);
}

/* The softmax weights add up to 1: if all values are 1 the output is 1, except
 * for the rounding of each block's output and of the quotient. */
static void test_table_sums(void **state)
{
	static const float scales[] = { 0, 0.1f, 1, 1000 };
	static const uint32_t rows[] = { 1, 2, 64, 65, 300, 1000, 4096 };

	for (size_t r = 0; r < ARRAY_LEN(rows); r++)
		for (size_t c = 0; c < ARRAY_LEN(scales); c++) {
			const double rounds = rows[r] / 64.0 + 2;
			float got[OUT_MAX];
			struct scene s;

			scene_make(&s, rows[r], 20, 6, c % 2);
			for (size_t i = 0; i < (size_t)s.n * 20; i++)
				s.v[i] = 1;
			scene_store(&s);
			s.scale = scales[c];
			call_all(&s, table, got);
			for (unsigned i = 0; i < 6 * 20; i++)
				assert_close((double)got[i], 1,
					rounds * 0x1p-11, "sum");
			scene_free(&s);
		}
}

/* The kernel uses the given table: with a table of ones the output is the mean
 * of the values. */
static void test_table_is_used(void **state)
{
	float got[OUT_MAX];
	double want[DIM_MAX];
	struct scene s;

	scene_make(&s, 129, 64, 2, true);
	s.scale = 5;
	for (unsigned i = 0; i < 0x7c00; i++) /* entries of finite x */
		table[i] = 0x3c00;
	call_all(&s, table, got);
	memset(s.q, 0, 2 * 64 * sizeof(*s.q));
	softmax(&s, 0, want);
	for (unsigned i = 0; i < 2 * 64; i++)
		assert_close((double)got[i], want[i % 64], 2e-3, "mean");
	scene_free(&s);
}

/* Scores are rounded to fp16: 8 + 2^-9 has the same weight as 8. */
static void test_table_scores(void **state)
{
	static const float q[] = { 1, 1 }, v[] = { 0, 0, 1, 1 };
	static const float k[] = { 8, 0, 8, 0x1p-9f };
	float got[OUT_MAX];
	struct scene s;

	scene_make(&s, 2, 2, 1, false);
	memcpy(s.q, q, sizeof(q));
	memcpy(s.k, k, sizeof(k));
	memcpy(s.v, v, sizeof(v));
	scene_store(&s);
	s.scale = (float)M_LN2;
	call_all(&s, table, got);
	assert_true(got[0] == 0.5f && got[1] == 0.5f);
	call_all(&s, NULL, got);
	assert_true(got[0] > 0.5f && got[1] > 0.5f);
	scene_free(&s);
}

/* Queries are rounded to fp16 at the start, and float32 keys and values when
 * they are read. */
static void test_table_rounds(void **state)
{
	float wide[OUT_MAX], narrow[OUT_MAX], exact[OUT_MAX];
	struct scene a, b;

	scene_make(&a, 129, 80, 4, false);
	scene_make(&b, 129, 80, 4, true);
	for (unsigned i = 0; i < 4 * 80; i++)
		b.q[i] = f16_to_f32(f32_to_f16(a.q[i]));
	call_all(&a, table, wide);
	call_all(&b, table, narrow);
	assert_memory_equal(wide, narrow, 4 * 80 * sizeof(*wide));
	call_all(&a, NULL, exact);
	assert_memory_not_equal(wide, exact, 4 * 80 * sizeof(*wide));
	scene_free(&a);
	scene_free(&b);
}

/* Scores and sums beyond the range of fp16 saturate and do not become NaN. */
static void test_table_saturates(void **state)
{
	float got[OUT_MAX];
	struct scene s;

	scene_make(&s, 300, 64, 6, true);
	for (size_t i = 0; i < 300 * 64; i++)
		s.v[i] = i % 2 ? 60000 : -60000;
	scene_store(&s);
	memset(s.q, 0, 64 * sizeof(*s.q)); /* makes a sum of 300 * 60000 */
	for (unsigned i = 64; i < 6 * 64; i++)
		s.q[i] *= 1e6f;
	s.scale = 1000;
	call_all(&s, table, got);
	for (unsigned i = 0; i < 6 * 64; i++)
		assert_true(fabsf(got[i]) <= F16_MAX);
	assert_close((double)got[1], 65504.0 / 300, 0.2, "saturated");
	scene_free(&s);
}

/* A NaN score has the softmax weight 0, which the exp2 table has for NaN. */
static void test_table_nan(void **state)
{
	float got[OUT_MAX], want[OUT_MAX];
	struct scene s;

	scene_make(&s, 65, 20, 2, false);
	s.kv.n = 64;
	call_all(&s, table, want);
	s.kv.n = 65;
	s.k[64 * 20] = NAN;
	scene_store(&s);
	call_all(&s, table, got);
	for (unsigned i = 0; i < 2 * 20; i++)
		assert_true(got[i] == want[i]);
	scene_free(&s);
}

static const struct CMUnitTest tests[] = {
	TEST(test_attend),
	TEST(test_attend_ref),
	TEST(test_attend_sharp),
	TEST(test_attend_equal),
	TEST(test_attend_one),
	TEST(test_attend_far_down),
	TEST(test_attend_infinite),
	TEST(test_attend_nan),
	TABLE_TEST(test_exp2_table),
	TABLE_TEST(test_table),
	TABLE_TEST(test_table_ref),
	TABLE_TEST(test_table_spread),
	TABLE_TEST(test_table_sums),
	TABLE_TEST(test_table_is_used),
	TABLE_TEST(test_table_scores),
	TABLE_TEST(test_table_rounds),
	TABLE_TEST(test_table_saturates),
	TABLE_TEST(test_table_nan),
};

TEST_FILE(tests)
