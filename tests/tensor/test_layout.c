/* Tests layouts (rows, tiles, groups and super-groups: orders of a weight
 * matrix in memory): the type that a matrix gets in each layout, and packing to
 * this type. */
#include "tests/harness.h"

#include "base/err.h"
#include "base/workers.h"
#include "tensor/layout.h"
#include "tensor/tile.h"

#include <stdlib.h>
#include <string.h>

static void each_type_has_a_tiled_type(void **state)
{
	static const struct {
		/* in the layouts rows, tiles, groups and super-groups */
		enum dtype from, to[4];
	} want[] = {
		{ DTYPE_F32, { DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32 } },
		{ DTYPE_BF16,
			{ DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16 } },
		{ DTYPE_F16,
			{ DTYPE_F16, DTYPE_TILE_F16, DTYPE_TILE_F16,
				DTYPE_TILE_F16 } },
		{ DTYPE_Q4_0,
			{ DTYPE_Q4_0, DTYPE_TILE_Q4_0, DTYPE_GROUP_Q4_0,
				DTYPE_SUPER_Q4_0 } },
		{ DTYPE_Q8_0,
			{ DTYPE_Q8_0, DTYPE_TILE_Q8_0, DTYPE_GROUP_Q8_0,
				DTYPE_SUPER_Q8_0 } },
		{ DTYPE_Q4_K,
			{ DTYPE_Q4_K, DTYPE_Q4_K, DTYPE_GROUP_Q4_0,
				DTYPE_SUPER_Q4_0 } },
		{ DTYPE_IQ4_NL,
			{ DTYPE_IQ4_NL, DTYPE_IQ4_NL, DTYPE_GROUP_Q4_0,
				DTYPE_SUPER_IQ4_NL } },
		{ DTYPE_MXFP4,
			{ DTYPE_MXFP4, DTYPE_MXFP4, DTYPE_GROUP_Q4_0,
				DTYPE_SUPER_FP4 } },
		{ DTYPE_NF4,
			{ DTYPE_NF4, DTYPE_NF4, DTYPE_GROUP_Q4_0,
				DTYPE_SUPER_NF4 } },
		{ DTYPE_FP4,
			{ DTYPE_FP4, DTYPE_FP4, DTYPE_GROUP_Q4_0,
				DTYPE_SUPER_FP4 } },
		{ DTYPE_Q6_K,
			{ DTYPE_Q6_K, DTYPE_Q6_K, DTYPE_GROUP_Q8_0,
				DTYPE_SUPER_Q8_0 } },
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
		for (unsigned l = 0; l < 4; l++)
			assert_int_equal(layout_type((enum layout)l,
						 want[i].from, 256, SIZE_MAX),
				want[i].to[l]);
}

static void matrices_that_do_not_fit_tiles_stay_rows(void **state)
{
	size_t strip = tile_strip_bytes(DTYPE_TILE_F16, 64);

	assert_int_equal(
		layout_type(LAYOUT_TILES, DTYPE_F16, 48, SIZE_MAX), DTYPE_F16);
	assert_int_equal(
		layout_type(LAYOUT_TILES, DTYPE_F16, 64, strip - 1), DTYPE_F16);
	assert_int_equal(layout_type(LAYOUT_TILES, DTYPE_F16, 64, strip),
		DTYPE_TILE_F16);
}

/* Packing by several threads gives the same bytes as one call of tile_pack. */
static void packing_does_not_depend_on_threads(void **state)
{
	enum { N = 1100, K = 64 };
	size_t bytes = layout_bytes(DTYPE_TILE_Q8_0, N, K);
	size_t from = layout_bytes(DTYPE_Q8_0, N, K);
	uint8_t *src = malloc(from), *want = malloc(bytes),
		*got = malloc(bytes);
	const struct layout_source from_src = { DTYPE_Q8_0, src };
	struct workers *w;
	struct err e;

	for (size_t i = 0; i < from; i++)
		src[i] = (uint8_t)(i * 131 >> 3);
	assert_ok(workers_open(&w, 3, &e), &e);
	memset(got, 0xa5, bytes);
	tile_pack(DTYPE_TILE_Q8_0, want, DTYPE_Q8_0, src, N, K);
	layout_pack(w, DTYPE_TILE_Q8_0, got, from_src, N, K);
	assert_memory_equal(got, want, bytes);
	layout_pack(w, DTYPE_Q8_0, got, from_src, N, K);
	assert_memory_equal(got, src, from);
	workers_close(w);
	free(src);
	free(want);
	free(got);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(each_type_has_a_tiled_type),
	cmocka_unit_test(matrices_that_do_not_fit_tiles_stay_rows),
	cmocka_unit_test(packing_does_not_depend_on_threads),
};

TEST_FILE(tests)
