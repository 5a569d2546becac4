/*
 * Several sequences in a session on a real device process ($TANDEM_NPU; skipped
 * if unset). One pass over many sequences computes, bit for bit, what each
 * sequence computes alone. A fork copies nothing until it is written. The host
 * can read and write cached keys and values. A pass that does not fit in the
 * cache changes nothing. Rows can be dropped after the exit layer for several
 * sequences as for one.
 */
#include "base/err.h"
#include "host/memory/kv_pool.h"
#include "host/session/session_impl.h"
#include "tests/harness.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"

#include <errno.h>

#define VOCAB  96
#define MANY   64
#define STEPS  3
#define ROWS   3 /* maximum rows of a sequence in a pass */
#define PROMPT 37

static uint32_t fork_of(struct session *s, uint32_t parent)
{
	struct err e = { 0 };
	uint32_t id;

	assert_ok(session_fork(s, parent, &id, &e), &e);
	return id;
}

static uint32_t length_of(const struct fixture *f, uint32_t id)
{
	return session_length(f->s, id);
}

static void truncate_to(struct session *s, uint32_t length)
{
	session_truncate(s, SESSION_TEXT, length);
}

/* ---- many in one pass ---------------------------------------------------- */

/* The tokens of a chain, whose length and tokens depend on the sequence and the
 * step. Returns its length, 1 to ROWS. */
static uint32_t chain(
	const struct fixture *f, uint32_t id, unsigned step, int32_t *token)
{
	tokens(f, 1000 + id * STEPS + step, token, ROWS);
	return 1 + (id + step) % ROWS;
}

static float result[STEPS][MANY][ROWS][VOCAB];

/* Compute one pass of a step for all sequences, with their rows interleaved. */
static void run_together(struct fixture *f, unsigned step)
{
	static struct row row[MANY * ROWS];
	static float logits[MANY * ROWS][VOCAB];
	struct rows rows = { VISIBILITY_TREE, 0, row };
	int32_t last[MANY], token[ROWS];
	struct err e = { 0 };

	for (uint32_t k = 0; k < ROWS; k++)
		for (uint32_t id = 0; id < MANY; id++) {
			if (k >= chain(f, id, step, token))
				continue;
			row[rows.n] = (struct row){ .token = token[k],
				.position = length_of(f, id) + k,
				.sequence = id,
				.parent = k ? last[id] : -1 };
			last[id] = (int32_t)rows.n++;
		}
	assert_ok(session_forward(f->s, &rows, NULL, &e), &e);
	assert_ok(session_logits(f->s, 0, rows.n, logits[0], &e), &e);
	for (uint32_t i = 0; i < rows.n; i++) {
		uint32_t id = row[i].sequence;

		memcpy(result[step][id][row[i].position - length_of(f, id)],
			logits[i], sizeof(logits[i]));
	}
	for (uint32_t id = 0; id < MANY; id++)
		assert_ok(session_accept(f->s, id, NULL,
				  chain(f, id, step, token), &e),
			&e);
}

static void run_alone(struct fixture *f, struct session *alone, uint32_t id)
{
	float logits[VOCAB];
	int32_t token[ROWS];
	struct err e = { 0 };

	truncate_to(alone, PROMPT);
	for (unsigned step = 0; step < STEPS; step++) {
		uint32_t n = chain(f, id, step, token);

		assert_ok(session_continue(alone, SESSION_TEXT, token, n, &e),
			&e);
		for (uint32_t k = 0; k < n; k++) {
			assert_ok(session_logits(alone, k, 1, logits, &e), &e);
			same_bytes(logits, result[step][id][k], sizeof(logits),
				"logits of sequence", id);
		}
		assert_ok(session_accept(alone, SESSION_TEXT, NULL, n, &e), &e);
	}
}

static void check_many(struct fixture *f, enum wire_precision precision,
	enum coherence coherence, uint32_t threads)
{
	struct session *alone;
	struct session_stats st;
	int32_t prompt[PROMPT];
	struct err e = { 0 };
	uint32_t last;

