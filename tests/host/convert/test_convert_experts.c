/*
 * Conversion of a mixture of experts. The extent of an expert (its byte range
 * in the image) has the bytes that layout_pack makes of the expert's matrices.
 * The reported losses of a converted GGUF file equal the errors of all experts
 * in the file.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/workers.h"
#include "flash/image.h"
#include "host/convert/convert.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "host/model/packed_format.h"
#include "tensor/layout.h"
#include "tests/harness.h"
#include "tests/host/convert/convert_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPERTS 5

static struct model_file moe(enum dtype type)
{
	struct model_file f = mixed;

	f.arch = "qwen2moe";
	f.bias = true;
	f.n_shared = 160;
	f.n_expert = EXPERTS;
	f.n_used = 2;
	f.n_ff = 96;
	f.type = type;
	return f;
}

static const uint8_t *matrix_of(const struct gguf_tensor *t, uint32_t i)
{
	return (const uint8_t *)t->data + i * t->bytes / t->dim[2];
}

static const struct image_extent *expert_extent(
	const struct model *m, uint32_t expert)
{
	return image_find(m->packed->image, IMAGE_EXPERT, expert);
}

/* Check that `is`, of `bytes` bytes, has the packed matrices of the tensors
 * [first, end) of a layer. Of a tensor of several experts, it has only matrix
 * number `matrix`. */
static void check_extent(const struct model *a, const struct model *b,
	uint32_t layer, uint32_t matrix, unsigned first, unsigned end,
	const uint8_t *is, size_t bytes, struct workers *w)
{
	uint8_t *want = calloc(1, bytes);
	size_t at = 0;

	assert_non_null(want);
	for (unsigned i = first; i < end; i++) {
		const struct gguf_tensor *t = a->layer[layer][i];
		const struct wire_tensor *x = &b->packed->layer[layer][i];
		uint32_t n, k;

		assert_int_equal(x->rows != 0, t != NULL);
		if (!t)
			continue;
		n = (uint32_t)t->dim[1];
		k = (uint32_t)t->dim[0];
		assert_int_equal(x->rows, n);
		assert_int_equal(x->cols, k);
		assert_int_equal(x->offset, at);
		assert_int_equal(x->type,
			n == 1 ? DTYPE_F32
			       : layout_type(b->packed->layout, t->type, k,
					 SIZE_MAX));
		assert_int_equal(layout_pack(w, (enum dtype)x->type, want + at,
					 (struct layout_source){ t->type,
						 matrix_of(t, matrix) },
					 n, k),
			0);
		at = align_up(at + layout_bytes((enum dtype)x->type, n, k),
			PACKED_ALIGN);
	}
	assert_int_equal(at, bytes);
	assert_memory_equal(is, want, bytes);
	free(want);
}

static void check_image(enum dtype type, enum layout layout, int zstd)
{
	struct model_file f = moe(type);
	struct convert_opts o = keep;
	struct conversion done;
	struct model *a = source(&f), *b;
	struct workers *w;
	struct err e = { 0 };

	o.layout = layout;
	o.zstd = zstd;
	b = converted(a, &o, &done);
	assert_int_equal(done.n_extents, 3 + 3 + 3 * EXPERTS);
	assert_int_equal(image_n_extents(b->packed->image), done.n_extents);
	conversion_release(&done);
	assert_int_equal(b->n_expert, EXPERTS);
	assert_int_equal(b->n_used, 2);
	assert_int_equal(b->n_shared, 160);
	assert_int_equal(b->layers_packed, 3);
	assert_ok(workers_open(&w, 2, &e), &e);
	for (uint32_t l = 0; l < 3; l++) {
		size_t bytes = packed_layer_bytes(b->packed, l);
		uint8_t *is = malloc(bytes);

		assert_ok(packed_read(b->packed, IMAGE_LAYER, l, is, &e), &e);
		check_extent(a, b, l, 0, 0, WIRE_T_GATE, is, bytes, w);
		free(is);
		bytes = expert_extent(b, l * EXPERTS)->bytes;
		is = malloc(bytes);
		for (uint32_t i = 0; i < EXPERTS; i++) {
			assert_ok(image_read(b->packed->image,
					  expert_extent(b, l * EXPERTS + i), is,
					  &e),
				&e);
			check_extent(a, b, l, i, WIRE_T_GATE, WIRE_T_COUNT, is,
				bytes, w);
		}
		free(is);
	}
	workers_close(w);
	model_close(a);
	model_close(b);
}

static void test_image(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_Q8_0,
		DTYPE_Q4_0, DTYPE_MXFP4 };

	for (int layout = LAYOUT_ROWS; layout <= LAYOUT_SUPER; layout++)
		for (size_t i = 0; i < ARRAY_LEN(types); i++)
			check_image(
				types[i], (enum layout)layout, i % 2 ? 0 : 1);
}

