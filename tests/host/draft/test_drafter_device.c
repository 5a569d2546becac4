/*
 * The drafter whose draft model runs on a real device process ($TANDEM_NPU;
 * skipped if unset). It has the same candidates as the drafter whose draft
 * model runs on the host, bit for bit if both use the same arithmetic, for
 * every number of rows of a pass and for every continuation of the text.
 */
#include "base/err.h"
#include "host/draft/draft_model.h"
#include "host/draft/drafter_device.h"
#include "host/draft/drafter_host.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/draft/drafter_check.h"
#include "tests/host/model/model_file.h"
#include "tests/host/session/pair.h"

#include <errno.h>

#define MOST 256 /* maximum tokens of a text */

struct fixture {
	struct model_file file;
	struct model *model;
	struct session_opts opts;
	struct session *s;
	struct draft_model *draft;
	struct drafter d, host;
	struct tree *t, *u;
	int32_t text[MOST];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.prefill_chunk = 64;
	f->opts.decode_rows = 16;
	*state = f;
	return 0;
}

static void close_all(struct fixture *f)
{
	struct err e = { 0 };

	drafter_close(&f->d);
	drafter_close(&f->host);
	if (f->s)
		assert_ok(session_close(f->s, &e), &e);
	f->s = NULL;
	draft_close(f->draft);
	f->draft = NULL;
	model_close(f->model);
	f->model = NULL;
	tree_close(f->t);
	tree_close(f->u);
	f->t = f->u = NULL;
}

static int teardown(void **state)
{
	close_all(*state);
	free(*state);
	return 0;
}

static void open_all(struct fixture *f, uint32_t batch, uint32_t k)
{
	struct err e = { 0 };

	pair_need();
	close_all(f);
	f->model = model_file_open(&f->file);
	f->t = check_tree(k);
	f->u = check_tree(k);
	check_tokens(f->text, MOST, 1, f->file.n_vocab);
	pair_open(&f->s, f->model, &f->opts);
	assert_ok(drafter_device_open(&f->d, f->s, batch, &e), &e);
	assert_ok(
		draft_open(&f->draft, f->model, NULL,
			f->opts.precision == WIRE_INT8 ? DRAFT_INT8 : DRAFT_F32,
			0, 1, &e),
		&e);
	assert_ok(drafter_host_open(&f->host, f->draft, 5, &e), &e);
}

static struct session_stats stats(const struct fixture *f)
{
	struct session_stats st;

	session_stats(f->s, &st);
	return st;
}

/* Begin the tree u with a new drafter on the host. */
static void begin_host(struct fixture *f, const int32_t *text, size_t n)
{
	struct err e = { 0 };

	drafter_close(&f->host);
	draft_truncate(f->draft, 0);
	assert_ok(drafter_host_open(&f->host, f->draft, 5, &e), &e);
	check_begin(&f->host, f->u, text, n);
}

static void check_text(struct fixture *f, const int32_t *text, size_t n,
	const struct growth *g)
{
	check_begin(&f->d, f->t, text, n);
	begin_host(f, text, n);
	check_same_tree(f->t, f->u);
	check_grow(&f->d, f->t, g);
	check_grow(&f->host, f->u, g);
	check_same_tree(f->t, f->u);
}

/* ---- the host's candidates ----------------------------------------- */

static void check_model(struct fixture *f)
{
	const struct growth g = { 4, 2, 5, 3 };

	open_all(f, 3, TREE_CANDIDATES);
	check_text(f, f->text, 100, &g);
	check_text(f, f->text, 7, &g);
}

static void test_int8_is_the_host(void **state)
{
	static const enum dtype types[] = { DTYPE_Q4_0, DTYPE_Q8_0, DTYPE_F16,
		DTYPE_BF16, DTYPE_F32 };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		print_message("type %u\n", types[i]);
		f->file.type = types[i];
		check_model(f);
	}
}

