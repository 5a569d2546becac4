/* Dividing layers of many shapes and types into parts. The parts cover the
 * layer in order, each part is a contiguous range of bytes, and all parts have
 * about the same size. */
#include "tests/harness.h"

#include "base/checked.h"
#include "base/rng.h"
#include "host/memory/layer_parts.h"
#include "tensor/layout.h"

#include <string.h>

#define SHAPES 400

static const uint32_t types[] = { DTYPE_F32, DTYPE_Q8_0, DTYPE_TILE_Q4_0,
	DTYPE_TILE_F16 };

static uint32_t draw(uint64_t shape, uint64_t what, uint32_t below)
{
	return (uint32_t)(rng_uniform(harness_seed(), shape, what) * below);
}

/* Place tensors as a flash image does, each at the next offset that is a
 * multiple of 64. Returns the size of the layer. */
static uint64_t make_layer(uint64_t shape, struct wire_tensor t[WIRE_T_COUNT])
{
	uint32_t embd = 64 * (1 + draw(shape, 0, 8));
	uint32_t ff = 8 + draw(shape, 1, 2000) / 32 * 32;
	uint32_t type = types[draw(shape, 2, 4)];
	bool bias = draw(shape, 3, 2);
	uint64_t at = 0;

	memset(t, 0, WIRE_T_COUNT * sizeof(*t));
	ff = align_up(ff, 32);
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		bool norm = i == WIRE_T_ATTN_NORM || i == WIRE_T_FFN_NORM;
		bool big = i <= WIRE_T_O || i >= WIRE_T_GATE;

		if (!norm && !big && !bias)
			continue;
		t[i] = (struct wire_tensor){ DTYPE_F32, 1, embd, (uint32_t)at };
		if (!norm && big)
			t[i] = (struct wire_tensor){ type,
				i == WIRE_T_GATE || i == WIRE_T_UP ? ff : embd,
				i == WIRE_T_DOWN ? ff : embd, (uint32_t)at };
		at = align_up(
			at + layout_bytes(t[i].type, t[i].rows, t[i].cols), 64);
	}
	return at;
}

/* The parts together must have all rows of each tensor, in order. */
static void check_tensors(const struct wire_tensor t[WIRE_T_COUNT],
	const struct layer_part *part, unsigned n)
{
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		uint32_t rows = 0;

		for (unsigned p = 0; p < n; p++) {
			struct wire_tensor w =
				layer_part_tensor(&part[p], t, i);

			assert_int_equal(w.type, t[i].type);
			assert_int_equal(w.cols, t[i].cols);
			if (!w.rows)
				continue;
			assert_int_equal(w.offset,
				t[i].offset +
					layout_bytes(
						t[i].type, rows, t[i].cols));
			assert_true(w.offset >= part[p].from);
			assert_true(w.offset +
					layout_bytes(w.type, w.rows, w.cols) <=
				part[p].to);
			rows += w.rows;
			assert_true(rows == t[i].rows || rows % 32 == 0);
		}
		assert_int_equal(rows, t[i].rows);
	}
}

static void check_layer(uint64_t shape, unsigned n)
{
	struct wire_tensor t[WIRE_T_COUNT];
	uint64_t bytes = make_layer(shape, t), at = 0, most;
	struct layer_part part[LAYER_PARTS_MAX];
	unsigned parts = layer_parts(t, bytes, n, part);

	assert_in_range(parts, 1, n);
	most = (bytes + n - 1) / n +
		2 * layout_bytes(t[WIRE_T_DOWN].type, 32, t[WIRE_T_DOWN].cols) +
		2 * layout_bytes(t[WIRE_T_GATE].type, 32, t[WIRE_T_GATE].cols);
	most = most > t[WIRE_T_GATE].offset ? most : t[WIRE_T_GATE].offset;
	for (unsigned p = 0; p < parts; p++) {
		assert_int_equal(part[p].from, at);
		assert_true(part[p].to > at);
		at = part[p].to;
		if (n > 1 && part[p].to - part[p].from > most)
			fail_msg("shape %llu in %u: part %u has %llu of %llu "
				 "bytes",
				(unsigned long long)shape, n, p,
				(unsigned long long)(part[p].to - part[p].from),
				(unsigned long long)bytes);
	}
	assert_int_equal(at, bytes);
	check_tensors(t, part, parts);
}

static void test_parts(void **state)
{
	for (uint64_t shape = 0; shape < SHAPES; shape++)
		for (unsigned n = 1; n <= LAYER_PARTS_MAX; n++)
			check_layer(shape, n);
}

/* The shape of Qwen2.5-1.5B, with 4-bit weights and an 8-bit FFN-down. */
static void test_quarters(void **state)
{
	struct layer_part part[LAYER_PARTS_MAX];
	struct wire_tensor t[WIRE_T_COUNT] = { 0 };
	uint64_t at = 0;

	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		bool kv = i == WIRE_T_K || i == WIRE_T_V;

		if (i != WIRE_T_DOWN && i != WIRE_T_Q && !kv && i != WIRE_T_O &&
			i != WIRE_T_GATE && i != WIRE_T_UP)
			continue;
		t[i] = (struct wire_tensor){ DTYPE_TILE_Q4_0,
			i >= WIRE_T_GATE ? 8960 : (kv ? 256 : 1536), 1536,
			(uint32_t)at };
		if (i == WIRE_T_DOWN)
			t[i] = (struct wire_tensor){ DTYPE_TILE_Q8_0, 1536,
				8960, (uint32_t)at };
		at += layout_bytes(t[i].type, t[i].rows, t[i].cols);
	}
	assert_int_equal(layer_parts(t, at, 4, part), 4);
	for (unsigned p = 0; p < 4; p++)
		assert_in_range(part[p].to - part[p].from, at / 4 - (1 << 18),
			at / 4 + (1 << 18));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_parts),
	cmocka_unit_test(test_quarters),
};

TEST_FILE(tests)
