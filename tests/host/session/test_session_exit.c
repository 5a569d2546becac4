/*
 * Passes that drop rows after the exit layer, in the middle of the model
 * ($TANDEM_NPU; skipped if unset), with models in memory and on flash. Rows
 * that are kept have the states of a pass that drops no rows, bit for bit.
 * Dropped rows cannot be used. Over many cycles (a pass over a tree, of which a
 * path is then accepted), the cache before and after the exit layer equals that
 * of plain decoding.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/model/model_file.h"
#include "tests/host/session/pair.h"

#include <errno.h>

#define LAYERS 5
#define WIDTH  32
#define VOCAB  96
#define TREE   40
#define CYCLES 25

struct fixture {
	struct model_file file;
	struct model *model;
	struct image_file image;
	struct session_opts opts;
	struct session *s;
	/* a second session, which decodes without trees */
	struct session *plain;
};

struct random_tree {
	uint32_t n;
	int32_t token[TREE], parent[TREE];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	f->file.n_layer = LAYERS;
	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.spin_us = 50; /* short, as tests have few CPUs */
	f->opts.prefill_chunk = 16;
	f->opts.decode_rows = TREE;
	f->opts.context = 200;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	session_close(f->plain, NULL);
	image_file_remove(&f->image);
	model_close(f->model);
	free(f);
	return 0;
}

static void open_models(struct fixture *f)
{
	pair_need();
	f->model = model_file_open(&f->file);
	image_file_open(&f->image, f->model, 0);
}

/* Open a second session on the model file, without an exit layer. */
static void open_plain(struct fixture *f)
{
	struct session_opts opts = f->opts;
	struct err e = { 0 };

	opts.dram_share = 1;
	opts.exit_layers = 0;
	opts.coherence = COHERENCE_OFF;
	opts.smaller_graphs = false;
	assert_ok(session_open(&f->plain, f->model, &opts, &e), &e);
}

/* ---- memory and exit layer ----------------------------------------------- */

static const struct variant {
	uint32_t exit_layers;
	/* share of the image's layers that is in memory; 2 means to use the
	 * model file */
	double share;
	unsigned slots;
} variants[] = { { 3, 2, 2 }, { 1, 2, 2 }, { 4, 1, 2 }, { 3, 0, 3 },
	{ 1, 0, 2 }, { 4, 0, 7 }, { 3, .6, 2 }, { 2, .6, 3 }, { 4, .6, 4 } };

#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

static void open_variant(struct fixture *f, unsigned i)
{
	const struct variant *v = &variants[i];

	f->opts.exit_layers = v->exit_layers;
	f->opts.stage_slots = v->slots;
	f->opts.dram_share = v->share < 2 ? v->share : 1;
	pair_open(&f->s, v->share < 2 ? f->image.model : f->model, &f->opts);
}

/* ---- trees and choices --------------------------------------------------- */

static uint32_t below(uint32_t n, uint64_t stream, uint64_t i)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t seed;

	seed = seed ? seed : harness_seed();
	return (uint32_t)(rng_uniform(seed + 11, stream, i) * n);
}

/* Make a random tree of n nodes. The parent of a node is mostly one of the
 * three previous nodes. */
static void grow(struct random_tree *r, uint32_t n, uint64_t stream)
{
	r->n = n;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t near = i < 3 ? i : 3;

		r->token[i] = (int32_t)below(VOCAB, stream, 3 * i);
		r->parent[i] = (int32_t)i - 1 -
			(int32_t)(below(4, stream, 3 * i + 1)
					? below(near + 1, stream, 3 * i + 2)
					: below(i + 1, stream, 3 * i + 2));
		if (!i || r->parent[i] < 0)
			/* the tree has only one root */
			r->parent[i] = i ? 0 : -1;
	}
}

/* Settings of the callbacks, and what they received. */
struct hooked {
	const struct random_tree *tree;
	uint64_t stream;
	/* Probability in percent that a row is kept if its parent is kept. */
	uint32_t stays;
	bool kept[TREE];
	uint32_t n_kept;
	unsigned calls, blocks;
	/* Number of the call of `meanwhile` that fails; 0 means none. */
	unsigned fail_at;
	const uint32_t *bad;
	uint32_t n_bad;
	int code; /* return value of choose */
	struct session *s;
	float middle[TREE][WIDTH]; /* hidden states passed to choose */
};