static void test_other_models_are_the_host(void **state)
{
	struct fixture *f = *state;

	f->file.type = DTYPE_Q8_0;
	f->file.rope_freqs = true;
	f->file.n_layer = 5;
	/* more than one quantization group (256 values) */
	f->file.n_embd = 320;
	f->file.n_head = 10;
	f->file.head_dim = 32;
	f->file.n_ff = 608;
	check_model(f);
	f->file = model_file_tiny;
	f->file.type = DTYPE_Q4_0;
	f->file.arch = "qwen2";
	f->file.bias = f->file.tied = true;
	check_model(f);
	f->file = model_file_tiny;
	f->file.type = DTYPE_Q4_0;
	f->file.arch = "qwen3";
	f->file.qk_norm = true;
	f->file.head_dim = 16;
	f->file.n_kv_head = 1;
	check_model(f);
}

static void test_f32_is_the_host(void **state)
{
	struct fixture *f = *state;

	f->opts.precision = WIRE_F32;
	f->opts.layout = LAYOUT_ROWS;
	f->file.type = DTYPE_Q4_0;
	check_model(f);
	f->file.type = DTYPE_F32;
	check_model(f);
}

static void test_temperature(void **state)
{
	const struct growth g = { 2, 2, 5, 3 };
	struct fixture *f = *state;

	open_all(f, 3, 4);
	drafter_device_temperature(&f->d, 0.7f);
	drafter_host_temperature(&f->host, 0.7f);
	check_begin(&f->d, f->t, f->text, 9);
	check_begin(&f->host, f->u, f->text, 9);
	check_grow(&f->d, f->t, &g);
	check_grow(&f->host, f->u, &g);
	check_same_tree(f->t, f->u);
}

/* ---- order of expansions, small passes ----------------------------- */

/* Passes have few rows, so trees and groups of nodes are computed in several
 * passes. */
static void test_order_makes_no_difference(void **state)
{
	static const uint32_t rows[] = { 6, 8, 33, 64 };
	const struct growth plain = { 4, 3, CHECK_NODES, 1 };
	struct fixture *f = *state;

	f->file.type = DTYPE_Q4_0;
	for (uint32_t i = 0; i < 4; i++) {
		struct growth g = { 4, 3, 1 + 7 * i, 10 + i };

		f->opts.prefill_chunk = rows[i];
		f->opts.decode_rows = 4;
		open_all(f, 1 + 3 * i, 5);
		check_begin(&f->d, f->t, f->text, 20);
		check_grow(&f->d, f->t, &g);
		begin_host(f, f->text, 20);
		check_grow(&f->host, f->u, &plain);
		check_same_tree(f->t, f->u);
	}
}

static void test_nodes_move(void **state)
{
	const struct growth two = { 2, 3, 5, 1 };
	struct fixture *f = *state;
	uint32_t leaf[CHECK_NODES];

	open_all(f, 4, 4);
	for (uint64_t i = 0; i < 4; i++) {
		struct tree *const both[] = { f->t, f->u };
		const struct drafter *const d[] = { &f->d, &f->host };

		for (int j = 0; j < 2; j++) {
			uint32_t n = 0;

			check_begin(d[j], both[j], f->text, 10);
			check_grow(d[j], both[j], &two);
			check_shuffle(both[j], 5, 20 + 2 * i);
			for (uint32_t l = 0; l < both[j]->n; l++)
				if (both[j]->depth[l] == 2)
					leaf[n++] = l;
			if (n)
				check_expand(d[j], both[j], leaf, n);
		}
		check_same_tree(f->t, f->u);
	}
}

/* The path of a node has more tokens than a pass has rows. */
static void test_pass_too_small(void **state)
{
	const struct growth chain = { 12, 1, 1, 1 };
	struct fixture *f = *state;
	uint32_t both[2];
	uint64_t rows;
	int32_t path[MOST];

	f->opts.prefill_chunk = 8;
	f->opts.decode_rows = 4;
	open_all(f, 2, 3);
	check_begin(&f->d, f->t, f->text, 30);
	rows = stats(f).rows;
	check_grow(&f->d, f->t, &chain);
	/* the path is cached, so each pass computes only one more node */
	assert_int_equal(f->t->n, 13);
	assert_int_equal(f->t->n_candidates[11], 3);
	assert_int_equal(stats(f).rows - rows, 11);
	/* Expanded together with a child of the root, the path's last node has
	 * too many ancestors that must be computed again. */
	both[0] = 12;
	both[1] = tree_add(f->t, 0, f->t->candidate[1]);
	f->t->n_candidates[12] = 3;
	check_expand(&f->d, f->t, both, 2);
	assert_int_equal(f->t->n_candidates[12], 0);
	assert_int_equal(f->t->n_candidates[13], 3);
	/* The text's last tokens are not cached yet, so they need rows of the
	 * passes too, and few or no rows are left for nodes. */
	memcpy(path, f->text, sizeof(path));
	check_path(f->t, 7, path + 30);
	check_text(f, path, 37, &(struct growth){ 7, 1, 1, 1 });
	/* The nodes need more rows than one pass has. */
	check_text(f, f->text, 30, &(struct growth){ 2, 2, 2, 1 });
	check_text(f, f->text, 60, &(struct growth){ 2, 2, 2, 1 });
}

