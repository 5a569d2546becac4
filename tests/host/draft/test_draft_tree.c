/*
 * Speculative rows of a draft model: rows of drafted tokens, which are kept in
 * the cache only if their tokens are accepted. For every tree, and for every
 * way to divide the tree into calls, the logits of a row must equal, bit for
 * bit, those of the row's path appended to an empty cache, in float32 and in
 * int8 arithmetic. The same must hold after a path is kept.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/draft_model.h"
#include "host/model/model.h"
#include "host/model/shapes.h"
#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"

#include <errno.h>

#define MOST 160 /* maximum tokens before a tree, and in a tree */

struct fixture {
	struct model_file file;
	struct model *model;
	/* The model under test, and a second one to which the tests append
	 * paths without a tree. */
	struct draft_model *d, *plain;
	uint32_t context;
	int32_t text[MOST]; /* the tokens before the tree */
	/* The tree, row by row. */
	int32_t token[MOST], parent[MOST];
	float *logits; /* [MOST][n_vocab] */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	*state = f;
	return 0;
}

static void close_models(struct fixture *f)
{
	draft_close(f->d);
	draft_close(f->plain);
	model_close(f->model);
	free(f->logits);
	f->d = f->plain = NULL;
	f->model = NULL;
	f->logits = NULL;
}

static int teardown(void **state)
{
	close_models(*state);
	free(*state);
	return 0;
}

static uint64_t seed(void)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t value;

	return value ? value : (value = harness_seed());
}

static uint32_t below(uint32_t n, uint64_t stream, uint64_t i)
{
	return (uint32_t)(rng_uniform(seed() + 77, stream, i) * n);
}

static void open_models(struct fixture *f, enum draft_arithmetic a)
{
	struct err e = { 0 };

	close_models(f);
	f->model = model_file_open(&f->file);
	assert_ok(draft_open(&f->d, f->model, NULL, a, f->context, 1, &e), &e);
	assert_ok(draft_open(&f->plain, f->model, NULL, a, 0, 1, &e), &e);
	f->logits = calloc((size_t)MOST * f->file.n_vocab, sizeof(float));
	for (uint32_t i = 0; i < MOST; i++) {
		f->text[i] = (int32_t)below(f->file.n_vocab, 1, i);
		f->token[i] = (int32_t)below(f->file.n_vocab, 2, i);
		/* Two of three rows continue a chain. The others have a random
		 * earlier parent or are roots. */
		f->parent[i] = i ? (int32_t)below(i + 1, 3, i) - 1 : -1;
		if (i && below(3, 4, i))
			f->parent[i] = (int32_t)i - 1;
	}
}

static const float *append(struct draft_model *d, const int32_t *t, uint32_t n)
{
	const float *logits = NULL;
	struct err e = { 0 };

	if (n)
		assert_ok(draft_append(d, t, n, &logits, &e), &e);
	return logits;
}

static int try_branch(struct fixture *f, const int32_t *token,
	const int32_t *parent, uint32_t n, struct err *e)
{
	struct draft_ask ask = { f->d, token, parent, .n = n };

	return draft_together(&ask, 1, f->logits, e);
}

/* Compute rows [from, to) of the tree in as few calls as possible. */
static void branch(struct fixture *f, uint32_t from, uint32_t to)
{
	struct err e = { 0 };

	for (uint32_t at = from, n = 0; at < to; at += n) {
		struct draft_ask ask = { f->d, f->token + at, f->parent + at };

		n = to - at < DRAFT_ASK_ROWS ? to - at : DRAFT_ASK_ROWS;
		ask.n = n;
		assert_ok(draft_together(&ask, 1,
				  f->logits + (size_t)at * f->file.n_vocab, &e),
			&e);
		assert_int_equal(ask.first, at);
	}
	assert_int_equal(draft_branch_rows(f->d), to);
}

/* Store the path from a root to `row` in `path`. Returns its length. */
static uint32_t path_of(
	const struct fixture *f, uint32_t row, uint32_t path[MOST])
{
	uint32_t n = 0;

	for (int32_t r = (int32_t)row; r >= 0; r = f->parent[r])
		path[n++] = (uint32_t)r;
	for (uint32_t i = 0; i < n / 2; i++) {
		uint32_t t = path[i];

		path[i] = path[n - 1 - i];
		path[n - 1 - i] = t;
	}
	return n;
}

