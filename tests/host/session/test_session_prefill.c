/*
 * The device's predictions after the tokens of a prompt, compared with logits
 * that the host computes token by token. The reader (a callback) gets the
 * predictions in order and only for the tokens that it wants, whatever the
 * blocks, the size of the device's window, the rows of a chunk, and losses of
 * the device.
 */
#include "base/err.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/session/session_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS 61 /* in chunks of 16: three full chunks and a remainder */
#define TOP_K  6

struct reader {
	const struct fixture *f;
	const float *want; /* [TOKENS][n_vocab] */
	size_t calls, every;
	size_t next; /* next token whose predictions are expected */
	size_t n;
};

static bool wants(void *arg, size_t at)
{
	struct reader *r = arg;

	assert_int_equal(at, r->calls);
	r->calls++;
	return at % r->every == 0;
}

/* Each predicted token must have its softmax probability, and no token that is
 * not predicted may be likelier than the last predicted token. */
static void take(
	void *arg, size_t at, const struct wire_likely *likely, uint32_t n)
{
	struct reader *r = arg;
	uint32_t n_vocab = r->f->file.n_vocab;
	const float *logits = r->want + at * n_vocab;
	double sum = 0, p;
	unsigned more = 0;

	assert_int_equal(at, r->next);
	assert_int_equal(n, TOP_K);
	for (uint32_t v = 0; v < n_vocab; v++)
		sum += exp((double)logits[v]);
	for (uint32_t i = 0; i < n; i++) {
		p = exp((double)logits[likely[i].token]) / sum;
		if (fabs((double)likely[i].probability / p - 1) > 1e-5)
			fail_msg("token %zu, %u: %g, not %g", at,
				likely[i].token, (double)likely[i].probability,
				p);
	}
	p = (double)likely[n - 1].probability * (1 + 1e-5);
	for (uint32_t v = 0; v < n_vocab; v++)
		more += exp((double)logits[v]) / sum > p;
	assert_true(more < TOP_K);
	r->next += r->every;
	r->n++;
}

static void check_read(struct fixture *f, const int32_t *t, struct reader r)
{
	const struct session_reader reader = {
		.wants = wants, .likely = take, .arg = &r
	};
	struct session_stats before, after;
	struct err e = { 0 };
	uint32_t last;

	r.f = f;
	session_truncate(f->s, SESSION_TEXT, 0);
	session_stats(f->s, &before);
	assert_ok(session_prefill(
			  f->s, SESSION_TEXT, t, TOKENS, &reader, &last, &e),
		&e);
	session_stats(f->s, &after);
	assert_int_equal(last, (TOKENS - 1) % f->opts.prefill_chunk);
	assert_int_equal(r.calls, TOKENS);
	assert_int_equal(r.n, (TOKENS + r.every - 1) / r.every);
	assert_int_equal(after.logits_computed, before.logits_computed);
	assert_int_equal(session_length(f->s, SESSION_TEXT), TOKENS);
}

static void check_session(struct fixture *f)
{
	float *want;
	struct err e = { 0 };
	int32_t t[TOKENS];
	size_t n_vocab;

	f->opts.predict_top_k = TOP_K;
	open_session(f);
	n_vocab = f->file.n_vocab;
	want = malloc(TOKENS * n_vocab * sizeof(*want));
	assert_non_null(want);
	tokens(f, 31, t, TOKENS);
	for (size_t i = 0; i < TOKENS; i++)
		assert_ok(session_logits(f->s, prefill(f, t + i, 1), 1,
				  want + i * n_vocab, &e),
			&e);
	for (size_t every = 1; every <= TOKENS; every = 3 * every + 1)
		check_read(
			f, t, (struct reader){ .want = want, .every = every });
	pair_close(&f->s);
	free(want);
}

static void test_read(void **state)
{
	struct fixture *f = *state;

	check_session(f);
	f->opts.coherence = COHERENCE_CHECK;
	f->opts.threads = 2;
	check_session(f);
}

/* With int8, host and device quantize states alike. */
static void test_read_int8(void **state)
{
	struct fixture *f = *state;

	f->file.type = DTYPE_Q8_0;
	f->file.n_embd = 64;
	f->file.n_ff = 96;
	f->file.head_dim = 16;
	f->opts.precision = WIRE_INT8;
	check_session(f);
}

/* The session has several blocks (groups of layers) and several sizes of
 * graphs. The device's address window has room for only one block at a time
 * beside the output matrix. */
static void test_read_in_blocks(void **state)
{
	struct fixture *f = *state;

	f->file.n_layer = 6;
	f->opts.smaller_graphs = true;
	f->opts.va_slots = 5;
	check_session(f);
}

static void test_read_after_losses(void **state)
{
	struct fixture *f = *state;

	/* The first TOKENS runs compute the expected logits. The runs of the
	 * first prompt follow them. */
	f->opts.restarts = 100;
	f->opts.quiet = true;
	f->opts.fault = "die@run#63,die@run#66,hang@run#69";
	f->opts.stall_ms = 200;
	check_session(f);
}

static int setup_f32(void **state)
{
	setup(state);
	((struct fixture *)*state)->opts.precision = WIRE_F32;
	return 0;
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup_f32, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_read),
	TEST(test_read_int8),
	TEST(test_read_in_blocks),
	TEST(test_read_after_losses),
};

TEST_FILE(tests)