static int choose(void *arg, uint32_t *keep, uint32_t *n, struct err *e)
{
	struct hooked *h = arg;

	h->calls++;
	assert_int_equal(*n, h->tree->n);
	h->n_kept = 0;
	for (uint32_t i = 0; i < *n; i++) {
		int32_t parent = h->tree->parent[i];

		assert_int_equal(keep[i], i);
		memcpy(h->middle[i], session_hidden(h->s, i),
			sizeof(h->middle[i]));
		h->kept[i] = parent < 0 ||
			(h->kept[parent] &&
				below(100, h->stream, i) < h->stays);
		if (h->kept[i])
			h->n_kept++;
	}
	*n = 0;
	for (uint32_t i = 0; i < h->tree->n; i++)
		if (h->kept[i])
			keep[(*n)++] = i;
	if (h->bad) {
		memcpy(keep, h->bad, h->n_bad * sizeof(*keep));
		*n = h->n_bad;
	}
	return h->code ? err_set(e, -h->code, "the test wants it so") : 0;
}

static int meanwhile(void *arg, struct err *e)
{
	struct hooked *h = arg;

	if (++h->blocks == h->fail_at)
		return err_set(e, ENOLINK, "the test has enough");
	return 0;
}

static int forward_with(struct fixture *f, struct hooked *h, struct err *e)
{
	const struct session_hooks hooks = { choose, meanwhile, h };

	h->s = f->s;
	h->calls = h->blocks = 0;
	return pair_tree(
		f->s, h->tree->token, h->tree->parent, h->tree->n, &hooks, e);
}

static void prefill(struct session *s, uint64_t stream, uint32_t n)
{
	int32_t token[64];
	uint32_t last;
	struct err e = { 0 };

	for (uint32_t i = 0; i < n; i++)
		token[i] = (int32_t)below(VOCAB, stream, i);
	assert_ok(session_prefill(s, SESSION_TEXT, token, n, NULL, &last, &e),
		&e);
}

static void same_state(const float *got, const float *want, unsigned row)
{
	assert_non_null(got);
	for (unsigned v = 0; v < WIDTH; v++)
		if (memcmp(&got[v], &want[v], sizeof(*got)) != 0)
			fail_msg("row %u: value %u is %.9g, not %.9g", row, v,
				(double)got[v], (double)want[v]);
}

/* Compute the states and logits of all rows of the tree in a pass that drops no
 * rows. No row is accepted. */
static void whole_tree(struct fixture *f, const struct random_tree *r,
	float (*state)[WIDTH], float (*logits)[VOCAB])
{
	struct err e = { 0 };

	assert_ok(pair_tree(f->s, r->token, r->parent, r->n, NULL, &e), &e);
	for (uint32_t i = 0; i < r->n; i++) {
		memcpy(state[i], session_hidden(f->s, i), sizeof(*state));
		assert_ok(session_logits(f->s, i, 1, logits[i], &e), &e);
	}
}

/* ---- states ---------------------------------------------------------- */

static void check_rows(struct fixture *f, const struct hooked *h,
	float (*state)[WIDTH], float (*logits)[VOCAB])
{
	float row[2 * VOCAB];

	for (uint32_t i = 0; i < h->tree->n; i++) {
		struct err e = { 0 };

		if (h->kept[i]) {
			same_state(session_hidden(f->s, i), state[i], i);
			assert_ok(session_logits(f->s, i, 1, row, &e), &e);
			assert_memory_equal(row, logits[i], sizeof(logits[i]));
			continue;
		}
		assert_null(session_hidden(f->s, i));
		assert_int_equal(session_logits(f->s, i, 1, row, &e), -EINVAL);
		assert_non_null(strstr(e.text, "dropped"));
		if (i)
			assert_int_equal(
				session_logits(f->s, i - 1, 2, row, &e),
				-EINVAL);
	}
}