static void test_context(void **state)
{
	struct fixture *f = *state;
	const uint32_t node[] = { 1, 2, 3 };
	const struct growth chain = { 9, 1, 1, 1 };

	f->opts.context = 20;
	f->opts.prefill_chunk = 16;
	open_all(f, 2, 3);
	check_begin(&f->d, f->t, f->text, 19);
	check_children(f->t, 0, 3);
	/* The cache has room for one more token, so the nodes are expanded one
	 * after the other. */
	check_expand(&f->d, f->t, node, 3);
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_equal(f->t->n_candidates[i], 3);
	check_begin(&f->d, f->t, f->text, 17);
	check_grow(&f->d, f->t, &chain);
	assert_int_equal(f->t->n, 5);
	begin_host(f, f->text, 17);
	check_grow(&f->host, f->u, &(struct growth){ 4, 1, 1, 1 });
	for (uint32_t i = 0; i < 4; i++)
		check_same_node(f->t, i, f->u, i);
	check_begin(&f->d, f->t, f->text, 20);
	check_children(f->t, 0, 1);
	check_expand(&f->d, f->t, node, 1);
	assert_int_equal(f->t->n_candidates[0], 3);
	assert_int_equal(f->t->n_candidates[1], 0);
	check_begin(&f->d, f->t, f->text, 21);
	assert_int_equal(f->t->n_candidates[0], 0);
	check_text(f, f->text, 16, &(struct growth){ 2, 1, 1, 1 });
}

/* ---- the next tree ------------------------------------------------- */

/* For each node of the tree, the next text is the text with the path to this
 * node, and then with none, one or two tokens that are not in the tree. */
static void test_every_path(void **state)
{
	enum { N = 17 };
	const struct growth g = { 3, 2, 3, 1 };
	struct fixture *f = *state;
	int32_t next[MOST];

	f->file.type = DTYPE_Q8_0;
	open_all(f, 2, 3);
	memcpy(next, f->text, sizeof(next));
	for (uint32_t i = 0; i < 15; i++) {
		for (uint32_t more = 0; more < 3; more++) {
			uint64_t passes, known;
			uint32_t n;

			check_begin(&f->d, f->t, f->text, N);
			check_grow(&f->d, f->t, &g);
			assert_int_equal(f->t->n, 15);
			n = N + check_path(f->t, i, next + N);
			known = f->t->n_candidates[i] > 0 && !more;
			for (uint32_t j = 0; j < more; j++)
				next[n + j] = 90 + (int32_t)j;
			while (more && tree_child(f->t, i, next[n]) > 0)
				next[n]--;
			passes = stats(f).passes;
			check_begin(&f->d, f->t, next, n + more);
			assert_int_equal(
				stats(f).passes - passes, known ? 0 : 1);
			check_text(f, next, n + more, &g);
		}
	}
}

static void test_many_trees(void **state)
{
	struct fixture *f = *state;
	int32_t text[MOST];
	uint32_t n = 11;

	f->opts.prefill_chunk = 16;
	f->opts.decode_rows = 8;
	open_all(f, 4, 4);
	memcpy(text, f->text, sizeof(text));
	for (uint64_t i = 0; i < 30; i++) {
		struct growth g = { 1 + (uint32_t)i % 4, 2, 1 + (uint32_t)i % 3,
			i };

		check_text(f, text, n, &g);
		n += check_path(f->t, check_below(f->t->n, 30, i), text + n);
		if (i % 3)
			text[n++] = (int32_t)check_below(96, 31, i);
		if (i % 7 == 3)
			n -= n / 3; /* the next text is shorter */
		if (i % 7 == 5)
			text[n / 2] = (text[n / 2] + 1) % 96;
	}
}