/* The types of the matrices change, but not that of the router. */
static void test_types(void **state)
{
	struct model_file f = moe(DTYPE_F32);
	struct convert_opts o = {
		.layout = LAYOUT_SUPER, .type = DTYPE_Q4_0, .down = DTYPE_Q8_0
	};
	struct model *a = source(&f), *b = converted(a, &o, NULL);
	const struct wire_tensor *t = b->packed->layer[2];

	assert_int_equal(t[WIRE_T_Q].type, DTYPE_SUPER_Q4_0);
	assert_int_equal(t[WIRE_T_ROUTER].type, DTYPE_F32);
	assert_int_equal(t[WIRE_T_SHARED_FACTOR].type, DTYPE_F32);
	assert_int_equal(t[WIRE_T_SHARED_UP].type, DTYPE_SUPER_Q4_0);
	assert_int_equal(t[WIRE_T_SHARED_DOWN].type, DTYPE_SUPER_Q8_0);
	assert_int_equal(t[WIRE_T_GATE].type, DTYPE_SUPER_Q4_0);
	assert_int_equal(t[WIRE_T_UP].type, DTYPE_SUPER_Q4_0);
	assert_int_equal(t[WIRE_T_DOWN].type, DTYPE_SUPER_Q8_0);
	assert_int_equal(expert_extent(b, 2 * EXPERTS)->bytes,
		align_up(t[WIRE_T_DOWN].offset +
				layout_bytes(DTYPE_SUPER_Q8_0, 64, 96),
			PACKED_ALIGN));
	model_close(a);
	model_close(b);
}

/* Relative error of b, which has the matrices of all experts: the root mean
 * square of b - a, divided by the root mean square of a. */
static double error_of(const struct gguf_tensor *a, const struct gguf_tensor *b)
{
	const size_t n = a->dim[0] * a->dim[1] * a->dim[2];
	float *x = malloc(n * sizeof(*x)), *y = malloc(n * sizeof(*y));
	double squares = 0, errors = 0;

	assert_int_equal(b->dim[0] * b->dim[1] * b->dim[2], n);
	dtype_info(a->type)->to_f32(x, a->data, n);
	dtype_info(b->type)->to_f32(y, b->data, n);
	for (size_t i = 0; i < n; i++) {
		squares += (double)x[i] * (double)x[i];
		errors += ((double)x[i] - (double)y[i]) *
			((double)x[i] - (double)y[i]);
	}
	free(x);
	free(y);
	return sqrt(errors / squares);
}

static const struct convert_tensor *find(
	const struct conversion *c, const struct gguf_tensor *t)
{
	size_t i = 0;

	while (i < c->n && c->tensor[i].tensor != t)
		i++;
	assert_in_range(i, 0, c->n - 1);
	return &c->tensor[i];
}

static void test_gguf(void **state)
{
	struct convert_opts o = { .gguf = true,
		.type = DTYPE_Q4_0,
		.down = DTYPE_Q8_0,
		.measure = true };
	struct model_file f = moe(DTYPE_F16);
	struct conversion done, packed;
	struct model *a = source(&f), *b, *image;
	struct err e = { 0 };
	char to[4400];

	snprintf(to, sizeof(to), "%s/m-q4.gguf", dir);
	assert_ok(convert(a, to, &o, &done, &e), &e);
	assert_ok(model_open(&b, to, NULL, NULL, &e), &e);
	o.gguf = false;
	o.layout = LAYOUT_TILES;
	image = converted(a, &o, &packed);
	assert_memory_equal(a->layer[1][WIRE_T_ROUTER]->data,
		b->layer[1][WIRE_T_ROUTER]->data,
		a->layer[1][WIRE_T_ROUTER]->bytes);
	for (unsigned i = WIRE_T_GATE; i < WIRE_T_COUNT; i++) {
		const struct gguf_tensor *x = a->layer[1][i];
		const struct gguf_tensor *y = b->layer[1][i];

		assert_int_equal(
			y->type, i == WIRE_T_DOWN ? DTYPE_Q8_0 : DTYPE_Q4_0);
		assert_close(find(&done, x)->loss.error, error_of(x, y), 1e-9,
			"loss of all experts");
		assert_close(find(&packed, x)->loss.error, error_of(x, y), 1e-9,
			"the same in an image");
	}
	conversion_release(&done);
	conversion_release(&packed);
	model_close(a);
	model_close(b);
	model_close(image);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_image),
	cmocka_unit_test(test_types),
	cmocka_unit_test(test_gguf),
};

TEST_FILE(tests)