/* Append the text's first `prefix` tokens and the tokens of the path to an
 * empty cache. Returns the last logits. Stores all tokens in `all`. */
static const float *plainly(struct fixture *f, uint32_t prefix,
	const uint32_t *path, uint32_t n, int32_t *all)
{
	memcpy(all, f->text, prefix * sizeof(*all));
	for (uint32_t i = 0; i < n; i++)
		all[prefix + i] = f->token[path[i]];
	draft_truncate(f->plain, 0);
	return append(f->plain, all, prefix + n);
}

static void same_logits(const struct fixture *f, const float *got,
	const float *want, const char *what, uint32_t at)
{
	for (uint32_t v = 0; v < f->file.n_vocab; v++)
		if (memcmp(&got[v], &want[v], sizeof(*got)) != 0)
			fail_msg("%s %u: logit %u is %.9g, not %.9g", what, at,
				v, (double)got[v], (double)want[v]);
}

static void rows_are_paths(struct fixture *f, uint32_t prefix, uint32_t n)
{
	uint32_t path[MOST];
	int32_t all[2 * MOST];

	for (uint32_t r = 0; r < n; r++)
		same_logits(f, f->logits + (size_t)r * f->file.n_vocab,
			plainly(f, prefix, path, path_of(f, r, path), all),
			"row", r);
}

/* ---- rows ---------------------------------------------------------- */

/* Compute the tree in pieces of `piece` rows. A parent and its children are
 * often in the same piece. */
static void check_pieces(
	struct fixture *f, uint32_t prefix, uint32_t n, uint32_t piece)
{
	draft_truncate(f->d, 0);
	append(f->d, f->text, prefix);
	for (uint32_t at = 0; at < n; at += piece)
		branch(f, at, at + piece < n ? at + piece : n);
	rows_are_paths(f, prefix, n);
}

static void check_model(struct fixture *f)
{
	for (int a = DRAFT_INT8; a <= DRAFT_F32; a++) {
		open_models(f, (enum draft_arithmetic)a);
		check_pieces(f, 0, 12, 12);
		check_pieces(f, 1, 12, 1);
		check_pieces(f, 63, 20, 7);
		check_pieces(f, 64, 20, 20);
		check_pieces(f, 90, 150, 150); /* needs several passes */
	}
}

static void test_rows_are_paths(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_Q4_0 };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		f->file.type = types[i];
		check_model(f);
	}
}

static void test_qwen3_rows_are_paths(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "qwen3";
	f->file.qk_norm = true;
	f->file.head_dim = 16;
	f->file.n_kv_head = 1;
	f->file.type = DTYPE_Q8_0;
	check_model(f);
}

/* The model is wide enough that threads share the rows. */
static void test_threads_make_no_difference(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->file.n_embd = 512;
	f->file.n_head = 8;
	f->file.head_dim = 64;
	f->file.n_layer = 1;
	f->file.n_vocab = 2049;
	open_models(f, DRAFT_F32);
	draft_close(f->d);
	assert_ok(draft_open(&f->d, f->model, NULL, DRAFT_F32, 0, 3, &e), &e);
	check_pieces(f, 20, 40, 40);
}

/* ---- kept paths ---------------------------------------------------------- */

static void check_kept(struct fixture *f, uint32_t prefix, uint32_t row,
	const uint32_t *path, uint32_t n)
{
	int32_t all[2 * MOST], more[] = { 5, 17 };
	const float *got, *want;
	const int32_t *held;
	uint32_t n_held;

	plainly(f, prefix, path, n, all);
	held = draft_tokens(f->d, &n_held);
	assert_int_equal(n_held, prefix + n);
	assert_memory_equal(held, all, (prefix + n) * sizeof(*all));
	assert_int_equal(draft_branch_rows(f->d), 0);
	got = append(f->d, more, 2);
	want = append(f->plain, more, 2);
	same_logits(f, got, want, "kept down to row", row);
}

/* For every path of a tree: after the path is kept, the cache must be the same
 * as if the path's tokens had been appended. */