static void check_prune(struct fixture *f, uint32_t n, uint32_t stays,
	uint64_t stream, uint32_t n_blocks)
{
	static float state[TREE][WIDTH], logits[TREE][VOCAB];
	static struct hooked h;
	struct random_tree r;
	struct session_stats a, b;
	struct err e = { 0 };

	grow(&r, n, stream);
	whole_tree(f, &r, state, logits);
	h = (struct hooked){ .tree = &r, .stream = stream, .stays = stays };
	session_stats(f->s, &a);
	assert_ok(forward_with(f, &h, &e), &e);
	session_stats(f->s, &b);
	assert_int_equal(h.calls, 1);
	assert_int_equal(h.blocks, n_blocks);
	check_rows(f, &h, state, logits);
	assert_int_equal(b.rows - a.rows, n);
	assert_int_equal(b.upper_rows - a.upper_rows, h.n_kept);
	/* With `stays` = 100 all rows are kept, with 0 only the root. */
	if (stays == 100) {
		assert_int_equal(h.n_kept, n);
	} else if (stays == 0) {
		assert_int_equal(h.n_kept, 1);
	}
}

static void test_states(void **state)
{
	static const uint32_t stays[] = { 100, 0, 60, 90 };
	static const uint32_t sizes[] = { 1, 2, 11, TREE };
	struct fixture *f = *state;

	open_models(f);
	for (unsigned v = 0; v < VARIANTS; v++) {
		open_variant(f, v);
		prefill(f->s, 1, 21);
		for (uint64_t i = 0; i < 16; i++)
			check_prune(f, sizes[i / 4], stays[i % 4], 100 * v + i,
				LAYERS);
		pair_close(&f->s);
	}
}

/* The hidden states at the exit layer equal those of a model that ends with
 * this layer. */
static void test_states_in_the_middle(void **state)
{
	struct fixture *f = *state;
	struct model_file file = f->file;
	static struct hooked h;
	struct random_tree r;
	struct err e = { 0 };

	open_models(f);
	grow(&r, TREE, 5);
	for (uint32_t layers = 1; layers < LAYERS; layers++) {
		struct model *lower;

		f->opts.exit_layers = layers;
		pair_open(&f->s, f->model, &f->opts);
		h = (struct hooked){ .tree = &r, .stays = 50 };
		prefill(f->s, 1, 21);
		assert_ok(forward_with(f, &h, &e), &e);
		pair_close(&f->s);
		f->opts.exit_layers = 0;
		/* the shorter model has the first tensors of the longer
		 * model */
		file.n_layer = layers;
		lower = model_file_open(&file);
		pair_open(&f->s, lower, &f->opts);
		prefill(f->s, 1, 21);
		assert_ok(
			pair_tree(f->s, r.token, r.parent, r.n, NULL, &e), &e);
		for (uint32_t i = 0; i < TREE; i++)
			same_state(h.middle[i], session_hidden(f->s, i), i);
		pair_close(&f->s);
		model_close(lower);
	}
}

/* ---- the cache over many cycles ------------------------------------------ */

/* Store the path from the root to a row in `path`. Returns its length. */
static uint32_t path_to(
	const struct random_tree *r, uint32_t row, uint32_t path[TREE])
{
	uint32_t n = 0, at;

	for (int32_t i = (int32_t)row; i >= 0; i = r->parent[i])
		n++;
	at = n;
	for (int32_t i = (int32_t)row; i >= 0; i = r->parent[i])
		path[--at] = (uint32_t)i;
	return n;
}

static uint32_t some_kept(const struct hooked *h, uint64_t stream)
{
	uint32_t row;

	for (uint64_t i = 900;; i++) {
		row = below(h->tree->n, stream, i);
		if (h->kept[row])
			return row;
	}
}

/* Decode the path's tokens in the plain session; the hidden states must equal
 * those of the tree's rows. */
static void follow(struct fixture *f, const struct random_tree *r,
	const uint32_t *path, uint32_t n)
{
	struct err e = { 0 };

	for (uint32_t k = 0; k < n; k++) {
		assert_ok(session_continue(f->plain, SESSION_TEXT,
				  &r->token[path[k]], 1, &e),
			&e);
		same_state(session_hidden(f->s, path[k]),
			session_hidden(f->plain, 0), path[k]);
		assert_ok(session_accept(f->plain, SESSION_TEXT, NULL, 1, &e),
			&e);
	}
}

