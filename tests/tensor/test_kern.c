#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "tensor/f16.h"
#include "tests/tensor/kern_cases.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

/* Check that all vector kernels give the same bytes, close to the result of
 * `ref`. */
static void agree(const char *what, const float *want, float *const *got,
	size_t n, double relative, double absolute)
{
	for (size_t v = 0; v < n_vecs; v++) {
		char where[64];

		snprintf(where, sizeof(where), "%s %s", vecs[v]->name, what);
		for (size_t i = 0; i < n; i++)
			assert_close((double)got[v][i], (double)want[i],
				fabs((double)want[i]) * relative + absolute,
				where);
		if (memcmp(got[v], got[0], n * sizeof(float)))
			fail_msg("%s: %s and %s differ", what, vecs[0]->name,
				vecs[v]->name);
	}
}

static const unsigned lengths[] = { 1, 3, 8, 15, 16, 17, 64, 172, 1000 };
#define LENGTH_MAX 1000

static float outs[8][LENGTH_MAX],
	*out_rows[8] = { outs[0], outs[1], outs[2], outs[3], outs[4], outs[5],
		outs[6], outs[7] };

static void test_rmsnorm(void **state)
{
	float *x = floats(4, LENGTH_MAX), *w = floats(5, LENGTH_MAX);
	float want[LENGTH_MAX];

	for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
		const unsigned n = lengths[l];

		ref->rmsnorm(want, x, w, n, 1e-5f);
		for (size_t v = 0; v < n_vecs; v++) {
			/* the output overwrites the input */
			memcpy(outs[v], x, n * sizeof(*x));
			vecs[v]->rmsnorm(outs[v], outs[v], w, n, 1e-5f);
		}
		agree("rmsnorm", want, out_rows, n, 4e-6, 0);
	}
	/* zeros: eps keeps the quotient finite */
	memset(x, 0, 64 * sizeof(*x));
	vecs[0]->rmsnorm(outs[0], x, w, 64, 1e-5f);
	for (int i = 0; i < 64; i++)
		assert_true(outs[0][i] == 0);
	free(x);
	free(w);
}

static void test_rope(void **state)
{
	float *x = floats(6, 128), *angle = floats(7, 64);
	float c[64], s[64], want[128];

	for (int i = 0; i < 64; i++) {
		c[i] = cosf(angle[i] * 9);
		s[i] = sinf(angle[i] * 9);
	}
	for (int neox = 0; neox < 2; neox++)
		for (unsigned rot = 2; rot <= 128; rot *= 2) {
			memcpy(want, x, sizeof(want));
			ref->rope(want, c, s, rot, neox);
			for (size_t v = 0; v < n_vecs; v++) {
				memcpy(outs[v], x, sizeof(want));
				vecs[v]->rope(outs[v], c, s, rot, neox);
			}
			agree("rope", want, out_rows, 128, 1e-6, 3e-7);
			assert_memory_equal(
				want + rot, x + rot, (128 - rot) * sizeof(*x));
		}
	free(x);
	free(angle);
}

/* Also tests large positions, at which the product of position and frequency in
 * float32 would be wrong by whole turns. */
static void test_angles(void **state)
{
	static const float freq[3] = { 1, 0.5f, 0x1.8p-9f };
	static const uint32_t at[] = { 0, 1, 77, 1u << 20, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		float c[4] = { 0, 0, 0, 9 }, s[4] = { 0, 0, 0, 9 };

		kern_angles(c, s, at[i], freq, 3);
		for (int j = 0; j < 3; j++) {
			const long double x = (long double)at[i] * freq[j];

			assert_close(
				(double)c[j], (double)cosl(x), 1e-7, "cosine");
			assert_close(
				(double)s[j], (double)sinl(x), 1e-7, "sine");
		}
		assert_true(c[3] == 9 && s[3] == 9);
	}
}

/* A rotation by a quarter turn swaps the two values of a pair and negates the
 * first. */
static void test_rope_pairs(void **state)
{
	static const float c[2] = { 0, 0 }, s[2] = { 1, 1 };
	static const float near[5] = { -2, 1, -4, 3, 5 };
	static const float far[5] = { -3, -4, 1, 2, 5 };

	for (size_t v = 0; v <= n_vecs; v++) {
		const struct kern *k = v < n_vecs ? vecs[v] : ref;
		float a[5] = { 1, 2, 3, 4, 5 }, b[5] = { 1, 2, 3, 4, 5 };

		k->rope(a, c, s, 4, false);
		k->rope(b, c, s, 4, true);
		for (int i = 0; i < 5; i++) {
			assert_true(a[i] == near[i]);
			assert_true(b[i] == far[i]);
		}
	}
}