static void test_kept_paths_are_appended(void **state)
{
	enum { PREFIX = 21, ROWS = 30 };
	struct fixture *f = *state;
	uint32_t path[MOST];

	open_models(f, DRAFT_F32);
	for (uint32_t row = 0; row < ROWS; row++) {
		uint32_t n = path_of(f, row, path);

		draft_truncate(f->d, 0);
		append(f->d, f->text, PREFIX);
		branch(f, 0, ROWS);
		draft_keep(f->d, path, n);
		check_kept(f, PREFIX, row, path, n);
	}
}

/* Each tree begins after the path that was kept of the previous tree. */
static void test_trees_follow_one_another(void **state)
{
	enum { ROWS = 20 };
	struct fixture *f = *state;
	uint32_t path[MOST], prefix = 9;

	open_models(f, DRAFT_INT8);
	append(f->d, f->text, prefix);
	for (uint32_t i = 0; i < 5; i++) {
		uint32_t row = below(ROWS, 8, i), n = path_of(f, row, path);

		branch(f, 0, 3);
		branch(f, 3, ROWS);
		rows_are_paths(f, prefix, ROWS);
		draft_keep(f->d, path, n);
		for (uint32_t j = 0; j < n; j++)
			f->text[prefix++] = f->token[path[j]];
	}
}

static void test_rows_are_forgotten(void **state)
{
	struct fixture *f = *state;
	const float *logits;
	struct err e = { 0 };

	open_models(f, DRAFT_F32);
	append(f->d, f->text, 10);
	for (int how = 0; how < 4; how++) {
		branch(f, 0, 6);
		if (how == 0)
			draft_keep(f->d, NULL, 0);
		else if (how == 1)
			draft_truncate(f->d, 10);
		else if (how == 2)
			assert_ok(draft_follow(f->d, f->text, 10, &logits, &e),
				&e);
		else
			append(f->d, f->text + 10, 1);
		assert_int_equal(draft_branch_rows(f->d), 0);
		check_kept(f, how == 3 ? 11 : 10, 0, NULL, 0);
		draft_truncate(f->d, 10);
	}
}

/* ---- several models ------------------------------------------------ */

/* Three models in one pass, of which one appends tokens. Each must have the
 * logits that it has when it is computed alone. */
static void rows_of_several_models_are_those_of_each(void **state)
{
	struct fixture *f = *state;
	size_t n_vocab = f->file.n_vocab;
	enum { N = 3, ROWS = 5 };

	for (unsigned a = 0; a < 2; a++) {
		float alone[N * ROWS * 128], together[N * ROWS * 128];
		struct draft_model *d[N];
		struct err e = { 0 };
		size_t wanted = 0;

		open_models(f, a ? DRAFT_INT8 : DRAFT_F32);
		assert_true(n_vocab <= 128);
		for (unsigned i = 0; i < N; i++)
			assert_ok(draft_open_like(&d[i], f->d, &e), &e);
		for (unsigned pass = 0; pass < 2; pass++) {
			struct draft_ask ask[N];
			float *to = pass ? together : alone;

			for (unsigned i = 0; i < N; i++) {
				draft_truncate(d[i], 0);
				append(d[i], f->text + i, 4 + 3 * i);
				ask[i] = (struct draft_ask){ d[i],
					f->token + 7 * i,
					i == 1 ? NULL : f->parent, .n = ROWS };
			}
			if (pass)
				assert_ok(draft_together(ask, N, to, &e), &e);
			for (unsigned i = 0; i < N && !pass; i++) {
				assert_ok(draft_together(&ask[i], 1,
						  to + wanted * n_vocab, &e),
					&e);
				wanted += i == 1 ? 1 : ROWS;
			}
		}
		assert_memory_equal(
			alone, together, wanted * n_vocab * sizeof(float));
		for (unsigned i = 0; i < N; i++)
			draft_close(d[i]);
	}
}

/* ---- context, invalid tokens, estimated cost ----------------------- */