	f->opts = session_defaults;
	f->opts.precision = precision;
	f->opts.threads = threads;
	f->opts.prefill_chunk = 16;
	f->opts.decode_rows = MANY * ROWS;
	f->opts.context = 256;
	open_session(f);
	alone = f->s;
	f->opts.coherence = coherence;
	f->opts.sequences = MANY;
	f->opts.slots = 2 * KV_RUN * (MANY + 1);
	open_session(f);
	tokens(f, 1, prompt, PROMPT);
	assert_ok(session_prefill(
			  alone, SESSION_TEXT, prompt, PROMPT, NULL, &last, &e),
		&e);
	prefill(f, prompt, PROMPT);
	for (uint32_t id = 1; id < MANY; id++)
		assert_int_equal(fork_of(f->s, id / 2), id);
	for (unsigned step = 0; step < STEPS; step++)
		run_together(f, step);
	/* The last fork that continued was the only owner of the shared run of
	 * cache slots and needed no copy. */
	session_stats(f->s, &st);
	assert_int_equal(st.copied_runs, MANY - 1);
	for (uint32_t id = 0; id < MANY; id++)
		run_alone(f, alone, id);
	pair_close(&f->s);
	pair_close(&alone);
}

static void test_many_are_each_alone(void **state)
{
	for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++)
		check_many(*state, (enum wire_precision)p, COHERENCE_OFF,
			1 + p % 2);
}

static void test_many_of_a_strict_device(void **state)
{
	check_many(*state, WIRE_INT8, COHERENCE_STRICT, 1);
	check_many(*state, WIRE_F16_KV16, COHERENCE_CHECK, 1);
	check_many(*state, WIRE_F32, COHERENCE_CHECK, 2);
}

/* ---- forks --------------------------------------------------------------- */

static uint64_t copied(const struct fixture *f)
{
	struct session_stats st;

	session_stats(f->s, &st);
	return st.copied_runs;
}

static void test_a_thousand_forks_cost_nothing(void **state)
{
	struct fixture *f = *state;
	int32_t prompt[100];
	struct err e = { 0 };

	f->opts.sequences = 1001;
	f->opts.slots = 7 * KV_RUN;
	open_session(f);
	tokens(f, 2, prompt, 100);
	prefill(f, prompt, 100);
	for (uint32_t i = 1; i <= 1000; i++)
		assert_int_equal(fork_of(f->s, SESSION_TEXT), i);
	assert_int_equal(copied(f), 0);
	for (uint32_t i = 1; i <= 3; i++) {
		assert_ok(session_continue(f->s, 300 * i, prompt, 1, &e), &e);
		assert_int_equal(copied(f), i);
		assert_ok(session_accept(f->s, 300 * i, NULL, 1, &e), &e);
		assert_ok(session_continue(f->s, 300 * i, prompt, 1, &e), &e);
		assert_int_equal(copied(f), i);
		assert_ok(session_accept(f->s, 300 * i, NULL, 1, &e), &e);
	}
	assert_int_equal(length_of(f, 300), 102);
	assert_int_equal(length_of(f, 301), 100);
	pair_close(&f->s);
}

/* A fork made between a pass and session_accept has the state before the
 * pass. */
static void test_fork_before_accept(void **state)
{
	struct fixture *f = *state;
	size_t width = f->file.n_embd * sizeof(float);
	float *want = malloc(width);
	int32_t t[40];
	struct err e = { 0 };
	uint32_t id;

	f->opts.sequences = 2;
	open_session(f);
	tokens(f, 3, t, 40);
	prefill(f, t, 20);
	forward(f, t + 20, NULL, 4);
	id = fork_of(f->s, SESSION_TEXT);
	accept(f, NULL, 3);
	forward(f, t + 23, NULL, 2);
	memcpy(want, session_hidden(f->s, 1), width);
	assert_int_equal(length_of(f, id), 20);
	assert_ok(session_continue(f->s, id, t + 30, 5, &e), &e);
	assert_ok(session_accept(f->s, id, NULL, 5, &e), &e);
	forward(f, t + 23, NULL, 2);
	same_bytes(session_hidden(f->s, 1), want, width, "row", 1);
	session_truncate(f->s, id, 20);
	assert_ok(session_continue(f->s, id, t + 20, 5, &e), &e);
	same_bytes(session_hidden(f->s, 4), want, width, "row", 4);
	free(want);
	pair_close(&f->s);
}

/* ---- a full cache -------------------------------------------------------- */

