/*
 * A script of passes of every kind. Tests run the script with different ways to
 * keep the weights (in memory, or streamed from flash), and compare the hidden
 * states and logits.
 */
#ifndef TESTS_HOST_SESSION_STREAM_SCRIPT_H
#define TESTS_HOST_SESSION_STREAM_SCRIPT_H

#include "base/err.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/stream_fixture.h"

#include <string.h>

#define ROWS_MAX 48 /* maximum rows of a trace */
#define PASSES   14 /* number of passes of run_script */

/* ---- the script: passes of every kind ------------------------------------ */

/* Hidden states and logits of the rows that the script checks. */
struct trace {
	unsigned n;
	float row[ROWS_MAX][WIDTH + VOCAB];
};

static inline int look(
	struct fixture *f, struct trace *t, uint32_t row, struct err *e)
{
	float *to;

	assert_in_range(t->n, 0, ROWS_MAX - 1);
	to = t->row[t->n++];
	memcpy(to, session_hidden(f->s, row), WIDTH * sizeof(*to));
	return session_logits(f->s, row, 1, to + WIDTH, e);
}

static inline int text(struct fixture *f, struct trace *t, uint64_t stream,
	uint32_t n, struct err *e)
{
	int32_t token[40];
	uint32_t last;
	int ret;

	for (uint32_t i = 0; i < n; i++)
		token[i] = token_at(stream, i);
	ret = session_prefill(f->s, SESSION_TEXT, token, n, NULL, &last, e);
	return ret ? ret : look(f, t, last, e);
}

static inline int decode(struct fixture *f, struct trace *t, uint64_t stream,
	unsigned n, struct err *e)
{
	int ret = 0;

	for (unsigned i = 0; i < n && !ret; i++) {
		int32_t token = token_at(stream, i);

		ret = session_continue(f->s, SESSION_TEXT, &token, 1, e);
		if (!ret)
			ret = look(f, t, 0, e);
		if (!ret)
			ret = session_accept(f->s, SESSION_TEXT, NULL, 1, e);
	}
	return ret;
}

/* Compute a tree, a root with branches, and accept the rows of its longest path
 * except the last row. The accepted rows must move in the cache. */
static inline int tree(struct fixture *f, struct trace *t, struct err *e)
{
	static const int32_t parent[TREE] = { -1, 0, 0, 1, 2, 2, 4, 5, 6, 0, 8,
		10 };
	static const uint32_t path[] = { 0, 2, 4, 6, 8, 10 };
	int32_t token[TREE];
	int ret;

	for (uint32_t i = 0; i < TREE; i++)
		token[i] = token_at(7, i);
	ret = pair_tree(f->s, token, parent, TREE, NULL, e);
	for (uint32_t i = 0; i < TREE && !ret; i++)
		ret = look(f, t, i, e);
	return ret ? ret : session_accept(f->s, SESSION_TEXT, path, 6, e);
}

/* Run all passes of the script (3 + 4 + 1 + 2 + 1 + 3 passes), starting with an
 * empty cache. */
static inline int run_script(struct fixture *f, struct trace *t, struct err *e)
{
	int ret;

	t->n = 0;
	session_truncate(f->s, SESSION_TEXT, 0);
	if ((ret = text(f, t, 1, 37, e)) || (ret = decode(f, t, 2, 4, e)) ||
		(ret = tree(f, t, e)) || (ret = decode(f, t, 3, 2, e)))
		return ret;
	session_truncate(f->s, SESSION_TEXT, 20);
	if ((ret = text(f, t, 4, 9, e)))
		return ret;
	return decode(f, t, 5, 3, e);
}

/* Compare the rows that the script computed; if a pass failed, these are fewer
 * than in `want`. */
static inline void check_rows(const struct trace *got, const struct trace *want)
{
	for (unsigned i = 0; i < got->n; i++)
		for (unsigned v = 0; v < WIDTH + VOCAB; v++)
			if (memcmp(&got->row[i][v], &want->row[i][v],
				    sizeof(float)) != 0)
				fail_msg("row %u: %s %u is %.9g, not %.9g", i,
					v < WIDTH ? "state" : "logit",
					v < WIDTH ? v : v - WIDTH,
					(double)got->row[i][v],
					(double)want->row[i][v]);
}

static inline void check_script(struct fixture *f, const struct trace *want)
{
	static struct trace got;
	struct err e = { 0 };

	assert_ok(run_script(f, &got, &e), &e);
	assert_int_equal(got.n, want->n);
	check_rows(&got, want);
}

/* The trace of a session on the model file with all weights in memory. */
static inline const struct trace *reference(struct fixture *f)
{
	static struct trace want;
	struct session_opts opts = f->opts;
	struct session_stats st;
	struct err e = { 0 };

	f->opts.dram_share = 1;
	f->opts.dram_bytes = 0;
	f->opts.soc = NULL;
	f->opts.coherence = COHERENCE_OFF;
	f->opts.flash_fault = f->opts.fault = NULL;
	pair_open(&f->s, f->model, &f->opts);
	assert_ok(run_script(f, &want, &e), &e);
	session_stats(f->s, &st);
	assert_int_equal(st.passes, PASSES);
	assert_int_equal(st.staging.layers_used, 0);
	assert_null(session_flash_how(f->s));
	assert_int_equal(session_ahead(f->s), 0);
	pair_close(&f->s);
	f->opts = opts;
	return &want;
}

#endif
