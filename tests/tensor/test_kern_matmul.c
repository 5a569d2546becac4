#include "tests/harness.h"

#include "base/checked.h"
#include "tensor/f16.h"
#include "tests/tensor/kern_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Make n weight rows of k values of any type. A type without an encoder gets
 * random codes; its fp16 scales, whose offsets are in the table, are set to
 * small finite numbers.
 */
static void *weights(enum dtype type, uint64_t stream, size_t n, size_t k)
{
	static const struct {
		enum dtype type;
		uint8_t at[2], n;
	} scales[] = {
		{ DTYPE_Q4_1, { 0, 2 }, 2 },
		{ DTYPE_Q5_0, { 0 }, 1 },
		{ DTYPE_Q5_1, { 0, 2 }, 2 },
		{ DTYPE_Q4_K, { 0, 2 }, 2 },
		{ DTYPE_Q5_K, { 0, 2 }, 2 },
		{ DTYPE_Q6_K, { 208 }, 1 },
	};
	const struct dtype_info *info = dtype_info(type);
	const size_t bytes = dtype_row_bytes(type, n * k);
	uint8_t *w = malloc(bytes);

	if (info->from_f32) {
		float *x = floats(stream, n * k);

		info->from_f32(w, x, n * k);
		free(x);
		return w;
	}
	for (size_t i = 0; i < bytes; i++)
		w[i] = (uint8_t)(rng_uniform(seed, stream, i) * 256);
	for (size_t s = 0; s < ARRAY_LEN(scales); s++) {
		if (scales[s].type != type)
			continue;
		for (size_t b = 0; b < bytes; b += info->bytes)
			for (int i = 0; i < scales[s].n; i++) {
				const uint16_t h = f32_to_f16(
					(float)w[b + scales[s].at[i]] / 8192);

				memcpy(w + b + scales[s].at[i], &h, 2);
			}
	}
	return w;
}

struct matmul {
	enum dtype type;
	unsigned rows, n, k;
	float *x;
	void *w;
	bool w_f16;
};

static void matmul_make(struct matmul *t, enum dtype type, unsigned rows,
	unsigned n, unsigned k)
{
	*t = (struct matmul){ type, rows, n, k, floats(1, (size_t)rows * k),
		weights(type, 2, n, k) };
}

static void matmul_free(struct matmul *t)
{
	free(t->x);
	free(t->w);
}

static float *matmul_run(const struct kern *k, const struct matmul *t)
{
	const size_t n = (size_t)t->rows * t->n;
	float *y = malloc(n * sizeof(*y));
	float *scratch = malloc(kern_matmul_scratch(t->k) * sizeof(float));

	k->matmul(y, t->n, t->x, t->k, t->rows, t->type, t->w, t->n, t->k,
		t->w_f16, scratch);
	free(scratch);
	return y;
}

/*
 * The bound of the error of output (m, j): the number of roundings that affect
 * a product, times the unit of roundoff (2^-24), times the sum of the products'
 * magnitudes, plus the error of storing the result.
 */
static double matmul_bound(const struct matmul *t, unsigned m, unsigned j)
{
	const struct dtype_info *info = dtype_info(t->type);
	float *w = malloc(t->k * sizeof(*w));
	double sum = 0;

	info->to_f32(w,
		(const uint8_t *)t->w + j * dtype_row_bytes(t->type, t->k),
		t->k);
	for (unsigned i = 0; i < t->k; i++)
		sum += fabs((double)t->x[(size_t)m * t->k + i] * w[i]);
	free(w);
	/* A product is rounded once, then by the k / 16 additions of its lane
	 * (of 16 lanes), then by the 4 additions that join the lanes. 8 instead
	 * of 5 is a margin: the division k / 16 rounds down. */
	return sum * (t->k / 16 + 8) * 0x1p-24 + 1e-37;
}