static void cannot_accept(struct fixture *f, const struct hooked *h)
{
	uint32_t length = session_length(f->s, SESSION_TEXT), path[TREE];

	for (uint32_t i = 0; i < h->tree->n; i++) {
		struct err e = { 0 };

		if (h->kept[i])
			continue;
		assert_int_equal(session_accept(f->s, SESSION_TEXT, path,
					 path_to(h->tree, i, path), &e),
			-EINVAL);
		assert_non_null(strstr(e.text, "dropped"));
	}
	assert_int_equal(session_length(f->s, SESSION_TEXT), length);
}

static void one_cycle(struct fixture *f, uint64_t stream)
{
	static struct hooked h;
	struct random_tree r;
	uint32_t path[TREE], n;
	struct err e = { 0 };

	grow(&r, 1 + below(TREE, stream, 700), stream);
	h = (struct hooked){ .tree = &r,
		.stream = stream,
		.stays = 40 + below(61, stream, 701) };
	if (below(4, stream, 702)) {
		assert_ok(forward_with(f, &h, &e), &e);
		cannot_accept(f, &h);
	} else { /* a cycle that drops no rows, between cycles that do */
		assert_ok(
			pair_tree(f->s, r.token, r.parent, r.n, NULL, &e), &e);
		memset(h.kept, true, sizeof(h.kept));
	}
	n = path_to(&r, some_kept(&h, stream), path);
	follow(f, &r, path, n);
	assert_ok(session_accept(f->s, SESSION_TEXT, path, n, &e), &e);
	assert_int_equal(session_length(f->s, SESSION_TEXT),
		session_length(f->plain, SESSION_TEXT));
}

static void many_cycles(struct fixture *f, uint64_t stream)
{
	prefill(f->s, stream, 13);
	prefill(f->plain, stream, 13);
	for (uint64_t i = 0; i < CYCLES; i++) {
		if (session_length(f->s, SESSION_TEXT) + TREE >
			f->opts.context) {
			session_truncate(f->s, SESSION_TEXT, 30);
			session_truncate(f->plain, SESSION_TEXT, 30);
		}
		one_cycle(f, stream + i);
	}
}

static void test_cycles(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_plain(f);
	for (unsigned v = 0; v < VARIANTS; v++) {
		open_variant(f, v);
		session_truncate(f->plain, SESSION_TEXT, 0);
		many_cycles(f, 1000 * (v + 1));
		pair_close(&f->s);
	}
}

/* With strict coherence, the device must read the rows that the CPU moved, in
 * every part of the cache. */
static void test_cycles_of_a_strict_device(void **state)
{
	struct fixture *f = *state;

	f->opts.precision = WIRE_F16_KV16;
	open_models(f);
	open_plain(f);
	for (unsigned i = 0; i < 4; i++) {
		f->opts.coherence = i & 1 ? COHERENCE_CHECK : COHERENCE_STRICT;
		f->opts.evict_seed = i;
		open_variant(f, i & 2 ? 3 : 0);
		session_truncate(f->plain, SESSION_TEXT, 0);
		many_cycles(f, 20000 + 1000 * i);
		pair_close(&f->s);
	}
}

/* ---- smaller graphs ---------------------------------------------------- */

/* The decode graphs have 10, 20 and 40 rows; the prompt's graph has 128. */
static void test_smaller_graphs(void **state)
{
	struct fixture *f = *state;

	f->opts.smaller_graphs = true;
	open_models(f);
	open_plain(f);
	for (unsigned v = 0; v < VARIANTS; v += 3) {
		open_variant(f, v);
		session_truncate(f->plain, SESSION_TEXT, 0);
		many_cycles(f, 30000 + 1000 * v);
		pair_close(&f->s);
	}
	f->opts.prefill_chunk = 128;
	open_variant(f, 0);
	for (uint32_t n = 1; n <= TREE; n++) {
		static struct hooked h;
		struct random_tree r;
		struct session_stats a, b;
		uint32_t graph = n == 1 ? 1 : n <= 10 ? 10 : n <= 20 ? 20 : 40;
		struct err e = { 0 };

		grow(&r, n, 40000 + n);
		h = (struct hooked){ .tree = &r, .stays = 0 };
		session_stats(f->s, &a);
		assert_ok(forward_with(f, &h, &e), &e);
		session_stats(f->s, &b);
		assert_int_equal(b.padded_rows - a.padded_rows, graph - n);
	}
	pair_close(&f->s);
}

