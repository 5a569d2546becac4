/*
 * Flash images of models that are inconsistent or damaged: which images are
 * refused, when, and with which message.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/progress.h"
#include "flash/image.h"
#include "flash/image_write.h"
#include "host/convert/convert.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "tests/harness.h"
#include "tests/host/convert/convert_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct extents {
	struct image *im;
	uint8_t *data[16];
};

static void read_extents(struct extents *x)
{
	struct err e = { 0 };

	assert_ok(image_open(&x->im, path, &e), &e);
	for (size_t i = 0; i < image_n_extents(x->im); i++) {
		const struct image_extent *is = image_extent_at(x->im, i);

		x->data[i] = malloc(is->bytes);
		assert_ok(image_read(x->im, is, x->data[i], &e), &e);
	}
}

/* Write the image with a new checksum and check that opening it fails with the
 * message `want`. */
static void refused(const struct extents *x, size_t metadata, size_t layers,
	const char *what, const char *want)
{
	struct image_write_opts o = { .n_extents = (uint32_t)(layers + 3) };
	struct image_writer *w;
	struct model *m;
	struct err e = { 0 };

	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	for (size_t i = 0; i < layers + 3; i++) {
		const struct image_extent *is = image_extent_at(x->im, i);

		assert_ok(image_write(w, is->kind, is->index, x->data[i],
				  i ? is->bytes : metadata, &e),
			&e);
	}
	assert_ok(image_writer_commit(w, &e), &e);
	image_writer_close(w);
	if (model_open(&m, path, &e) >= 0 || !strstr(e.text, want) ||
		!strstr(e.text, path))
		fail_msg("%s: the message '%s' does not contain '%s'", what,
			e.text, want);
}

static void test_metadata(void **state)
{
	static const struct {
		const char *what;
		int entry; /* entry of the table; -1 for the header */
		size_t at, bytes;
		uint64_t value;
		const char *want;
	} bad[] = {
		{ "version", -1, 0, 4, 2, "metadata: version 2" },
		{ "layout", -1, 4, 4, 4, "layout 4" },
		{ "file size", -1, 8, 8, 1000, "truncated" },
		{ "header size", -1, 16, 8, 100,
			"metadata: header: tensor count" },
		{ "header size 2^64", -1, 16, 8, UINT64_MAX,
			"does not fit into" },
		{ "table", -1, 24, 8, 8, "a table of" },
		{ "table 2^64", -1, 24, 8, UINT64_MAX - 7, "a table of" },
		{ "tensors", -1, 32, 4, UINT32_MAX, "a table of 4294967295" },
		{ "tensors left out", -1, 32, 4, 4, "is in no extent of" },
		{ "no tensors", -1, 32, 4, 0, "is in no extent" },
		{ "reserved", -1, 63, 1, 1, "reserved" },
		{ "tensor", 0, 0, 4, 1000, "entry 0: tensor 1000" },
		{ "tensor twice", 7, 0, 4, 3, "occurs twice" },
		{ "extent", 1, 4, 4, 99, "extent 99 holds no tensors" },
		{ "extent of metadata", 1, 4, 4, 0, "extent 0 holds no" },
		{ "a layer's extent", 1, 4, 4, 3, "is in no extent" },
		{ "a layer's extent", 2, 4, 4, 3, "is in no extent" },
		{ "type", 7, 8, 4, 5, "type 5 of tensor" },
		{ "type of a tile", 7, 8, 4, 0x110, "type 272 of tensor" },
		{ "type of the host", 0, 8, 4, DTYPE_F16, "type 1 of tensor" },
		{ "type that is shorter", 5, 8, 4, DTYPE_Q4_0, "offset" },
		{ "type that is longer", 5, 8, 4, DTYPE_F32, "offset" },
		{ "rows", 6, 12, 4, 65, "65 rows of 64 do not match" },
		{ "columns", 6, 16, 4, 32, "32 rows of 32 do not match" },
		{ "reserved", 6, 20, 4, 1, "entry 6: reserved" },
		{ "offset", 8, 24, 8, 64, "is at offset 64 of layer 0" },
		{ "offset odd", 8, 24, 8, 8, "do not lie in" },
		{ "offset beyond", 8, 24, 8, 1 << 30, "do not lie in" },
		{ "offset 2^64", 8, 24, 8, UINT64_MAX - 63, "do not lie in" },
		{ "other layer", 6, 4, 4, 4, "of layer 1, not at" },
		{ "output of the embedding", 3, 0, 4, 0,
			"'output matrix' must hold" },
	};
	struct model *a = source(&mixed);
	struct convert_opts o = keep;
	struct extents x;
	uint64_t table;
	size_t bytes;

	o.layout = LAYOUT_TILES;
	model_close(converted(a, &o, NULL));
	read_extents(&x);
	bytes = image_extent_at(x.im, 0)->bytes;
	memcpy(&table, x.data[0] + 24, sizeof(table));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint8_t *p = x.data[0] + bad[i].at, was[8];

		if (bad[i].entry >= 0)
			p += table + (size_t)bad[i].entry * 32;
		memcpy(was, p, bad[i].bytes);
		memcpy(p, &bad[i].value, bad[i].bytes);
		refused(&x, bytes, 3, bad[i].what, bad[i].want);
		memcpy(p, was, bad[i].bytes);
	}
	refused(&x, 63, 3, "a head cut short", "only 63 bytes, fewer");
	refused(&x, bytes - 1, 3, "a table cut short", "a table of");
	refused(&x, bytes, 2, "a layer left out", "extent 5 holds no tensors");
	for (size_t i = 0; i < image_n_extents(x.im); i++)
		free(x.data[i]);
	image_close(x.im);
	model_close(a);
}

