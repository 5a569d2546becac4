/*
 * Tests the kernels with extreme numbers, as in a damaged or hostile file:
 * infinities, NaN, the largest and the smallest numbers. The results may be
 * meaningless but must be defined: all vector kernels give the same bits, or
 * all give NaN, and sanitizers report nothing.
 */
#include "tests/harness.h"

#include "base/checked.h"
#include "tensor/f16.h"
#include "tensor/tile.h"
#include "tests/tensor/kern_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N      608 /* two whole groups of 256, and a part of one */
#define TRIALS 40

/* Extreme numbers as bits, to include every kind of NaN. The exponential rounds
 * x / ln 2 to an integer by adding 1.5 * 2^23; near x = -1.5 * 2^23 ln 2 this
 * sum is nearly 0. */
static const uint32_t odd[] = { 0x7fffffff, 0xffffffff, 0x7f800001, 0xff800001,
	0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 0x00000001,
	0x80000001, 0x80000000, 0x7f000000, 0xff000000, 0x477fe000, 0x477ff000,
	0xcb051591, 0xcb051592, 0xcb051590, 0x4b051591, 0xc2aeac50,
	0x42b17218 };

/* Returns n values: ordinary numbers, extreme numbers and random bits. Later
 * trials have fewer ordinary numbers. */
static float *extremes(uint64_t stream, unsigned trial, size_t n)
{
	float *x = malloc(n * sizeof(*x));

	for (size_t i = 0; i < n; i++) {
		uint32_t w[4];

		rng_words(seed, stream, (uint32_t)i, w);
		if (w[0] % TRIALS >= trial)
			x[i] = (float)((int32_t)w[1]) * 0x1p-31f;
		else if (w[2] % 2)
			x[i] = f32_from_bits(odd[w[3] % ARRAY_LEN(odd)]);
		else
			x[i] = f32_from_bits(w[3]);
	}
	return x;
}

static uint64_t stream_of(unsigned what, unsigned trial)
{
	return what * 1000 + trial;
}

static bool same(float a, float b)
{
	return f32_bits(a) == f32_bits(b) || (isnan(a) && isnan(b));
}

static float outs[8][N];

static void agree(const char *what, unsigned trial, size_t n)
{
	for (size_t v = 1; v < n_vecs; v++)
		for (size_t i = 0; i < n; i++)
			if (!same(outs[v][i], outs[0][i]))
				fail_msg("%s, trial %u, seed %llu: value %zu "
					 "is %a by %s, %a by %s",
					what, trial, (unsigned long long)seed,
					i, (double)outs[v][i], vecs[v]->name,
					(double)outs[0][i], vecs[0]->name);
}

static void test_rows(void **state)
{
	for (unsigned t = 0; t <= TRIALS; t++) {
		float *x = extremes(stream_of(1, t), t, N);
		float *w = extremes(stream_of(2, t), t, N);
		float y[N];

		ref->rmsnorm(y, x, w, N, 1e-5f);
		for (size_t v = 0; v < n_vecs; v++)
			vecs[v]->rmsnorm(outs[v], x, w, N, 1e-5f);
		agree("rmsnorm", t, N);
		ref->swiglu(y, x, w, N);
		for (size_t v = 0; v < n_vecs; v++)
			vecs[v]->swiglu(outs[v], x, w, N);
		agree("swiglu", t, N);
		memcpy(y, x, sizeof(y));
		ref->rope(y, w, w + 64, 128, t % 2);
		for (size_t v = 0; v < n_vecs; v++) {
			memcpy(outs[v], x, sizeof(y));
			vecs[v]->rope(outs[v], w, w + 64, 128, t % 2);
		}
		agree("rope", t, N);
		free(x);
		free(w);
	}
}