static void test_full_cache(void **state)
{
	struct fixture *f = *state;
	struct session_stats a, b;
	int32_t t[70];
	struct err e = { 0 };
	uint32_t id, path[] = { 0 };
	size_t bytes;

	f->opts.sequences = 3;
	f->opts.context = 90;
	f->opts.slots = 80; /* rounded up to 96, three runs of 32 */
	f->opts.decode_rows = 64;
	open_session(f);
	assert_int_equal(session_context(f->s), 90);
	session_stats(f->s, &a);
	bytes = (size_t)96 * 2 * f->file.n_layer * f->s->plan.kv_stride;
	assert_int_equal(a.kv_bytes, bytes);
	tokens(f, 4, t, 70);
	prefill(f, t, 70);
	id = fork_of(f->s, SESSION_TEXT);
	session_stats(f->s, &a);
	assert_int_equal(session_continue(f->s, id, t, 1, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "cache of 96 tokens is full"));
	assert_non_null(strstr(e.text, "for 32 tokens was requested"));
	assert_non_null(strstr(e.text, "room for 0"));
	assert_non_null(strstr(e.text, "2 sequences hold"));
	assert_int_equal(session_continue(f->s, id, t, 21, &e), -ENOSPC);
	assert_non_null(strstr(
		e.text, "context of 90 tokens is full: it already holds 70"));
	session_stats(f->s, &b);
	/* no request was sent to the device */
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(length_of(f, id), 70);
	assert_int_equal(session_accept(f->s, id, path, 1, &e), -EINVAL);
	session_remove(f->s, SESSION_TEXT);
	assert_ok(session_continue(f->s, id, t, 20, &e), &e);
	assert_int_equal(copied(f), 0);
	pair_close(&f->s);
}

/* ---- keys and values read and written by the host ------------------------ */

/* Write the keys and values of another text into the cache. The device then
 * continues as it does after that text. */
static void check_transplant(struct fixture *f, enum coherence coherence)
{
	enum { N = 50 };
	size_t width = f->file.n_embd * sizeof(float), bytes;
	int32_t t[N], other[N];
	float *want = malloc(width);
	struct err e = { 0 };
	uint32_t id, last;
	void *kv;

	f->opts.coherence = coherence;
	f->opts.sequences = 4;
	open_session(f);
	bytes = f->s->plan.kv_stride;
	kv = malloc(N * bytes);
	tokens(f, 5, t, N);
	tokens(f, 6, other, N);
	prefill(f, t, N);
	assert_ok(session_add(f->s, &id, &e), &e);
	assert_ok(session_prefill(f->s, id, other, N, NULL, &last, &e), &e);
	forward(f, other, NULL, 2);
	memcpy(want, session_hidden(f->s, 1), width);
	/* The fork shares all runs of cache slots, so that writing must copy
	 * them. */
	fork_of(f->s, id);
	for (uint32_t half = 0; half < 2 * f->file.n_layer; half++) {
		enum kv_half which = half % 2 ? KV_VALUES : KV_KEYS;

		assert_ok(sequence_read(f->s->sequences, SESSION_TEXT, half / 2,
				  which, 0, N, kv, &e),
			&e);
		assert_ok(sequence_write(f->s->sequences, id, half / 2, which,
				  0, N, kv, &e),
			&e);
	}
	assert_int_equal(copied(f), 2);
	assert_ok(session_continue(f->s, id, other, 2, &e), &e);
	same_bytes(session_hidden(f->s, 1), want, width, "row", 1);
	free(want);
	free(kv);
	pair_close(&f->s);
}

static void test_keys_and_values(void **state)
{
	check_transplant(*state, COHERENCE_OFF);
	check_transplant(*state, COHERENCE_STRICT);
	check_transplant(*state, COHERENCE_CHECK);
}

/* ---- the exit layer ------------------------------------------------------ */

#define BRANCH 12 /* rows of each tree */

/* Drop the second half of the rows of every tree. */
static int choose(void *arg, uint32_t *keep, uint32_t *n, struct err *e)
{
	uint32_t all = *n;

	*n = 0;
	for (uint32_t i = 0; i < all; i++)
		if (i / 3 < BRANCH / 2)
			keep[(*n)++] = i;
	return 0;
}

/* Fill in trees of three sequences, with interleaved rows. In each tree, the
 * odd nodes form one chain below the root and the even nodes another. */
static void grow_three(struct fixture *f, struct row *row, unsigned stream)
{
	int32_t token[3 * BRANCH];

	tokens(f, stream, token, 3 * BRANCH);
	for (uint32_t i = 0; i < 3 * BRANCH; i++) {
		uint32_t node = i / 3;
		int32_t above = node > 2 ? (int32_t)i - 6 : (int32_t)(i % 3);

		row[i] = (struct row){ .token = token[i],
			.sequence = i % 3,
			.parent = node ? above : -1 };
		row[i].position =
			node ? row[above].position + 1 : length_of(f, i % 3);
	}
}