static void test_swiglu(void **state)
{
	float *g = floats(8, LENGTH_MAX), *u = floats(9, LENGTH_MAX);
	float want[LENGTH_MAX];

	/* the whole range of the exponential, and values beyond both ends */
	for (int i = 0; i < LENGTH_MAX; i++)
		g[i] *= i % 2 ? 120 : 5;
	g[0] = 0;
	g[1] = -0.0f;
	g[2] = 1e30f;
	g[3] = -1e30f;
	g[4] = -1000;
	g[5] = 1000;
	for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
		const unsigned n = lengths[l];

		ref->swiglu(want, g, u, n);
		for (size_t v = 0; v < n_vecs; v++) {
			/* the output overwrites the input */
			memcpy(outs[v], g, n * sizeof(*g));
			vecs[v]->swiglu(outs[v], outs[v], u, n);
		}
		agree("swiglu", want, out_rows, n, 5e-7, 1e-36);
	}
	free(g);
	free(u);
}

/* silu(x) / x is 1 / (1 + e^-x), so it shows the error of the exponential. */
static void test_exponential(void **state)
{
	static float g[4096], u[4096], y[4096];

	for (int i = 0; i < 4096; i++) {
		g[i] = -87.3f * (float)(i + 1) / 4096;
		u[i] = 1;
	}
	for (size_t v = 0; v < n_vecs; v++) {
		vecs[v]->swiglu(y, g, u, 4096);
		for (int i = 0; i < 4096; i++) {
			const double want = g[i] / (1 + exp(-(double)g[i]));

			assert_close((double)y[i], want, fabs(want) * 4e-7,
				"exponential");
		}
	}
}

static void test_add(void **state)
{
	float *x = floats(10, LENGTH_MAX), *y = floats(11, LENGTH_MAX);
	float want[LENGTH_MAX];

	for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
		const unsigned n = lengths[l];

		for (unsigned i = 0; i < n; i++)
			want[i] = y[i] + x[i];
		for (size_t v = 0; v < n_vecs; v++) {
			memcpy(outs[v], y, n * sizeof(*y));
			vecs[v]->add(outs[v], x, n);
		}
		agree("add", want, out_rows, n, 0, 0);
	}
	free(x);
	free(y);
}

static void test_add_scaled(void **state)
{
	float *x = floats(10, LENGTH_MAX), *y = floats(11, LENGTH_MAX);
	float want[LENGTH_MAX];

	for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
		const unsigned n = lengths[l];

		for (unsigned i = 0; i < n; i++)
			want[i] = fmaf(x[i], 0.3f, y[i]);
		for (size_t v = 0; v < n_vecs; v++) {
			memcpy(outs[v], y, n * sizeof(*y));
			vecs[v]->add_scaled(outs[v], x, 0.3f, n);
		}
		agree("add_scaled", want, out_rows, n, 0, 0);
	}
	free(x);
	free(y);
}

/* Compare with the conversions of f16.h, which test_dtype checks for all fp16
 * numbers. */
static void test_round_f16(void **state)
{
	static const float odd[] = { 0, -0.0f, 65504, -65504, 65519, 65520,
		-1e9f, INFINITY, -INFINITY, 1e-8f, 2.9802322e-8f, 3e-8f,
		5.9604645e-8f, -6.1e-5f, 6.1035156e-5f, 1e-42f, 1.00048828f,
		2049, 2051, -2050.5f };
	float x[LENGTH_MAX], y[LENGTH_MAX];

	for (int i = 0; i < LENGTH_MAX; i++) {
		const double u = rng_uniform(seed, 12, (uint64_t)i);

		x[i] = i < (int)ARRAY_LEN(odd)
			? odd[i]
			: (float)(ldexp(u, (int)(i % 50) - 30) *
				  (i % 2 ? 1 : -1));
	}
	for (size_t v = 0; v <= n_vecs; v++) {
		const struct kern *k = v < n_vecs ? vecs[v] : ref;
		size_t over = 0, got;

		memcpy(y, x, sizeof(x));
		got = k->round_f16(y, LENGTH_MAX);
		for (int i = 0; i < LENGTH_MAX; i++) {
			const bool beyond = fabsf(x[i]) > F16_MAX;
			const float want = beyond
				? copysignf(F16_MAX, x[i])
				: f16_to_f32(f32_to_f16(x[i]));

			over += beyond;
			if (memcmp(&y[i], &want, sizeof(want)))
				fail_msg("%s: %.9g becomes %.9g, not %.9g",
					k->name, (double)x[i], (double)y[i],
					(double)want);
		}
		assert_int_equal(got, over);
		y[0] = NAN;
		assert_int_equal(k->round_f16(y, 1), 0);
		assert_true(isnan(y[0]));
		assert_int_equal(k->round_f16(y, 0), 0);
	}
}