static void test_context(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->context = 20;
	open_models(f, DRAFT_F32);
	append(f->d, f->text, 11);
	branch(f, 0, 4);
	assert_int_equal(try_branch(f, f->token, f->parent, 6, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "15 tokens are in it, and 6 more"));
	assert_int_equal(draft_branch_rows(f->d), 4);
	branch(f, 4, 9); /* the rows fill the cache up to the last slot */
	rows_are_paths(f, 11, 9);
	assert_int_equal(try_branch(f, f->token, f->parent, 1, &e), -ENOSPC);
	/* the speculative rows are dropped, so the text can use their slots */
	append(f->d, f->text + 11, 9);
}

static void test_token_out_of_range(void **state)
{
	struct fixture *f = *state;
	int32_t t[] = { 1, 96 }, parent[] = { -1, 0 };
	struct err e = { 0 };

	open_models(f, DRAFT_F32);
	assert_int_equal(try_branch(f, t, parent, 2, &e), -EINVAL);
	assert_int_equal(draft_branch_rows(f->d), 0);
}

/* A speculative row has the estimated cost of an appended token. Several rows
 * in one pass cost no more than the same number of passes of one row. */
static void test_price(void **state)
{
	struct price one = { 0 }, row = { 0 }, rows = { 0 };
	struct fixture *f = *state;
	struct soc soc;

	open_models(f, DRAFT_INT8);
	for (unsigned i = 0; i < SOC_COUNT; i++)
		soc_set(&soc, i, soc_numbers[i].upper);
	draft_price_for(f->d, &soc, NULL, (struct shape_type){ 0 });
	append(f->d, f->text, 1);
	draft_take_price(f->d, &one);
	branch(f, 0, 1);
	draft_take_price(f->d, &row);
	branch(f, 1, 9);
	draft_take_price(f->d, &rows);
	assert_true(one.cpu_ps > 0);
	assert_int_equal(row.cpu_ps, one.cpu_ps);
	assert_int_equal(rows.counts.cpu_flops, 8 * one.counts.cpu_flops);
	assert_true(rows.cpu_ps > 0 && rows.cpu_ps <= 8 * one.cpu_ps);
}

/* The estimated cost is that of a model of a given shape (layer sizes): the
 * draft model's own shape, or a larger one. Two operations are counted for each
 * weight of a model of that shape. */
static void test_priced_as(void **state)
{
	struct price own = { 0 }, same = { 0 }, large = { 0 };
	struct fixture *f = *state;
	struct shape shape;
	struct soc soc;

	open_models(f, DRAFT_INT8);
	for (unsigned i = 0; i < SOC_COUNT; i++)
		soc_set(&soc, i, soc_numbers[i].upper);
	draft_price_for(f->d, &soc, NULL, (struct shape_type){ 0 });
	append(f->d, f->text, 1);
	draft_take_price(f->d, &own);
	shape = (struct shape){ .n_layer = f->model->n_layer,
		.n_vocab = f->model->n_vocab,
		.n_embd = f->model->n_embd,
		.n_head = f->model->n_head,
		.n_kv_head = f->model->n_kv_head,
		.head_dim = f->model->head_dim,
		.n_ff = f->model->n_ff };
	draft_price_for(f->d, &soc, &shape, (struct shape_type){ 0 });
	append(f->d, f->text + 1, 1);
	draft_take_price(f->d, &same);
	assert_memory_equal(&same, &own, sizeof(own));
	shape = (struct shape){ .n_layer = 24,
		.n_vocab = 151936,
		.n_embd = 896,
		.n_head = 14,
		.n_kv_head = 2,
		.head_dim = 64,
		.n_ff = 4864 };
	draft_price_for(f->d, &soc, &shape, (struct shape_type){ 0 });
	append(f->d, f->text + 2, 1);
	draft_take_price(f->d, &large);
	assert_int_equal(large.counts.cpu_flops,
		2 * (24 * (2 * 896 + 2 * 128 + 3 * 4864) + 151936) * 896ull);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_rows_are_paths),
	TEST(test_qwen3_rows_are_paths),
	TEST(test_threads_make_no_difference),
	TEST(test_kept_paths_are_appended),
	TEST(test_trees_follow_one_another),
	TEST(test_rows_are_forgotten),
	TEST(rows_of_several_models_are_those_of_each),
	TEST(test_context),
	TEST(test_token_out_of_range),
	TEST(test_price),
	TEST(test_priced_as),
};

TEST_FILE(tests)