static void test_exit_of_many(void **state)
{
	struct fixture *f = *state;
	const struct session_hooks hooks = { .choose = choose };
	size_t width;
	struct session *plain;
	struct err e = { 0 };

	f->file.n_layer = 4;
	width = f->file.n_embd * sizeof(float);
	f->opts.smaller_graphs = true;
	open_session(f);
	plain = f->s;
	f->opts.exit_layers = 2;
	f->opts.sequences = 3;
	open_session(f);
	for (uint32_t id = 0; id < 3; id++)
		assert_int_equal(id ? fork_of(f->s, 0) : 0, id);
	for (unsigned cycle = 0; cycle < 6; cycle++) {
		static const uint32_t node[] = { 0, 1, 3, 5 };
		struct row row[3 * BRANCH];
		const struct rows rows = { VISIBILITY_TREE, 3 * BRANCH, row };
		uint32_t path[4], n = 1 + cycle % 4;

		grow_three(f, row, 70 + cycle);
		assert_ok(session_forward(f->s, &rows, &hooks, &e), &e);
		assert_null(session_hidden(f->s, 3 * BRANCH - 1));
		path[0] = 3 * BRANCH - 1;
		assert_int_equal(session_accept(f->s, 2, path, 1, &e), -EINVAL);
		for (uint32_t id = 0; id < 3; id++) {
			for (uint32_t k = 0; k < n; k++)
				path[k] = 3 * node[k] + id;
			if (id == cycle % 3)
				for (uint32_t k = 0; k < n; k++) {
					assert_ok(session_continue(plain,
							  SESSION_TEXT,
							  &row[path[k]].token,
							  1, &e),
						&e);
					same_bytes(
						session_hidden(f->s, path[k]),
						session_hidden(plain, 0), width,
						"row", path[k]);
					assert_ok(session_accept(plain,
							  SESSION_TEXT, NULL, 1,
							  &e),
						&e);
				}
			else
				continue;
			assert_ok(session_accept(f->s, id, path, n, &e), &e);
		}
		/* The other two sequences become forks of this one and continue
		 * from it. */
		for (uint32_t id = 0; id < 3; id++)
			if (id != cycle % 3)
				session_remove(f->s, id);
		for (uint32_t k = 0; k < 2; k++)
			fork_of(f->s, cycle % 3);
	}
	assert_int_equal(length_of(f, 0), session_length(plain, SESSION_TEXT));
	pair_close(&f->s);
	pair_close(&plain);
}

static void test_refused_sequences(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	pair_need();
	f->model = model_file_open(&f->file);
	f->opts.sequences = SESSION_SEQUENCES + 1;
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EINVAL);
	assert_non_null(strstr(e.text, "4097 sequences"));
	f->opts.sequences = 0;
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EINVAL);
	f->opts.sequences = 2;
	f->opts.slots = UINT32_MAX;
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EFBIG);
	assert_non_null(strstr(e.text, "of 2 sequences"));
	f->s = NULL;
}

/* ---- refusals ------------------------------------------------------------ */

static void refuse(struct fixture *f, enum visibility visibility,
	const struct row *row, uint32_t n, const char *text)
{
	const struct rows rows = { visibility, n, row };
	struct session_stats a, b;
	struct err e = { 0 };

	session_stats(f->s, &a);
	assert_int_equal(session_forward(f->s, &rows, NULL, &e), -EINVAL);
	if (!strstr(e.text, text))
		fail_msg("'%s' lacks '%s'", e.text, text);
	session_stats(f->s, &b);
	assert_memory_equal(&a, &b, sizeof(a));
}

