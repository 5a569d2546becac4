/*
 * Logits after the tokens of a prompt, computed while the prompt is read. They
 * have the same bits as when the prompt is read token by token, and the
 * callback gets them in order and only for the requested tokens.
 */
#include "base/err.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/session/session_fixture.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS 61 /* in chunks of 16: three full chunks and a remainder */

struct reader {
	const float *want; /* [TOKENS][n_vocab] */
	size_t n_vocab, calls, every;
	size_t next; /* next token whose logits are expected */
	size_t n;
};

static bool wants(void *arg, size_t at)
{
	struct reader *r = arg;

	assert_int_equal(at, r->calls);
	r->calls++;
	return at % r->every == 0;
}

static void take(void *arg, size_t at, const float *logits)
{
	struct reader *r = arg;

	assert_int_equal(at, r->next);
	same_bytes(logits, r->want + at * r->n_vocab,
		r->n_vocab * sizeof(*logits), "token", (unsigned)at);
	r->next += r->every;
	r->n++;
}

static void check_read(struct fixture *f, const int32_t *t, struct reader r)
{
	const struct session_reader reader = {
		.wants = wants, .read = take, .arg = &r
	};
	struct session_stats before, after;
	struct err e = { 0 };
	uint32_t last;

	session_truncate(f->s, SESSION_TEXT, 0);
	session_stats(f->s, &before);
	assert_ok(session_prefill(
			  f->s, SESSION_TEXT, t, TOKENS, &reader, &last, &e),
		&e);
	session_stats(f->s, &after);
	assert_int_equal(last, (TOKENS - 1) % f->opts.prefill_chunk);
	assert_int_equal(r.calls, TOKENS);
	assert_int_equal(r.n, (TOKENS + r.every - 1) / r.every);
	assert_int_equal(after.logits_rows - before.logits_rows, r.n);
	assert_int_equal(session_length(f->s, SESSION_TEXT), TOKENS);
}

static void test_read(void **state)
{
	struct fixture *f = *state;
	size_t n_vocab = f->file.n_vocab;
	float *want = malloc(TOKENS * n_vocab * sizeof(*want));
	struct err e = { 0 };
	int32_t t[TOKENS];

	assert_non_null(want);
	open_session(f);
	tokens(f, 31, t, TOKENS);
	for (size_t i = 0; i < TOKENS; i++)
		assert_ok(session_logits(f->s, prefill(f, t + i, 1),
				  want + i * n_vocab, &e),
			&e);
	for (size_t every = 1; every <= TOKENS; every = 3 * every + 1)
		check_read(
			f, t, (struct reader){ want, n_vocab, .every = every });
	pair_close(&f->s);
	free(want);
}

/* The same test with a model in several blocks. */
static void test_read_in_blocks(void **state)
{
	struct fixture *f = *state;

	f->file.n_layer = 6;
	test_read(state);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_read),
	TEST(test_read_in_blocks),
};

TEST_FILE(tests)
