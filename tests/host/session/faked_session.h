/*
 * A session on a fake device, which computes in the test process
 * (tests/host/npu/fake_device.h), with a model whose logits a reference
 * transformer computes as well (reference_model.h).
 */
#ifndef TESTS_HOST_SESSION_FAKED_SESSION_H
#define TESTS_HOST_SESSION_FAKED_SESSION_H

#include "base/err.h"
#include "base/rng.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/model/model_file.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/npu/fake_device.h"

#include <math.h>

#define LAYERS 6
#define VOCAB  96
#define CHUNK  8
#define TEXT   40

struct fixture {
	struct fake fake;
	struct model_file file;
	struct model *model;
	struct image_file image;
	struct session_opts opts;
	struct session *s;
	int32_t token[TEXT];
	float got[TEXT][VOCAB];
	double want[TEXT][VOCAB];
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint64_t seed = harness_seed();

	fake_init(&f->fake);
	f->file = model_file_tiny;
	f->file.n_layer = LAYERS;
	f->file.arch = "qwen3";
	f->file.qk_norm = true;
	f->opts = session_defaults;
	f->opts.npu = &f->fake.ops;
	f->opts.threads = 1;
	f->opts.prefill_chunk = CHUNK;
	f->opts.decode_rows = 4;
	f->opts.context = 64;
	f->opts.precision = WIRE_F32;
	f->opts.layout = LAYOUT_ROWS;
	f->model = model_file_open(&f->file);
	for (uint64_t i = 0; i < TEXT; i++)
		f->token[i] = (int32_t)(rng_uniform(seed, 1, i) * VOCAB);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	image_file_remove(&f->image);
	model_close(f->model);
	free(f);
	return 0;
}

static inline void open_session(struct fixture *f, const struct model *m)
{
	struct err e = { 0 };

	assert_ok(session_open(&f->s, m, &f->opts, &e), &e);
}

static inline void open_image(struct fixture *f)
{
	image_file_open(&f->image, f->model, 0);
	f->opts.layout = LAYOUT_DEFAULT;
}

static inline void close_session(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(session_close(f->s, &e), &e);
	f->s = NULL;
}

/* Compute n tokens from position `from` on and the logits of each token. */
static inline int forward(
	struct fixture *f, uint32_t from, uint32_t n, struct err *e)
{
	int ret = session_continue(f->s, SESSION_TEXT, &f->token[from], n, e);

	if (!ret)
		ret = session_logits(f->s, 0, n, f->got[from], e);
	return ret ? ret : session_accept(f->s, SESSION_TEXT, NULL, n, e);
}

static inline void go_on(struct fixture *f, uint32_t from, uint32_t to)
{
	struct err e = { 0 };

	for (uint32_t at = from, n; at < to; at += n) {
		n = at % 3 ? 1 : CHUNK;
		n = to - at < n ? to - at : n;
		assert_ok(forward(f, at, n, &e), &e);
	}
}

/* Compare the float32 logits with those of the reference transformer, which
 * computes in double precision. Rounding errors are far below the accepted
 * difference. */
static inline void check_reference(struct fixture *f)
{
	ref_logits(f->model->gguf, &f->file, f->token, TEXT, f->want[0]);
	for (unsigned i = 0; i < TEXT; i++)
		for (unsigned v = 0; v < VOCAB; v++)
			if (fabs((double)f->got[i][v] - f->want[i][v]) > 2e-5)
				fail_msg("row %u: logit %u is %.9g, not %.9g",
					i, v, (double)f->got[i][v],
					f->want[i][v]);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)

#endif