/* ---- errors during a pass ------------------------------------------------ */

/* The session works as if the failed pass had not been computed. */
static void still_usable(struct fixture *f, uint64_t stream)
{
	prefill(f->plain, stream, 3);
	prefill(f->s, stream, 3);
	for (uint64_t i = 0; i < 2; i++)
		one_cycle(f, stream + i);
}

static void test_bad_choices(void **state)
{
	static const uint32_t orphan[] = { 0, 3 }, back[] = { 0, 2, 1 },
			      twice[] = { 0, 1, 1 }, far[] = { 0, 1, 5 },
			      no_root[] = { 1, 3 };
	static const struct {
		const uint32_t *row;
		uint32_t n;
		int code;
		int want;
	} bad[] = { { orphan, 2, 0, -EINVAL }, { back, 3, 0, -EINVAL },
		{ twice, 3, 0, -EINVAL }, { far, 3, 0, -EINVAL },
		{ no_root, 2, 0, -EINVAL }, { orphan, 0, 0, -EINVAL },
		{ NULL, 0, -EDOM, -EDOM } };
	struct fixture *f = *state;
	struct random_tree r = { .token = { 1, 2, 3, 4, 5 },
		.parent = { -1, 0, 0, 1, 2 } };
	static struct hooked h;

	r.n = 5;
	open_models(f);
	open_plain(f);
	for (unsigned v = 0; v < VARIANTS; v += 3) {
		open_variant(f, v);
		session_truncate(f->plain, SESSION_TEXT, 0);
		for (unsigned i = 0; i < 7; i++) {
			struct err e = { 0 };
			float logits[VOCAB];

			h = (struct hooked){ .tree = &r,
				.stays = 100,
				.bad = bad[i].row,
				.n_bad = bad[i].n,
				.code = bad[i].code };
			assert_int_equal(forward_with(f, &h, &e), bad[i].want);
			assert_int_equal(e.code, bad[i].want);
			/* The failed pass leaves no row that can be used or
			 * accepted. */
			assert_int_equal(session_logits(f->s, 0, 1, logits, &e),
				-EINVAL);
			assert_int_equal(
				session_accept(f->s, SESSION_TEXT,
					(const uint32_t[]){ 0 }, 1, &e),
				-EINVAL);
			still_usable(f, 50000 + 100 * v + 10 * i);
		}
		pair_close(&f->s);
	}
}

/* An error in the callback `meanwhile` ends the pass, at any block and with any
 * requests in flight. */
static void test_meanwhile_ends_it(void **state)
{
	struct fixture *f = *state;
	static struct hooked h;
	struct random_tree r;

	open_models(f);
	open_plain(f);
	for (unsigned v = 0; v < VARIANTS; v++) {
		open_variant(f, v);
		session_truncate(f->plain, SESSION_TEXT, 0);
		grow(&r, TREE, v);
		for (unsigned at = 1; at <= LAYERS; at++) {
			struct err e = { 0 };

			h = (struct hooked){
				.tree = &r, .stays = 50, .fail_at = at
			};
			assert_int_equal(forward_with(f, &h, &e), -ENOLINK);
			assert_int_equal(h.blocks, at);
			assert_int_equal(h.calls, at > variants[v].exit_layers);
			/* a second failure, directly after the first one */
			if (at == 2)
				assert_int_equal(
					forward_with(f, &h, &e), -ENOLINK);
			still_usable(f, 60000 + 100 * v + 10 * at);
		}
		pair_close(&f->s);
	}
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	open_models(f);
	f->opts.exit_layers = LAYERS;
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EINVAL);
	f->s = NULL;
	assert_non_null(strstr(e.text, "not possible in a model of 5"));
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_states),
	TEST(test_states_in_the_middle),
	TEST(test_cycles),
	TEST(test_cycles_of_a_strict_device),
	TEST(test_smaller_graphs),
	TEST(test_bad_choices),
	TEST(test_meanwhile_ends_it),
	TEST(test_refused),
};

TEST_FILE(tests)