static void test_round_f16(void **state)
{
	for (unsigned t = 0; t <= TRIALS; t++) {
		float *x = extremes(stream_of(3, t), t, N), want[N];
		size_t beyond;

		memcpy(want, x, sizeof(want));
		beyond = ref->round_f16(want, N);
		for (size_t v = 0; v < n_vecs; v++) {
			memcpy(outs[v], x, sizeof(want));
			assert_int_equal(
				vecs[v]->round_f16(outs[v], N), beyond);
			for (size_t i = 0; i < N; i++)
				if (!same(outs[v][i], want[i]))
					fail_msg("%s rounds %a to %a, not %a",
						vecs[v]->name, (double)x[i],
						(double)outs[v][i],
						(double)want[i]);
		}
		free(x);
	}
}

/* All implementations write the same bytes, also for NaN. */
static void test_quantize(void **state)
{
	const size_t bytes = kern_q8_bytes(N);
	uint8_t *want = aligned_alloc(64, bytes);
	uint8_t *got = aligned_alloc(64, bytes);

	for (unsigned t = 0; t <= TRIALS; t++) {
		float *x = extremes(stream_of(4, t), t, N);

		memset(want, 0, bytes);
		ref->quantize(want, x, N);
		for (size_t v = 0; v < n_vecs; v++) {
			memset(got, 0, bytes);
			vecs[v]->quantize(got, x, N);
			if (memcmp(got, want, bytes))
				fail_msg("%s quantizes trial %u, seed %llu, "
					 "to other bytes",
					vecs[v]->name, t,
					(unsigned long long)seed);
		}
		free(x);
	}
	free(want);
	free(got);
}

#define HEADS    2
#define HEAD_DIM 32
#define SLOTS    130 /* two blocks of 64 slots, and two slots more */

static void test_attend(void **state)
{
	const size_t scratch = kern_attend_scratch(HEADS, HEAD_DIM);
	float *room = aligned_alloc(64, (scratch + 15) / 16 * 64);
	static uint16_t table[KERN_EXP2_ENTRIES];
	uint32_t slot[SLOTS];

	kern_exp2_table(table);
	for (uint32_t i = 0; i < SLOTS; i++)
		slot[i] = i;
	for (unsigned t = 0; t <= TRIALS; t++) {
		float *q = extremes(stream_of(5, t), t, HEADS * HEAD_DIM);
		float *k = extremes(stream_of(6, t), t, SLOTS * HEAD_DIM);
		float *v = extremes(stream_of(7, t), t, SLOTS * HEAD_DIM);
		const struct kern_kv kv = { (const uint8_t *)k,
			(const uint8_t *)v, HEAD_DIM * sizeof(float), slot,
			SLOTS, false };
		float y[HEADS * HEAD_DIM];

		ref->attend(y, q, HEADS, &kv, HEAD_DIM, 0.2f, room);
		for (size_t i = 0; i < n_vecs; i++)
			vecs[i]->attend(
				outs[i], q, HEADS, &kv, HEAD_DIM, 0.2f, room);
		agree("attend", t, HEADS * HEAD_DIM);
		ref->attend_table(
			y, q, HEADS, &kv, HEAD_DIM, 0.2f, table, room);
		for (size_t i = 0; i < n_vecs; i++)
			vecs[i]->attend_table(outs[i], q, HEADS, &kv, HEAD_DIM,
				0.2f, table, room);
		agree("attend_table", t, HEADS * HEAD_DIM);
		free(q);
		free(k);
		free(v);
	}
	free(room);
}

/* All scores except the largest are far below the largest: by powers of two, or
 * by about 1.5 * 2^23 ln 2, where a step of the exponential nearly cancels (see
 * odd[]). The softmax weights of the low scores are 0. */
