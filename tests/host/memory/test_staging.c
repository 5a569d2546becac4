/* An output matrix that is streamed from flash: the parts of the matrix follow
 * the layers of a pass in the staging slots (buffers into which flash is read),
 * can be taken again, and can be skipped. */
#include "host/memory/staging.h"

#include "base/err.h"
#include "shm/buffer.h"
#include "tensor/layout.h"
#include "tensor/tile.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/model/model_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define HEAD  4096
#define SLOTS 3

struct fixture {
	struct model *model;
	struct image_file image;
	struct staging *staging;
	uint8_t *output; /* expected bytes of the output matrix */
	size_t bytes;
	/* number of parts of the output matrix; 0 until it was read once */
	uint32_t parts;
	struct staging_opts opts;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct model_file file = model_file_tiny;
	struct staging_opts o = {
		.slots = SLOTS, .parts = 1, .head_bytes = HEAD
	};
	const struct wire_tensor *w;
	struct err e = { 0 };

	assert_non_null(f);
	file.n_vocab = 3000; /* not a multiple of 32, the rows of a strip */
	file.type = DTYPE_Q8_0;
	f->model = model_file_open(&file);
	image_file_open(&f->image, f->model, 0);
	w = &f->image.model->packed->output;
	o.residency = residency_of(f->model->n_layer, 0, 1);
	o.output_strip = layout_bytes(w->type, TILE, w->cols);
	f->bytes = image_find(f->image.model->packed->image, IMAGE_OUTPUT, 0)
			   ->bytes;
	f->output = malloc(f->bytes);
	assert_non_null(f->output);
	assert_ok(packed_read(f->image.model->packed, IMAGE_OUTPUT, 0,
			  f->output, &e),
		&e);
	f->opts = o;
	assert_ok(staging_open(
			  &f->staging, f->image.model->packed->image, &o, &e),
		&e);
	assert_ok(staging_start(f->staging, &e), &e);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	staging_close(f->staging);
	image_file_remove(&f->image);
	model_close(f->model);
	free(f->output);
	free(f);
	return 0;
}

static void run_layers(struct fixture *f)
{
	const struct packed *p = f->image.model->packed;
	struct err e = { 0 };
	unsigned slot;

	for (uint32_t l = 0; l < f->model->n_layer; l++) {
		size_t bytes = packed_layer_bytes(p, l);
		uint8_t *want = malloc(bytes);
		struct buffer *b;

		assert_non_null(want);
		assert_ok(packed_read(p, IMAGE_LAYER, l, want, &e), &e);
		assert_ok(staging_need(f->staging, l, 0, &slot, &e), &e);
		b = staging_buffer(f->staging, slot);
		assert_memory_equal(
			buffer_begin(b, HEAD, bytes, BUFFER_READ), want, bytes);
		buffer_end(b, HEAD, bytes, BUFFER_READ);
		assert_ok(staging_refill(f->staging, slot, 0, &e), &e);
		free(want);
	}
}

static void sweep(struct fixture *f)
{
	struct staging_output got;
	struct err e = { 0 };
	uint32_t n = 0;

	for (uint64_t at = 0; at < f->bytes; at += got.bytes) {
		assert_ok(
			staging_need_output(f->staging, n++, 0, &got, &e), &e);
		assert_int_equal(got.from, at);
		assert_memory_equal(got.data, f->output + at, got.bytes);
		assert_ok(staging_refill(f->staging, got.slot, 0, &e), &e);
	}
	assert_in_range(n, 2, 100);
	f->parts = n;
}

static struct staging_stats stats_of(const struct fixture *f)
{
	struct staging_stats st;

	staging_stats(f->staging, &st);
	return st;
}

static void the_matrix_is_read_once_a_pass(void **state)
{
	struct fixture *f = *state;
	struct staging_stats st;

	for (unsigned i = 0; i < 5; i++) {
		run_layers(f);
		sweep(f);
	}
	st = stats_of(f);
	assert_int_equal(st.layers_used, 5 * f->model->n_layer);
	assert_int_equal(st.output_used, 5 * f->bytes);
	assert_int_equal(st.stream.extents, 5 * (f->model->n_layer + f->parts));
}

static void a_matrix_taken_again_is_read_again(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 3; i++) {
		run_layers(f);
		sweep(f);
		sweep(f);
	}
	assert_int_equal(stats_of(f).output_used, 6 * f->bytes);
}

