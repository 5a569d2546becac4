/*
 * Flash images (converted model files) that are inconsistent or damaged: which
 * images are refused, when, and with which message.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/rng.h"
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
	uint8_t *data[24];
	size_t bytes[24];
};

static void read_extents(struct extents *x)
{
	struct err e = { 0 };

	assert_ok(image_open(&x->im, path, &e), &e);
	for (size_t i = 0; i < image_n_extents(x->im); i++) {
		const struct image_extent *is = image_extent_at(x->im, i);

		x->data[i] = malloc(is->bytes);
		x->bytes[i] = is->bytes;
		assert_ok(image_read(x->im, is, x->data[i], &e), &e);
	}
}

static void release_extents(struct extents *x)
{
	for (size_t i = 0; i < image_n_extents(x->im); i++)
		free(x->data[i]);
	image_close(x->im);
}

/* Write the first n extents as an image with new checksums. */
static void rewrite(const struct extents *x, size_t n)
{
	struct image_write_opts o = { .n_extents = (uint32_t)n };
	struct image_writer *w;
	struct err e = { 0 };

	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	for (size_t i = 0; i < n; i++) {
		const struct image_extent *is = image_extent_at(x->im, i);

		assert_ok(image_write(w, is->kind, is->index, x->data[i],
				  x->bytes[i], &e),
			&e);
	}
	assert_ok(image_writer_commit(w, &e), &e);
	image_writer_close(w);
}

/* Write the image and check that opening it fails with the message `want`. */
static void refused(
	const struct extents *x, size_t n, const char *what, const char *want)
{
	struct model *m;
	struct err e = { 0 };

	rewrite(x, n);
	if (model_open(&m, path, NULL, NULL, &e) >= 0 ||
		!strstr(e.text, want) || !strstr(e.text, path))
		fail_msg("%s: the message '%s' does not contain '%s'", what,
			e.text, want);
}

struct change {
	const char *what;
	int entry; /* entry of the tensor table; -1: header */
	size_t at, bytes;
	uint64_t value;
	const char *want;
};

/* Make the n changes of the metadata one at a time, check that the image is
 * refused, and undo the change. */
static void refused_changes(
	struct extents *x, const struct change *change, size_t n)
{
	uint64_t table;

	memcpy(&table, x->data[0] + 24, sizeof(table));
	for (size_t i = 0; i < n; i++) {
		uint8_t *p = x->data[0] + change[i].at, was[8];

		if (change[i].entry >= 0)
			p += table + (size_t)change[i].entry * 32;
		memcpy(was, p, change[i].bytes);
		memcpy(p, &change[i].value, change[i].bytes);
		refused(x, image_n_extents(x->im), change[i].what,
			change[i].want);
		memcpy(p, was, change[i].bytes);
	}
}

