/*
 * EAGLE heads as draft models, compared with a reference computation
 * (reference_model.h), which shares no code with the program. The tests cover
 * chains, trees and the tokens after a verification, in float32 and in int8
 * arithmetic, for one request and for two in a pass. Other tests of this file
 * check the estimated cost and files that are refused.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/draft_model.h"
#include "host/model/model.h"
#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/model/eagle_file.h"
#include "tests/host/model/reference_model.h"

#include <errno.h>

#define MOST  120 /* tokens of a text */
#define EMBD  32
#define VOCAB 96

struct fixture {
	struct model_file target_file;
	struct eagle_file file;
	/* layer of the head, for the reference computation */
	struct model_file layer;
	struct model *target, *model;
	struct draft_model *d, *more;
	double bound; /* accepted difference of a logit */
	int32_t text[MOST];
	/* [position][n_embd] random numbers in place of the target's hidden
	 * states */
	float hidden[MOST][EMBD];
	double want[VOCAB];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->target_file = model_file_tiny;
	f->file = eagle_file_for(&f->target_file);
	f->bound = 1e-4;
	*state = f;
	return 0;
}

static void close_models(struct fixture *f)
{
	draft_close(f->more);
	draft_close(f->d);
	model_close(f->model);
	model_close(f->target);
	f->d = f->more = NULL;
	f->model = f->target = NULL;
}

static int teardown(void **state)
{
	close_models(*state);
	free(*state);
	return 0;
}

static double drawn(uint64_t stream, uint64_t i)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t seed;

	seed = seed ? seed : harness_seed();
	return rng_uniform(seed + 31, stream, i);
}

static void open_models(
	struct fixture *f, enum draft_arithmetic a, uint32_t threads)
{
	struct err e = { 0 };

	close_models(f);
	f->target = model_file_open(&f->target_file);
	f->model = eagle_file_open(&f->file, f->target);
	assert_ok(
		draft_open(&f->d, f->model, f->target, a, 0, threads, &e), &e);
	assert_ok(draft_open_like(&f->more, f->d, &e), &e);
	assert_true(draft_is_eagle(f->d));
	f->layer = f->file.m;
	/* In this architecture, RoPE rotates pairs of neighboring values. */
	f->layer.arch = "llama";
	for (uint64_t i = 0; i < MOST; i++) {
		f->text[i] = (int32_t)(drawn(1, i) * VOCAB);
		for (uint64_t c = 0; c < EMBD; c++)
			f->hidden[i][c] =
				(float)(4 * drawn(2, i * EMBD + c) - 2);
	}
}

/* ---- the reference computation ------------------------------------------- */

/* static, because it is large */
static struct reference ref;

static void of_file(struct fixture *f, const struct model *m, unsigned n)
{
	ref.g = m->gguf;
	ref.f = &f->layer;
	ref.n = n;
}

/* Set u to the input of the head's layer for a token. g is the hidden state of
 * the position before the token. */
static void reference_input(
	struct fixture *f, int32_t token, const double *g, double *u)
{
	const struct gguf_tensor *embd = f->target->token_embd;
	size_t bytes = dtype_row_bytes(embd->type, EMBD);
	static struct ref_rows pair;
	float row[EMBD];

	dtype_info(embd->type)
		->to_f32(row, (const char *)embd->data + (size_t)token * bytes,
			EMBD);
	for (unsigned i = 0; i < EMBD; i++)
		pair.v[0][i] = (double)row[i];
	of_file(f, f->model, 1);
	ref_norm(&ref, "eagle_embd_norm.weight", pair.v[0], pair.v[0], EMBD);
	memcpy(pair.v[0] + EMBD, g, EMBD * sizeof(*g));
	assert_true(ref_linear(&ref, "eagle_fc.weight", &pair, u, 1));
}

/* Set f->want to the logits after the n tokens of `text`. The hidden states of
 * the first `known` positions are those of the target, f->hidden; the head
 * computes the states of further positions itself. */
static void reference(
	struct fixture *f, const int32_t *text, unsigned n, unsigned known)
{
	static uint8_t sees[MOST * MOST];
	static double g[MOST][EMBD], u[MOST][EMBD];
	unsigned position[MOST];