/* If a pass skips the output matrix, flash reads in vain only those parts that
 * were read ahead into the slots. */
static void a_matrix_can_be_skipped(void **state)
{
	struct fixture *f = *state;
	struct staging_stats st;

	for (unsigned i = 0; i < 4; i++)
		run_layers(f);
	sweep(f);
	run_layers(f);
	st = stats_of(f);
	assert_int_equal(st.layers_used, 5 * f->model->n_layer);
	assert_in_range(st.stream.extents, 0,
		5 * f->model->n_layer + f->parts + 3 * SLOTS);
}

static void a_damaged_part_is_an_error(void **state)
{
	struct fixture *f = *state;
	const struct image_extent *x =
		image_find(f->image.model->packed->image, IMAGE_OUTPUT, 0);
	struct staging_output got;
	struct err e = { 0 };
	uint32_t i = 0;

	run_layers(f);
	sweep(f);
	harness_flip(f->image.path, x->offset + x->stored - 1000);
	run_layers(f);
	while (i + 1 < f->parts) {
		assert_ok(
			staging_need_output(f->staging, i++, 0, &got, &e), &e);
		assert_ok(staging_refill(f->staging, got.slot, 0, &e), &e);
	}
	assert_int_equal(
		staging_need_output(f->staging, i, 0, &got, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "output matrix is damaged"));
}

/* Close the staging of the fixture, and open it with these options. */
static int open_again(
	struct fixture *f, const struct staging_opts *o, struct err *e)
{
	staging_close(f->staging);
	f->staging = NULL;
	return staging_open(&f->staging, f->image.model->packed->image, o, e);
}

static void a_strip_must_fit_into_a_slot(void **state)
{
	struct fixture *f = *state;
	struct staging_opts o = f->opts;
	struct err e = { 0 };

	o.output_strip = 100 << 20;
	assert_int_equal(open_again(f, &o, &e), -EFBIG);
	assert_non_null(strstr(e.text,
		"a part of the output matrix has 104857600 bytes, but a "
		"staging slot has room for only "));
}

/* After a piece could not be read, neither it nor a later piece is taken. */
static void a_failed_read_ends_the_queue(void **state)
{
	struct fixture *f = *state;
	struct staging_opts o = f->opts;
	struct flash_fault *fault;
	struct err e = { 0 };
	unsigned slot;

	assert_ok(flash_fault_parse(&fault, "eio@1+", &e), &e);
	o.stream.fault = fault;
	assert_ok(open_again(f, &o, &e), &e);
	assert_ok(staging_start(f->staging, &e), &e);
	assert_int_equal(staging_fill(f->staging, &e), -EIO);
	assert_non_null(strstr(e.text, "layer 0"));
	assert_true(staging_look(f->staging));
	assert_int_equal(staging_need(f->staging, 0, 0, &slot, &e), -EIO);
	assert_non_null(strstr(e.text,
		"the next layer is not read from flash, because an earlier "
		"read failed"));
	staging_close(f->staging);
	f->staging = NULL;
	free(fault);
}

/* However many descriptors are missing, the error names the cause and nothing
 * stays open. */
static void opening_needs_descriptors(void **state)
{
	struct fixture *f = *state;
	struct staging_opts o = f->opts;
	struct err e = { 0 };
	unsigned n = 0, fds;
	int ret;

	staging_close(f->staging);
	f->staging = NULL;
	fds = harness_fds();
	for (;; n++) {
		harness_limit_fds(n);
		ret = open_again(f, &o, &e);
		harness_limit_fds(UINT_MAX);
		if (!ret)
			break;
		assert_int_equal(ret, -EMFILE);
		assert_non_null(strstr(e.text, "Too many open files"));
		assert_null(f->staging);
		assert_int_equal(harness_fds(), fds);
	}
	/* one for the file and one for each slot */
	assert_in_range(n, 1 + SLOTS, 10 + SLOTS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(the_matrix_is_read_once_a_pass),
	TEST(a_matrix_taken_again_is_read_again),
	TEST(a_matrix_can_be_skipped),
	TEST(a_damaged_part_is_an_error),
	TEST(a_strip_must_fit_into_a_slot),
	TEST(a_failed_read_ends_the_queue),
	TEST(opening_needs_descriptors),
};

TEST_FILE(tests)