static void test_metadata(void **state)
{
	static const struct change bad[] = {
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
		{ "extent", 1, 4, 4, 99, "no extent 99 with tensors" },
		{ "extent of metadata", 1, 4, 4, 0,
			"no extent 0 with tensors" },
		{ "a layer's extent", 1, 4, 4, 3, "is in none of the image" },
		{ "a layer's extent", 2, 4, 4, 3, "is in none of the image" },
		{ "type", 7, 8, 4, 5, "type 5 of tensor" },
		{ "type of a tile", 7, 8, 4, 0x110, "type 272 of tensor" },
		{ "type of the host", 0, 8, 4, DTYPE_F16, "type 1 of tensor" },
		{ "type that is shorter", 5, 8, 4, DTYPE_Q4_0, "offset" },
		{ "type that is longer", 5, 8, 4, DTYPE_F32, "offset" },
		{ "rows", 6, 12, 4, 65, "65 rows of 64 values do not match" },
		{ "columns", 6, 16, 4, 32,
			"32 rows of 32 values do not match" },
		{ "reserved", 6, 20, 4, 1, "entry 6: reserved" },
		{ "offset", 8, 24, 8, 64, "is at offset 64 of layer 0" },
		{ "offset odd", 8, 24, 8, 8, "are misaligned or go beyond" },
		{ "offset beyond", 8, 24, 8, 1 << 30,
			"are misaligned or go beyond" },
		{ "offset 2^64", 8, 24, 8, UINT64_MAX - 63,
			"are misaligned or go beyond" },
		{ "other layer", 6, 4, 4, 4, "of layer 1, not at" },
		{ "output of the embedding", 3, 0, 4, 0,
			"'output matrix' must hold" },
	};
	struct model *a = source(&mixed);
	struct convert_opts o = keep;
	struct extents x;
	size_t bytes;

	o.layout = LAYOUT_TILES;
	model_close(converted(a, &o, NULL));
	read_extents(&x);
	refused_changes(&x, bad, ARRAY_LEN(bad));
	bytes = x.bytes[0];
	x.bytes[0] = 63;
	refused(&x, 6, "a head cut short", "only 63 bytes, fewer");
	x.bytes[0] = bytes - 1;
	refused(&x, 6, "a table cut short", "a table of");
	x.bytes[0] = bytes;
	refused(&x, 5, "a layer left out", "no extent 5 with tensors");
	release_extents(&x);
	model_close(a);
}

/* In the tensor table of this image, entry 10 is the router of layer 0, and
 * entries 25 to 33 are gate, up and down of three layers. Extents 6 to 17 are
 * the four experts of each of these layers. */
static void test_experts(void **state)
{
	static const struct change bad[] = {
		{ "a layer's extent", 25, 4, 4, 3,
			"96 rows of 64 values do not" },
		{ "the host's extent", 25, 4, 4, 1,
			"96 rows of 64 values do not" },
		{ "rows of all", 25, 12, 4, 384,
			"384 rows of 64 values do not" },
		{ "another expert", 25, 4, 4, 7,
			"is at offset 0 of expert 1, not at 0 of expert 0" },
		{ "another layer", 26, 4, 4, 10, "of expert 4, not at" },
		{ "too few experts", 31, 4, 4, 15,
			"only 3 experts from 'expert 9' on, not of 4" },
		{ "no expert", 31, 4, 4, 18, "no extent 18 with tensors" },
		{ "extent 2^32", 31, 4, 4, UINT32_MAX, "with tensors" },
		{ "offset", 26, 24, 8, 64, "is at offset 64 of expert 0" },
		{ "offset beyond", 26, 24, 8, 1 << 20,
			"are misaligned or go beyond" },
		{ "type that is longer", 27, 8, 4, DTYPE_F32,
			"are misaligned or go beyond" },
		{ "type that is shorter", 27, 8, 4, DTYPE_Q4_0,
			"expert 0 has" },
		{ "tensor twice", 28, 0, 4, 0, "do not match" },
		{ "router of an expert", 10, 4, 4, 6, "of expert 0, not at" },
		{ "reserved", 30, 20, 4, 1, "entry 30: reserved" },
		{ "down left out", -1, 32, 4, 33, "is in no extent" },
	};
	struct model_file f = mixed;
	struct convert_opts o = keep;
	struct extents x;
	struct model *a;

	f.n_ff = 96;
	f.n_expert = 4;
	f.n_used = 2;
	o.layout = LAYOUT_TILES;
	a = source(&f);
	model_close(converted(a, &o, NULL));
	read_extents(&x);
	assert_int_equal(image_n_extents(x.im), 18);
	refused_changes(&x, bad, ARRAY_LEN(bad));
	refused(&x, 17, "an expert left out", "only 3 experts from 'expert 8'");
	refused(&x, 6, "all experts left out", "no extent 6 with tensors");
	x.bytes[12] -= 64;
	refused(&x, 18, "a shorter expert", "'expert 6' has");
	for (size_t i = 6; i < 18; i++)
		x.bytes[i] -= i == 12 ? 0 : 64;
	refused(&x, 18, "shorter experts", "are misaligned or go beyond");
	release_extents(&x);
	model_close(a);
}