static void test_bad_rows(void **state)
{
	static const struct row closed = { 1, 0, 2, { -1 } },
				far = { 1, 6, 0, { -1 } },
				beyond = { 1, 0, 70, { -1 } },
				other[] = { { 1, 5, 0, { -1 } },
					{ 1, 1, 1, { 0 } } },
				skip_one[] = { { 1, 5, 0, { -1 } },
					{ 1, 7, 0, { 0 } } };
	struct fixture *f = *state;
	struct row many[ROWS_SEQUENCES + 1];
	int32_t t[5];
	struct err e = { 0 };
	uint32_t id;

	f->opts.sequences = 70;
	f->opts.decode_rows = 70;
	open_session(f);
	tokens(f, 8, t, 5);
	prefill(f, t, 5);
	assert_ok(session_add(f->s, &id, &e), &e);
	refuse(f, VISIBILITY_TREE, &closed, 1, "sequence 2, which is not open");
	refuse(f, VISIBILITY_TREE, &beyond, 1,
		"sequence 70, which is not open");
	refuse(f, VISIBILITY_TREE, &far, 1, "has only 5 cached tokens");
	refuse(f, VISIBILITY_TREE, other, 2,
		"parent 0 at position 5 of sequence 0");
	refuse(f, VISIBILITY_TREE, skip_one, 2, "parent 0 at position 5");
	refuse(f, VISIBILITY_WINDOW, &closed, 1, "this model is causal");
	for (uint32_t i = 0; i <= ROWS_SEQUENCES; i++) {
		if (i > 1)
			assert_ok(session_add(f->s, &id, &e), &e);
		many[i] = (struct row){ .token = 1,
			.position = i ? 0 : 5,
			.sequence = i,
			.parent = -1 };
	}
	refuse(f, VISIBILITY_TREE, many, ROWS_SEQUENCES + 1, "more than 64");
	pair_close(&f->s);
}

static void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 1);
}

static void test_bad_windows(void **state)
{
	static const struct row
		gap = { 1, 6, 0, { 0 } },
		back[] = { { 1, 3, 0, { 0 } }, { 1, 3, 0, { 0 } } },
		block[] = { { .token = 1, .position = 5, .end = 7 },
			{ .token = 1, .position = 6, .end = 8 } },
		inside = { .token = 1, .position = 5, .end = 5 };
	struct fixture *f = *state;
	const struct session_hooks hooks = { .choose = choose };
	const struct rows rows = { VISIBILITY_WINDOW, 1, back };
	int32_t t[5];
	struct err e = { 0 };

	f->file.arch = "llada";
	f->file.keys = put_mask;
	open_session(f);
	tokens(f, 8, t, 5);
	prefill(f, t, 5);
	refuse(f, VISIBILITY_WINDOW, &gap, 1, "has only 5 tokens");
	refuse(f, VISIBILITY_WINDOW, back, 2,
		"row 0 of the same sequence is at 3");
	refuse(f, VISIBILITY_BLOCK, block, 2, "its block ends at 8");
	refuse(f, VISIBILITY_BLOCK, &inside, 1, "its block ends at 5");
	refuse(f, VISIBILITY_TREE, &inside, 1, "cannot compute a token tree");
	assert_int_equal(session_forward(f->s, &rows, &hooks, &e), -EINVAL);
	assert_non_null(strstr(e.text, "may be dropped"));
	pair_close(&f->s);
}

static void put_block_length(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_u32(w, "diffusion.block_length", 3);
}

/* A model with blocks refuses a row of a window, because such a row would
 * attend to rows after its block. The model also refuses a block that is longer
 * than the model's blocks, and a block without its last row. */
static void test_bad_blocks(void **state)
{
	static const struct row
		all = { 1, 5, 0, { 0 } },
		block[] = { { .token = 1, .position = 5, .end = 8 },
			{ .token = 1, .position = 6, .end = 8 },
			{ .token = 1, .position = 7, .end = 8 },
			{ .token = 1, .position = 8, .end = 9 } },
		large[] = { { .token = 1, .position = 4, .end = 8 },
			{ .token = 1, .position = 5, .end = 8 },
			{ .token = 1, .position = 6, .end = 8 },
			{ .token = 1, .position = 7, .end = 8 } };
	struct fixture *f = *state;
	const struct rows rows = { VISIBILITY_BLOCK, 4, block };
	int32_t t[5];
	struct err e = { 0 };

	f->file.arch = "llada";
	f->file.keys = put_block_length;
	open_session(f);
	tokens(f, 8, t, 5);
	prefill(f, t, 5);
	refuse(f, VISIBILITY_WINDOW, &all, 1,
		"only up to the end of its block");
	refuse(f, VISIBILITY_BLOCK, large, 4, "block length of 3");
	refuse(f, VISIBILITY_BLOCK, block, 2, "its block ends at 8");
	assert_ok(session_forward(f->s, &rows, NULL, &e), &e);
	pair_close(&f->s);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_many_are_each_alone),
	TEST(test_many_of_a_strict_device),
	TEST(test_a_thousand_forks_cost_nothing),
	TEST(test_fork_before_accept),
	TEST(test_full_cache),
	TEST(test_keys_and_values),
	TEST(test_exit_of_many),
	TEST(test_refused_sequences),
	TEST(test_bad_rows),
	TEST(test_bad_windows),
	TEST(test_bad_blocks),
};

TEST_FILE(tests)