/* Damaged bytes of a layer are detected when the layer is loaded. */
static void test_damaged_layer(void **state)
{
	struct weights_plan plan = { LAYOUT_ROWS, SIZE_MAX, 1, SIZE_MAX };
	struct model *a = source(&mixed), *b = converted(a, &keep, NULL);
	FILE *f = fopen(path, "r+");
	struct block *blocks;
	struct err e = { 0 };
	uint32_t n;

	fseek(f, (long)image_find(b->packed->image, IMAGE_LAYER, 1)->offset + 9,
		SEEK_SET);
	fputs("damage", f);
	fclose(f);
	plan.residency = residency_of(b->n_layer, b->n_layer, 1);
	assert_ok(weights_cut(b, &plan, &blocks, &n, &e), &e);
	assert_int_equal(weights_load(b, NULL, blocks, n,
				 &(struct progress_sink){ 0 }, &e),
		-EBADMSG);
	assert_non_null(strstr(e.text, "layer 1: checksum"));
	weights_release(blocks, n);
	model_close(a);
	model_close(b);
}

static void test_long_strips(void **state)
{
	struct weights_plan plan = { LAYOUT_TILES, 11 * 1088, 1, SIZE_MAX };
	struct convert_opts o = keep;
	struct model *a = source(&mixed), *b;
	struct block *blocks;
	struct err e = { 0 };
	uint32_t n;

	o.layout = LAYOUT_TILES;
	b = converted(a, &o, NULL);
	plan.residency = residency_of(b->n_layer, b->n_layer, 1);
	assert_ok(weights_cut(b, &plan, &blocks, &n, &e), &e);
	weights_release(blocks, n);
	plan.strip_max--; /* FFN-down has 352 columns, which are 11 tiles */
	assert_int_equal(weights_cut(b, &plan, &blocks, &n, &e), -EFBIG);
	assert_non_null(strstr(e.text, "--threads"));
	model_close(a);
	model_close(b);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_metadata),
	cmocka_unit_test(test_damaged_layer),
	cmocka_unit_test(test_long_strips),
};

TEST_FILE(tests)