/* Whatever the metadata and the order of extents are, opening fails or the
 * experts can be read. */
static void test_random_experts(void **state)
{
	static const uint32_t values[] = { 0, 1, 2, 3, 64, 96, 384, 1 << 20,
		UINT32_MAX - 63, UINT32_MAX };
	struct model_file f = mixed;
	struct extents x;
	struct model *a;
	uint64_t table;
	unsigned opened = 0;

	f.n_ff = 96;
	f.n_expert = 4;
	f.n_used = 2;
	a = source(&f);
	model_close(converted(a, &keep, NULL));
	read_extents(&x);
	memcpy(&table, x.data[0] + 24, sizeof(table));
	for (uint32_t i = 0; i < 400; i++) {
		const struct image_extent *some = image_extent_at(x.im, 9);
		/* any word of the ten table entries from number 24 on */
		size_t at = (size_t)(rng_uniform(8, 1, i) * 80);
		uint32_t was,
			value = values[(size_t)(rng_uniform(8, 2, i) *
				ARRAY_LEN(values))];
		uint8_t *p = x.data[0] + table + 24 * 32 + at * 4;
		uint8_t *expert;
		struct model *m;
		struct err e = { 0 };

		memcpy(&was, p, 4);
		if (i % 2)
			value = was + value % 4 - 1;
		memcpy(p, &value, 4);
		rewrite(&x, image_n_extents(x.im));
		if (!model_open(&m, path, NULL, NULL, &e)) {
			expert = malloc(some->bytes);
			for (uint32_t k = 0; k < 12; k++)
				assert_ok(image_read(m->packed->image,
						  image_find(m->packed->image,
							  IMAGE_EXPERT, k),
						  expert, &e),
					&e);
			free(expert);
			model_close(m);
			opened++;
		}
		memcpy(p, &was, 4);
	}
	assert_in_range(opened, 1, 100);
	release_extents(&x);
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
	/* A strip (32 rows) of FFN-down has 352 columns, which are 11 tiles of
	 * 1088 bytes, one byte more than the new limit. */
	plan.strip_max--;
	assert_int_equal(weights_cut(b, &plan, &blocks, &n, &e), -EFBIG);
	assert_non_null(strstr(e.text, "--threads"));
	model_close(a);
	model_close(b);
}

/* A layer that does not fit into a shared buffer is named. */
static void test_large_layer(void **state)
{
	struct weights_plan plan = { LAYOUT_ROWS, SIZE_MAX, 3, SIZE_MAX };
	const struct gguf_tensor *layer[3][WIRE_T_COUNT], *q;
	struct model *a = source(&mixed), m = *a;
	struct gguf_tensor big;
	struct block *blocks = NULL;
	struct err e = { 0 };
	uint32_t n = 0;

	memcpy(layer, m.layer, sizeof(layer));
	q = layer[1][WIRE_T_Q];
	big = *q;
	big.dim[0] = big.dim[1] = 1 << 15;
	layer[1][WIRE_T_Q] = &big;
	m.layer = layer;
	plan.residency = residency_of(3, 3, 1);
	assert_int_equal(weights_cut(&m, &plan, &blocks, &n, &e), -EFBIG);
	assert_non_null(strstr(e.text, "layer 1 has 1088 MiB of weights, but"));
	assert_null(blocks);
	layer[1][WIRE_T_Q] = q;
	assert_ok(weights_cut(&m, &plan, &blocks, &n, &e), &e);
	assert_int_equal(n, 3);
	weights_release(blocks, n);
	model_close(a);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_metadata),
	cmocka_unit_test(test_experts),
	cmocka_unit_test(test_random_experts),
	cmocka_unit_test(test_damaged_layer),
	cmocka_unit_test(test_long_strips),
	cmocka_unit_test(test_large_layer),
};

TEST_FILE(tests)