static void matmul_check(const struct matmul *t)
{
	float *want = matmul_run(ref, t), *first = NULL;
	char what[96];

	for (size_t v = 0; v < n_vecs; v++) {
		float *got = matmul_run(vecs[v], t);

		for (unsigned m = 0; m < t->rows; m++)
			for (unsigned j = 0; j < t->n; j++) {
				const size_t i = (size_t)m * t->n + j;

				snprintf(what, sizeof(what),
					"%s %s %ux%ux%u [%u][%u]",
					vecs[v]->name,
					dtype_info(t->type)->name, t->rows,
					t->n, t->k, m, j);
				assert_close((double)got[i], (double)want[i],
					matmul_bound(t, m, j), what);
			}
		if (first &&
			memcmp(first, got,
				(size_t)t->rows * t->n * sizeof(*got)))
			fail_msg("%s and %s differ in %s %ux%ux%u",
				vecs[0]->name, vecs[v]->name,
				dtype_info(t->type)->name, t->rows, t->n, t->k);
		if (first)
			free(got);
		else
			first = got;
	}
	free(first);
	free(want);
}

static void test_matmul_types(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16,
		DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1,
		DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_MXFP4,
		DTYPE_NF4, DTYPE_FP4 };
	struct matmul t;

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		matmul_make(&t, types[i], 5, 7, 512);
		matmul_check(&t);
		t.w_f16 = true;
		matmul_check(&t);
		matmul_free(&t);
	}
}

/* Float32 weights that the kernel rounds to fp16 (w_f16) give the same bytes as
 * weights stored as fp16. */
static void test_matmul_rounded(void **state)
{
	struct matmul t, half;

	matmul_make(&t, DTYPE_F32, 5, 7, 1043);
	t.w_f16 = true;
	half = t;
	half.type = DTYPE_F16;
	half.w_f16 = false;
	half.w = malloc(dtype_row_bytes(DTYPE_F16, 7 * 1043));
	dtype_info(DTYPE_F16)->from_f32(half.w, t.w, 7 * 1043);
	for (size_t v = 0; v <= n_vecs; v++) {
		const struct kern *k = v < n_vecs ? vecs[v] : ref;
		float *got = matmul_run(k, &t), *want = matmul_run(k, &half);

		assert_memory_equal(got, want, 5 * 7 * sizeof(*got));
		free(got);
		free(want);
	}
	free(half.w);
	matmul_free(&t);
}

/*
 * Tests shapes at the limits of the blocks into which kern_vec.c divides a
 * product: the register tile, the row panel, the chunk and the 16 lanes of a
 * vector.
 */
static void test_matmul_shapes(void **state)
{
	static const struct {
		enum dtype type;
		unsigned rows, n, k;
	} shapes[] = {
		{ DTYPE_F32, 1, 1, 1 },
		{ DTYPE_F32, 1, 1, 15 },
		{ DTYPE_F32, 3, 5, 17 },
		{ DTYPE_F32, 4, 4, 172 },
		{ DTYPE_F16, 9, 6, 31 },
		{ DTYPE_BF16, 2, 3, 16 },
		{ DTYPE_F32, 2, 9, 1023 },
		{ DTYPE_F32, 2, 2, 1025 },
		{ DTYPE_F16, 1, 5, 2063 },
		{ DTYPE_Q4_0, 1, 4, 1056 },
		{ DTYPE_Q8_0, 65, 3, 32 },
		{ DTYPE_Q4_0, 131, 6, 96 },
		{ DTYPE_Q6_K, 67, 9, 1280 },
	};
	struct matmul t;

	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		matmul_make(&t, shapes[i].type, shapes[i].rows, shapes[i].n,
			shapes[i].k);
		matmul_check(&t);
		matmul_free(&t);
	}
}

static void test_matmul_random(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_Q8_0,
		DTYPE_Q4_0 };
	struct matmul t;

	for (uint64_t i = 0; i < 40; i++) {
		uint32_t r[4];

		rng_words(seed, 3, i, r);
		const enum dtype type = types[r[0] % ARRAY_LEN(types)];
		const unsigned block = dtype_info(type)->block;

		matmul_make(&t, type, 1 + r[1] % 20, 1 + r[2] % 12,
			block * (1 + r[3] % (600 / block)));
		matmul_check(&t);
		matmul_free(&t);
	}
}

/* Tests sums with cancellation, huge next to tiny numbers, subnormals and
 * signed zeros. */
static void test_matmul_adversarial(void **state)
{
	struct matmul t;

	matmul_make(&t, DTYPE_F32, 4, 4, 200);
	for (unsigned i = 0; i < 4 * 200; i++) {
		float w = i % 2 ? 1e18f : -1e18f;

		t.x[i] = i % 3 ? 1 : i % 7 ? -0.0f : 1e-40f;
		if (i % 5 == 0)
			w = 1e-30f;
		memcpy((float *)t.w + i, &w, sizeof(w));
	}
	matmul_check(&t);
	matmul_free(&t);
}

