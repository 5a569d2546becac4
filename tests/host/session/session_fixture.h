/*
 * Common part of the tests of sessions on a model file: opens a session of a
 * small model on a real device process, and wraps calls that must not fail.
 */
#ifndef TESTS_HOST_SESSION_SESSION_FIXTURE_H
#define TESTS_HOST_SESSION_SESSION_FIXTURE_H

#include "base/err.h"
#include "base/rng.h"
#include "host/model/model.h"
#include "host/session/batch.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/session/pair.h"

#include <stdlib.h>
#include <string.h>

#define TREE_MAX 40

struct fixture {
	struct model_file file;
	struct model *model;
	struct session_opts opts;
	struct session *s;
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.spin_us = 50; /* short, as tests have few CPUs */
	f->opts.prefill_chunk = 16;
	f->opts.decode_rows = TREE_MAX;
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	model_close(f->model);
	free(f);
	return 0;
}

static inline void open_session(struct fixture *f)
{
	if (!f->model)
		f->model = model_file_open(&f->file);
	pair_open(&f->s, f->model, &f->opts);
}

static inline uint64_t seed(void)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t value;

	return value ? value : (value = harness_seed());
}

static inline void tokens(
	const struct fixture *f, uint64_t stream, int32_t *t, int n)
{
	for (int i = 0; i < n; i++)
		t[i] = (int32_t)(rng_uniform(seed() + 9, stream, (uint64_t)i) *
			f->file.n_vocab);
}

static inline uint32_t prefill(struct fixture *f, const int32_t *t, size_t n)
{
	struct err e = { 0 };
	uint32_t last;

	assert_ok(
		session_prefill(f->s, SESSION_TEXT, t, n, NULL, &last, &e), &e);
	return last;
}

static inline void forward(
	struct fixture *f, const int32_t *t, const int32_t *parent, uint32_t n)
{
	struct err e = { 0 };

	assert_ok(parent ? pair_tree(f->s, t, parent, n, NULL, &e)
			 : session_continue(f->s, SESSION_TEXT, t, n, &e),
		&e);
}

static inline void accept(struct fixture *f, const uint32_t *path, uint32_t n)
{
	struct err e = { 0 };

	assert_ok(session_accept(f->s, SESSION_TEXT, path, n, &e), &e);
}

static inline void same_bytes(
	const void *a, const void *b, size_t n, const char *what, unsigned at)
{
	const float *x = a, *y = b;

	for (size_t i = 0; i < n / sizeof(*x); i++)
		if (memcmp(&x[i], &y[i], sizeof(*x)) != 0)
			fail_msg("%s %u: value %zu is %.9g, not %.9g", what, at,
				i, (double)x[i], (double)y[i]);
}

#endif