	for (unsigned i = 0; i < known; i++) {
		for (unsigned c = 0; c < EMBD; c++)
			g[i][c] = (double)f->hidden[i][c];
		of_file(f, f->target, 1);
		ref_norm(&ref, "output_norm.weight", g[i], g[i], EMBD);
	}
	/* Row i is position i + 1. Each iteration computes the head's own state
	 * of one more position. */
	for (unsigned rows = known; rows < n; rows++) {
		for (unsigned i = 0; i < rows; i++) {
			position[i] = i + 1;
			for (unsigned j = 0; j < rows; j++)
				sees[i * rows + j] = j <= i;
			reference_input(f, text[i + 1], g[i], u[i]);
			memcpy(ref.x.v[i], u[i], sizeof(u[i]));
		}
		of_file(f, f->model, rows);
		ref.position = position;
		ref.sees = sees;
		ref_before_attention(&ref, 0);
		ref_from_attention(&ref, 0);
		ref_norms(&ref, "output_norm.weight");
		memcpy(g[rows], ref.h.v[rows - 1], sizeof(g[rows]));
	}
	memcpy(ref.h.v[0], g[n - 1], sizeof(g[n - 1]));
	of_file(f, f->target, 1);
	if (!ref_linear(&ref, "output.weight", &ref.h, f->want, 1))
		ref_linear(&ref, "token_embd.weight", &ref.h, f->want, 1);
}

static void check(const struct fixture *f, const float *got, const char *what)
{
	for (uint32_t v = 0; v < VOCAB; v++)
		assert_close((double)got[v], f->want[v], f->bound, what);
}

/* ---- chains and trees ---------------------------------------------------- */

/* Append text[held, n), where `held` is the number of appended tokens, with the
 * target's states of the positions before these tokens. Compare the logits. */
static void append(struct fixture *f, struct draft_model *d, uint32_t n)
{
	const float *logits;
	uint32_t held;
	struct err e = { 0 };

	draft_tokens(d, &held);
	if (!held)
		draft_begin(d, f->text[held++]);
	for (uint32_t at = held - 1; at + 1 < n; at++)
		draft_put_state(d, at, f->hidden[at]);
	assert_ok(draft_append(d, f->text + held, n - held, &logits, &e), &e);
	reference(f, f->text, n, n - 1);
	check(f, logits, "text");
}

/* Draft a tree of 15 rows after `n` tokens for each of two requests. A pass
 * computes one row of each tree. */
static void check_tree(struct fixture *f, uint32_t n)
{
	static const int32_t parent[] = { -1, -1, 0, 1, 1, 2, 5, 6, 3, 8, 0, 9,
		4, 7, 13 };
	float *logits = calloc(4 * VOCAB, sizeof(*logits));

	assert_non_null(logits);
	for (uint32_t row = 0; row < ARRAY_LEN(parent); row++) {
		struct draft_model *both[] = { f->d, f->more };
		struct draft_ask ask[2];
		int32_t token[2], path[MOST];
		uint32_t depth = 0;
		struct err e = { 0 };

		for (uint32_t i = 0; i < 2; i++) {
			token[i] = (int32_t)((row * 7 + i * 11) % VOCAB);
			ask[i] = (struct draft_ask){ both[i], &token[i],
				&parent[row], .n = 1 };
		}
		assert_ok(draft_together(ask, 2, logits, &e), &e);
		for (int32_t at = (int32_t)row; at >= 0; at = parent[at])
			depth++;
		memcpy(path, f->text, n * sizeof(*path));
		for (uint32_t i = 0; i < 2; i++) {
			uint32_t to = n + depth;

			assert_int_equal(ask[i].first, row);
			for (int32_t at = (int32_t)row; at >= 0;
				at = parent[at])
				path[--to] =
					(int32_t)(((uint32_t)at * 7 + i * 11) %
						VOCAB);
			reference(f, path, n + depth, n - 1);
			check(f, logits + (size_t)i * VOCAB, "row of a tree");
		}
	}
	free(logits);
}