static void test_store_f16(void **state)
{
	/* more than one vector of values, and some more */
	const float in[] = { 1, -0.1f, 70000, 65504, -1e9f, 3e-8f, 2049, 7, 0,
		-0.0f, 1e-3f, -6e-5f, 65519, 0.3f, 5, -9, 11, -1e5f, 0.7f };
	uint16_t out[ARRAY_LEN(in) + 1];

	for (size_t v = 0; v <= n_vecs; v++) {
		const struct kern *k = v < n_vecs ? vecs[v] : ref;
		float x[ARRAY_LEN(in)];

		memcpy(x, in, sizeof(in));
		out[ARRAY_LEN(in)] = 0xabcd;
		assert_int_equal(k->store_f16(out, x, ARRAY_LEN(in)), 4);
		for (size_t i = 0; i < ARRAY_LEN(in); i++) {
			const float held = fabsf(in[i]) > F16_MAX
				? copysignf(F16_MAX, in[i])
				: in[i];

			assert_int_equal(out[i], f32_to_f16(held));
		}
		assert_int_equal(out[ARRAY_LEN(in)], 0xabcd);
	}
}

/* ---- parts of a matrix ---- */

static void assert_parts(struct kern_parts p, const uint32_t *n)
{
	for (uint32_t i = 0; n[i]; i++)
		assert_int_equal(kern_part(&p, i * p.threads).n, n[i]);
}

/* The sizes of the parts of the first thread's share. */
static void test_part_sizes(void **state)
{
	/* strips of 27 KiB: at most 1 MiB, at least 64 KiB */
	assert_parts(kern_parts(280, 27648, SIZE_MAX, 2),
		(const uint32_t[]){ 37, 37, 33, 16, 8, 4, 2, 3, 0 });
	assert_parts(kern_parts(48, 304640, SIZE_MAX, 2),
		(const uint32_t[]){ 3, 3, 3, 3, 3, 3, 3, 1, 1, 1, 0 });
	/* at most what fits the worker's memory, but at least one strip */
	assert_parts(
		kern_parts(8, 304640, 2, 2), (const uint32_t[]){ 2, 1, 1, 0 });
	assert_parts(
		kern_parts(4, 304640, 0, 2), (const uint32_t[]){ 1, 1, 0 });
	assert_parts(kern_parts(4, 4 << 20, SIZE_MAX, 2),
		(const uint32_t[]){ 1, 1, 0 });
	assert_parts(
		kern_parts(1, 1024, SIZE_MAX, 8), (const uint32_t[]){ 1, 0 });
}

/* Each unit is in one part. */
static void test_parts(void **state)
{
	for (uint32_t units = 1; units < 60; units++)
		for (unsigned threads = 1; threads < 9; threads++)
			for (size_t most = 0; most < 9; most++) {
				const struct kern_parts p = kern_parts(
					units, 32 << 10, most, threads);
				uint64_t seen = 0;

				for (uint32_t i = 0; i < kern_parts_count(&p);
					i++) {
					const struct kern_part part =
						kern_part(&p, i);
					const uint64_t bits =
						((uint64_t)1 << part.n) - 1;

					assert_true(
						part.n <= (most ? most : 1));
					assert_false(seen & bits << part.first);
					seen |= bits << part.first;
				}
				assert_true(seen == ((uint64_t)1 << units) - 1);
			}
}

/* ---- selection ---- */

static void test_find(void **state)
{
	assert_non_null(kern_find("ref"));
	assert_non_null(kern_find("base"));
	assert_null(kern_find("sse9"));
	assert_non_null(kern_find(NULL));
	assert_ptr_not_equal(kern_find(NULL), ref);
	for (const char *const *n = kern_names(); *n; n++) {
		const struct kern *k = kern_find(*n);

		if (k)
			assert_string_equal(k->name, *n);
	}
}

static void test_select(void **state)
{
	const struct kern *k = NULL;
	struct err e = { 0 };

	setenv("TANDEM_CPU", "base", 1);
	assert_ok(kern_select(&k, &e), &e);
	assert_string_equal(k->name, "base");
	setenv("TANDEM_CPU", "fast", 1);
	assert_int_equal(kern_select(&k, &e), -EINVAL);
	assert_non_null(strstr(e.text, "fast"));
	setenv("TANDEM_CPU", "", 1);
	assert_ok(kern_select(&k, &e), &e);
	assert_ptr_equal(k, kern_find(NULL));
	unsetenv("TANDEM_CPU");
	assert_ok(kern_select(&k, &e), &e);
	assert_ptr_equal(k, kern_find(NULL));
}

static const struct CMUnitTest tests[] = {
	TEST(test_find),
	TEST(test_select),
	TEST(test_rmsnorm),
	TEST(test_rope),
	TEST(test_angles),
	TEST(test_rope_pairs),
	TEST(test_swiglu),
	TEST(test_exponential),
	TEST(test_add),
	TEST(test_add_scaled),
	TEST(test_round_f16),
	TEST(test_store_f16),
	TEST(test_part_sizes),
	TEST(test_parts),
};

TEST_FILE(tests)