/* ---- several requests ---- */

#define REQUESTS 3

/* Append to a tree two children of each node of this depth. ask->n receives the
 * number of children, and node[] the children. */
static void add_level(
	struct tree *t, uint32_t depth, uint32_t *node, struct drafter_ask *ask)
{
	const uint32_t end = t->n;

	ask->n = 0;
	ask->node = node;
	for (uint32_t u = 0; u < end; u++)
		if (t->depth[u] == depth)
			check_children(t, u, 2);
	for (uint32_t u = end; u < t->n; u++)
		node[ask->n++] = u;
}

/* The drafters of several requests share passes. Some passes have too few rows
 * for all requests. Each tree equals the tree that a drafter on the host
 * grows. */
static void test_requests_share_passes(void **state)
{
	struct fixture *f = *state;
	uint32_t length[REQUESTS] = { 9, 30, 61 };
	uint32_t node[REQUESTS][CHECK_NODES];
	struct drafter more[REQUESTS] = { 0 };
	struct drafter_ask ask[REQUESTS];
	int32_t text[REQUESTS][MOST];
	struct tree *tree[REQUESTS];
	struct err e = { 0 };
	uint64_t passes;

	f->opts.prefill_chunk = 24;
	f->opts.sequences = REQUESTS;
	open_all(f, 4, 3);
	more[0] = f->d;
	for (uint32_t i = 0; i < REQUESTS; i++) {
		if (i)
			assert_ok(drafter_device_open_like(&more[i], &f->d, &e),
				&e);
		check_tokens(text[i], MOST, 40 + i, f->file.n_vocab);
		tree[i] = check_tree(3);
		ask[i] = (struct drafter_ask){
			.arg = more[i].arg, .tree = tree[i], .text = text[i]
		};
	}
	for (unsigned round = 0; round < 8; round++) {
		for (uint32_t i = 0; i < REQUESTS; i++)
			ask[i].n_text = length[i];
		passes = stats(f).passes;
		assert_ok(f->d.begin_all(ask, REQUESTS, &e), &e);
		if (round)
			assert_in_range(stats(f).passes - passes, 0, 1);
		for (uint32_t depth = 0; depth < 3; depth++) {
			for (uint32_t i = 0; i < REQUESTS; i++)
				add_level(tree[i], depth, node[i], &ask[i]);
			assert_ok(f->d.expand_all(ask, REQUESTS, &e), &e);
		}
		for (uint32_t i = 0; i < REQUESTS; i++) {
			struct drafter_ask of = { .tree = f->u };

			begin_host(f, text[i], length[i]);
			for (uint32_t depth = 0; depth < 3; depth++) {
				add_level(f->u, depth, node[i], &of);
				check_expand(&f->host, f->u, node[i], of.n);
			}
			check_same_tree(tree[i], f->u);
			/* The text grows by a path of the tree and a token. */
			length[i] += check_path(tree[i],
				check_below(tree[i]->n, 50 + i, round),
				text[i] + length[i]);
			text[i][length[i]++] =
				(int32_t)check_below(96, 60 + i, round);
		}
	}
	for (uint32_t i = 0; i < REQUESTS; i++) {
		if (i)
			drafter_close(&more[i]);
		tree_close(tree[i]);
	}
}

/* ---- refusals ------------------------------------------------------ */

static void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 95);
}

static void test_diffusion_model(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	pair_need();
	f->file.arch = "llada";
	f->file.keys = put_mask;
	f->model = model_file_open(&f->file);
	pair_open(&f->s, f->model, &f->opts);
	assert_int_equal(drafter_device_open(&f->d, f->s, 1, &e), -EINVAL);
	assert_non_null(strstr(e.text, "'llada' cannot draft"));
	f->d.arg = NULL;
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_int8_is_the_host),
	TEST(test_other_models_are_the_host),
	TEST(test_f32_is_the_host),
	TEST(test_temperature),
	TEST(test_order_makes_no_difference),
	TEST(test_nodes_move),
	TEST(test_pass_too_small),
	TEST(test_context),
	TEST(test_every_path),
	TEST(test_many_trees),
	TEST(test_requests_share_passes),
	TEST(test_diffusion_model),
};

TEST_FILE(tests)