static void test_attend_far(void **state)
{
	const size_t scratch = kern_attend_scratch(1, HEAD_DIM);
	float *room = aligned_alloc(64, (scratch + 15) / 16 * 64);
	float q[HEAD_DIM] = { 1 }, k[SLOTS][HEAD_DIM] = { 0 };
	float v[SLOTS][HEAD_DIM];
	uint32_t slot[SLOTS];
	const struct kern_kv kv = { (const uint8_t *)k, (const uint8_t *)v,
		sizeof(*k), slot, SLOTS, false };

	for (uint32_t i = 0; i < SLOTS; i++) {
		slot[i] = i;
		k[i][0] = !i    ? 0
			: i % 2 ? -8e6f - 8e4f * (float)i
				: -ldexpf(1, 7 + (int)i % 120);
		for (unsigned d = 0; d < HEAD_DIM; d++)
			v[i][d] = i ? 1 : 3;
	}
	for (size_t i = 0; i < n_vecs; i++) {
		float out[HEAD_DIM];

		vecs[i]->attend(out, q, 1, &kv, HEAD_DIM, 1, room);
		for (unsigned d = 0; d < HEAD_DIM; d++)
			assert_close((double)out[d], 3, 0, vecs[i]->name);
	}
	free(room);
}

/* ---- products ---- */

#define ROWS 3
#define OUT  64
#define K    288

/* Weights of random bytes, which have all kinds of scales. */
static uint8_t *any_bytes(uint64_t stream, size_t n)
{
	uint8_t *p = aligned_alloc(64, (n + 63) / 64 * 64);

	for (size_t i = 0; i < n; i += 16)
		rng_words(
			seed, stream, (uint32_t)i, (uint32_t *)(void *)(p + i));
	return p;
}

static void product(enum dtype type, unsigned t, bool q8)
{
	const bool tiled = tile_info(type);
	const size_t bytes = tiled ? tile_bytes(type, OUT, K)
				   : dtype_row_bytes(type, K) * OUT;
	const size_t q8_bytes = kern_q8_bytes(K);
	const size_t scratch = kern_multiply_scratch(K);
	uint8_t *w = any_bytes(stream_of(10 + type, t), bytes);
	uint8_t *rows = aligned_alloc(64, ROWS * q8_bytes);
	void *room = aligned_alloc(64, (scratch + 64) / 64 * 64);
	float *x = extremes(stream_of(8, t), t, ROWS * K);
	char what[64];

	snprintf(what, sizeof(what), "product of type %d%s", (int)type,
		q8 ? ", int8" : "");
	for (size_t v = 0; v <= n_vecs; v++) {
		const struct kern *k = v < n_vecs ? vecs[v] : ref;
		float y[ROWS * OUT];

		for (unsigned r = 0; r < ROWS; r++)
			k->quantize(rows + r * q8_bytes, x + r * K, K);
		if (q8)
			k->matmul_q8(y, OUT, rows, ROWS, type, w, OUT, K, room);
		else if (tiled)
			k->matmul_tile(y, OUT, x, K, ROWS, type, w, OUT, K,
				t % 2, room);
		else
			k->matmul(y, OUT, x, K, ROWS, type, w, OUT, K, t % 2,
				room);
		if (v < n_vecs)
			memcpy(outs[v], y, sizeof(y));
	}
	agree(what, t, ROWS * OUT);
	free(w);
	free(rows);
	free(room);
	free(x);
}

static void test_products(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16,
		DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0,
		DTYPE_IQ4_NL, DTYPE_MXFP4, DTYPE_NF4, DTYPE_FP4, DTYPE_TILE_F16,
		DTYPE_TILE_Q4_0, DTYPE_TILE_Q8_0, DTYPE_GROUP_Q4_0,
		DTYPE_GROUP_Q8_0, DTYPE_SUPER_Q4_0, DTYPE_SUPER_Q8_0,
		DTYPE_SUPER_IQ4_NL, DTYPE_SUPER_NF4, DTYPE_SUPER_FP4 };

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		for (unsigned t = 0; t <= TRIALS; t += 4) {
			product(types[i], t, false);
			if (kern_takes_q8(types[i]))
				product(types[i], t, true);
		}
}

static const struct CMUnitTest tests[] = {
	TEST(test_rows),
	TEST(test_round_f16),
	TEST(test_quantize),
	TEST(test_attend),
	TEST(test_attend_far),
	TEST(test_products),
};

TEST_FILE(tests)