static void check_all(struct fixture *f)
{
	static const uint32_t end[] = { 2, 3, 9, 80, 81, 100, MOST };

	for (uint32_t i = 0; i < ARRAY_LEN(end); i++) {
		append(f, f->d, end[i]);
		append(f, f->more, end[i]);
		if (i == 1 || i == 4)
			check_tree(f, end[i]);
		/* Keep no drafted row: the next iteration appends tokens with
		 * hidden states that the target has computed. */
		draft_keep(f->d, NULL, 0);
		draft_keep(f->more, NULL, 0);
	}
	/* Append again after the text was truncated to 7 tokens. */
	draft_truncate(f->d, 7);
	append(f, f->d, 20);
}

static void test_definition(void **state)
{
	struct fixture *f = *state;

	open_models(f, DRAFT_F32, 1);
	check_all(f);
	f->target_file.tied = true;
	f->file.m.type = DTYPE_Q8_0;
	f->file.m.n_kv_head = 4;
	open_models(f, DRAFT_F32, 3);
	check_all(f);
}

static void test_definition_in_int8(void **state)
{
	struct fixture *f = *state;

	f->bound = 0.15;
	f->target_file.type = f->file.m.type = DTYPE_Q8_0;
	open_models(f, DRAFT_INT8, 2);
	check_all(f);
}

/* ---- estimated cost ------------------------------------------------------ */

static void test_price(void **state)
{
	const uint64_t kv = 16, ff = 96;
	const uint64_t weights = 2 * EMBD * EMBD + 2 * EMBD * EMBD +
		2 * kv * EMBD + 3 * ff * EMBD + VOCAB * EMBD;
	struct fixture *f = *state;
	struct price price = { 0 };
	struct soc soc = { 0 };

	open_models(f, DRAFT_F32, 1);
	for (unsigned i = 0; i < SOC_COUNT; i++)
		soc_set(&soc, i, soc_numbers[i].upper);
	draft_price_for(f->d, &soc, NULL, (struct shape_type){ 0 });
	append(f, f->d, 2);
	draft_take_price(f->d, &price);
	assert_int_equal(price.counts.cpu_flops, 2 * weights);
}

/* ---- refused files ------------------------------------------------------- */

static void check_refused(
	struct fixture *f, const struct eagle_file *file, const char *why)
{
	struct model *m;
	struct err e = { 0 };

	assert_true(eagle_file_try(file, f->target, &m, &e) < 0);
	if (!strstr(e.text, why))
		fail_msg("'%s' is not in '%s'", why, e.text);
}

static void mask_key(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 95);
}

static void test_refused(void **state)
{
	static const char *const parts[] = { "eagle_embd_norm.weight",
		"eagle_fc.weight", "output_norm.weight", "blk.0.attn_q.weight",
		"blk.0.ffn_norm.weight", "tandem-eagle.embedding_length",
		"tandem-eagle.feed_forward_length",
		"tandem-eagle.attention.head_count",
		"tandem-eagle.attention.layer_norm_rms_epsilon",
		"tandem-eagle.vocab_size", "tandem-eagle.context_length" };
	struct fixture *f = *state;
	struct eagle_file file;
	struct model *m;
	struct err e = { 0 };

	f->target = model_file_open(&f->target_file);
	for (unsigned i = 0; i < ARRAY_LEN(parts); i++) {
		file = f->file;
		file.m.skip = parts[i];
		check_refused(f, &file, parts[i]);
		file = f->file;
		file.m.wrong_shape = parts[i];
		if (i < 5)
			check_refused(f, &file, parts[i]);
	}
	file = f->file;
	file.m.tensor = "token_embd.weight";
	check_refused(f, &file, "'token_embd.weight' is not supported");
	file = f->file;
	file.vocab_key = VOCAB + 1;
	check_refused(f, &file, "'tandem-eagle.vocab_size' is 97");
	file = f->file;
	file.m.n_embd = 64;
	check_refused(f, &file, "the target's value is 32");
	/* An EAGLE head is also refused without a target model, and for a
	 * target that does not generate from left to right. */
	assert_int_equal(eagle_file_try(&f->file, NULL, &m, &e), -EINVAL);
	assert_non_null(strstr(e.text, "--draft"));
	model_close(f->target);
	f->target_file.arch = "llada";
	f->target_file.keys = mask_key;
	f->target = model_file_open(&f->target_file);
	check_refused(f, &f->file, "'llada'");
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_definition),
	TEST(test_definition_in_int8),
	TEST(test_price),
	TEST(test_refused),
};

TEST_FILE(tests)