/* A NaN in a row of x makes all outputs of this row NaN, and affects no other
 * row. */
static void test_matmul_not_finite(void **state)
{
	struct matmul t;

	matmul_make(&t, DTYPE_F32, 5, 6, 40);
	float *clean = matmul_run(vecs[0], &t);

	t.x[2 * 40 + 33] = NAN;
	for (size_t v = 0; v < n_vecs; v++) {
		float *y = matmul_run(vecs[v], &t);

		for (int m = 0; m < 5; m++)
			for (int j = 0; j < 6; j++)
				if (m == 2)
					assert_true(isnan(y[m * 6 + j]));
				else
					assert_memory_equal(y + m * 6 + j,
						clean + m * 6 + j, 4);
		free(y);
	}
	free(clean);
	matmul_free(&t);
}

/* A row gets the same bytes if it is computed alone or with other rows, and if
 * the n outputs are computed in one call or in several. */
static void test_matmul_batch_invariance(void **state)
{
	static const struct {
		enum dtype type;
		unsigned k;
	} cases[] = { { DTYPE_Q4_0, 1088 }, { DTYPE_F32, 172 },
		{ DTYPE_F16, 1031 }, { DTYPE_Q8_0, 64 } };
	static const unsigned cuts[] = { 1, 2, 3, 4, 5, 7, 23 };
	const unsigned rows = 70, n = 23;

	for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
		struct matmul t;
		float scratch[8192], alone[23];

		assert_true(kern_matmul_scratch(cases[c].k) <= 8192);
		matmul_make(&t, cases[c].type, rows, n, cases[c].k);
		for (size_t v = 0; v <= n_vecs; v++) {
			const struct kern *k = v < n_vecs ? vecs[v] : ref;
			float *all = matmul_run(k, &t);
			const size_t bytes = dtype_row_bytes(t.type, t.k);

			for (unsigned m = 0; m < rows; m++) {
				const unsigned cut = cuts[m % ARRAY_LEN(cuts)];

				for (unsigned j = 0; j < n; j += cut)
					k->matmul(alone + j, n,
						t.x + (size_t)m * t.k, t.k, 1,
						t.type,
						(uint8_t *)t.w + j * bytes,
						n - j < cut ? n - j : cut, t.k,
						false, scratch);
				if (memcmp(alone, all + m * n, sizeof(alone)))
					fail_msg("%s %s: row %u in cuts of %u",
						k->name,
						dtype_info(t.type)->name, m,
						cut);
			}
			free(all);
		}
		matmul_free(&t);
	}
}

/* Tests weights at odd addresses, and rows of y and x with gaps that must not
 * change. */
static void test_matmul_strides(void **state)
{
	struct matmul t;
	float scratch[8192], x[3 * 50], y[3 * 9];

	matmul_make(&t, DTYPE_F32, 3, 5, 44);
	uint8_t *odd = malloc(5 * 44 * 4 + 1);

	memcpy(odd + 1, t.w, 5 * 44 * 4);
	for (int m = 0; m < 3; m++)
		memcpy(x + m * 50, t.x + m * 44, 44 * sizeof(float));
	for (size_t v = 0; v <= n_vecs; v++) {
		const struct kern *k = v < n_vecs ? vecs[v] : ref;
		float *want = matmul_run(k, &t);

		for (int i = 0; i < 3 * 9; i++)
			y[i] = 42;
		k->matmul(y, 9, x, 50, 3, DTYPE_F32, odd + 1, 5, 44, false,
			scratch);
		for (int m = 0; m < 3; m++) {
			assert_memory_equal(y + m * 9, want + m * 5, 20);
			for (int j = 5; j < 9; j++)
				assert_true(y[m * 9 + j] == 42);
		}
		free(want);
	}
	free(odd);
	matmul_free(&t);
}

static const struct CMUnitTest tests[] = {
	TEST(test_matmul_types),
	TEST(test_matmul_rounded),
	TEST(test_matmul_shapes),
	TEST(test_matmul_random),
	TEST(test_matmul_adversarial),
	TEST(test_matmul_not_finite),
	TEST(test_matmul_batch_invariance),
	TEST(test_matmul_strides),
};

TEST_FILE(tests)
