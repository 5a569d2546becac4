/*
 * Draft models compared with a reference transformer (reference_model.h) and
 * with the logits of another program. In other tests the tokens are appended in
 * pieces of any size, and the logits must not depend on the pieces.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/draft_model.h"
#include "host/model/model.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/model/reference_model.h"

#include <errno.h>
#include <stdio.h>

struct fixture {
	struct model_file file;
	struct model *model, *other;
	struct draft_model *d;
	uint32_t context, threads;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	f->threads = 1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	draft_close(f->d);
	model_close(f->model);
	model_close(f->other);
	free(f);
	return 0;
}

static void open_draft(struct fixture *f)
{
	struct err e = { 0 };

	if (!f->model)
		f->model = model_file_open(&f->file);
	draft_close(f->d);
	f->d = NULL;
	assert_ok(draft_open(&f->d, f->model, NULL, DRAFT_F32, f->context,
			  f->threads, &e),
		&e);
}

static void tokens(const struct fixture *f, uint64_t stream, int32_t *t, int n)
{
	static uint64_t seed;

	seed = seed ? seed : harness_seed();
	for (int i = 0; i < n; i++)
		t[i] = (int32_t)(rng_uniform(seed, stream, (uint64_t)i) *
			f->file.n_vocab);
}

static const float *append(struct fixture *f, const int32_t *t, size_t n)
{
	struct err e = { 0 };
	const float *logits;

	assert_ok(draft_append(f->d, t, n, &logits, &e), &e);
	return logits;
}

static const float *follow(struct fixture *f, const int32_t *t, size_t n)
{
	struct err e = { 0 };
	const float *logits;

	assert_ok(draft_follow(f->d, t, n, &logits, &e), &e);
	return logits;
}

static void same_logits(const struct fixture *f, const float *got,
	const float *want, const char *what)
{
	for (uint32_t v = 0; v < f->file.n_vocab; v++)
		if (memcmp(&got[v], &want[v], sizeof(*got)) != 0)
			fail_msg("%s: logit %u is %.9g, not %.9g", what, v,
				(double)got[v], (double)want[v]);
}

static void cache_holds(
	const struct fixture *f, const int32_t *want, uint32_t n)
{
	uint32_t held;
	const int32_t *t = draft_tokens(f->d, &held);

	assert_int_equal(held, n);
	assert_memory_equal(t, want, n * sizeof(*t));
}

/* ---- against the reference transformer ----------------------------- */

/* Append `total` tokens in pieces of 1 to 11 tokens. After each piece compare
 * the logits. */
static void check_tokens(struct fixture *f, uint32_t total, double bound)
{
	double *want = calloc((size_t)total * f->file.n_vocab, sizeof(*want));
	double largest = 0;
	int32_t t[REF_MAX_TOKENS];

	open_draft(f);
	tokens(f, 1, t, (int)total);
	ref_logits(f->model->gguf, &f->file, t, total, want);
	for (uint32_t at = 0, n; at < total; at += n) {
		const float *got;

		n = 1 + (at * 5) % 11;
		n = n > total - at ? total - at : n;
		got = append(f, t + at, n);
		for (uint32_t v = 0; v < f->file.n_vocab; v++) {
			double w = want[(at + n - 1) * f->file.n_vocab + v];

			assert_close((double)got[v], w, bound, "logit");
			largest = fmax(largest, fabs((double)got[v] - w));
		}
	}
	print_message("largest difference %.2g, bound %.2g\n", largest, bound);
	free(want);
}

static void check_reference(struct fixture *f, double bound)
{
	check_tokens(f, 40, bound);
}

static void test_llama_is_the_definition(void **state)
{
	check_reference(*state, 2e-5);
}

static void test_llama3_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.rope_freqs = true;
	f->file.n_layer = 5;
	check_reference(f, 5e-5);
}

static void test_qwen2_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "qwen2";
	f->file.bias = f->file.tied = true;
	check_reference(f, 2e-5);
}

static void test_qwen3_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "qwen3";
	f->file.qk_norm = true;
	f->file.head_dim = 16;
	f->file.n_kv_head = 1;
	f->file.type = DTYPE_Q8_0;
	check_reference(f, 2e-5);
}

static void test_quantized_is_the_definition(void **state)
{
	static const enum dtype types[] = { DTYPE_F16, DTYPE_BF16, DTYPE_Q4_0,
		DTYPE_Q8_0 };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		f->file.type = types[i];
		check_reference(f, 2e-5);
		model_close(f->model);
		f->model = NULL;
	}
}

/* A model of 17 M weights is too large for its weights to be dequantized when
 * it is opened. */
static void test_large_model_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.type = DTYPE_Q4_0;
	f->file.n_embd = 256;
	f->file.n_head = 8;
	f->file.head_dim = 32;
	f->file.n_vocab = 66000;
	f->file.tied = true;
	check_tokens(f, 4, 2e-5);
}

/* ---- against another program --------------------------------------- */

/* Read the input ids from the file. The file lists the successor of each input
 * token, so the input is token 1, followed by all listed ids but the last.
 * Returns the number of input ids. */
static unsigned read_ids(const char *path, int32_t *id, unsigned most)
{
	FILE *file = fopen(path, "re");
	char line[8192], *at = NULL, *end;
	unsigned n = 0;

	assert_non_null(file);
	while (!at && fgets(line, sizeof(line), file))
		if (!strncmp(line, "next_tokens:", 12))
			at = line + 12;
	fclose(file);
	assert_non_null(at);
	id[n++] = 1;
	for (; n < most; at = end) {
		long v = strtol(at, &end, 10);

		if (end == at)
			break;
		id[n++] = (int32_t)v;
	}
	return n - 1;
}

static void check_golden(struct fixture *f, unsigned prompt)
{
	char name[64], path[4096];
	unsigned n_vocab = f->model->n_vocab, n;
	float *want = malloc(n_vocab * sizeof(*want));
	double largest = 0;
	int32_t id[1024];
	FILE *file;

	snprintf(name, sizeof(name), "golden/llama2c/greedy_%u.ids", prompt);
	n = read_ids(harness_data(name, path, sizeof(path)), id, 1024);
	memcpy(strrchr(path, '.'), ".logits.f32", 12);
	file = fopen(path, "re");
	assert_non_null(file);
	draft_truncate(f->d, 0);
	for (unsigned i = 0; i < n; i++) {
		const float *got = append(f, id + i, 1);

		assert_int_equal(
			fread(want, sizeof(*want), n_vocab, file), n_vocab);
		for (unsigned v = 0; v < n_vocab; v++) {
			double a = (double)got[v], b = (double)want[v];

			assert_close(a, b, 1e-3, "logit");
			largest = fmax(largest, fabs(a - b));
		}
	}
	assert_int_equal(fgetc(file), EOF);
	print_message("prompt %u, %u tokens: largest difference %.2g\n", prompt,
		n, largest);
	fclose(file);
	free(want);
}

static void test_stories(void **state)
{
	struct fixture *f = *state;
	char path[4096];
	struct err e = { 0 };

	harness_data("models/stories260K-f32.gguf", path, sizeof(path));
	assert_ok(model_open(&f->model, path, NULL, NULL, &e), &e);
	open_draft(f);
	for (unsigned i = 0; i < 3; i++)
		check_golden(f, i);
}

/* ---- any order of appending ---------------------------------------------- */

/* number of tokens of a text that takes several passes; the final pass is not
 * full */
enum { LONG = 200 };

/* The logits after n tokens that are appended one by one. */
static float *one_by_one(struct fixture *f, const int32_t *t, int n)
{
	float *logits = malloc(f->file.n_vocab * sizeof(*logits));
	const float *got = NULL;

	open_draft(f);
	for (int i = 0; i < n; i++)
		got = append(f, t + i, 1);
	memcpy(logits, got, f->file.n_vocab * sizeof(*logits));
	return logits;
}

static void check_split(struct fixture *f)
{
	static const unsigned pieces[] = { 2, 7, 63, 64, 65, LONG };
	int32_t t[LONG];
	float *want;

	tokens(f, 2, t, LONG);
	want = one_by_one(f, t, LONG);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		const float *got = NULL;

		open_draft(f);
		for (unsigned at = 0, n; at < LONG; at += n) {
			n = LONG - at < pieces[i] ? LONG - at : pieces[i];
			got = append(f, t + at, n);
		}
		cache_holds(f, t, LONG);
		same_logits(f, got, want, "in pieces");
	}
	free(want);
}

static void test_pieces_make_no_difference(void **state)
{
	struct fixture *f = *state;

	check_split(f);
	f->file.type = DTYPE_Q4_0;
	f->file.qk_norm = true;
	f->file.arch = "qwen3";
	model_close(f->model);
	f->model = NULL;
	check_split(f);
}

/* The model is wide enough that threads share the work of prompts and of
 * products of a single row. */
static void test_threads_make_no_difference(void **state)
{
	struct fixture *f = *state;
	enum { N = 70 };
	int32_t t[N];
	float *want, *again;

	f->file.n_embd = 512;
	f->file.n_head = 8;
	f->file.head_dim = 64;
	f->file.n_ff = 2052;
	f->file.n_vocab = 3001;
	f->file.n_layer = 1;
	f->file.tied = true;
	tokens(f, 3, t, N);
	f->threads = 1;
	want = one_by_one(f, t, N);
	f->threads = 3;
	open_draft(f);
	same_logits(f, append(f, t, N), want, "three threads, all at once");
	again = one_by_one(f, t, N);
	same_logits(f, again, want, "three threads, one by one");
	free(want);
	free(again);
}

static void test_truncated_is_fresh(void **state)
{
	struct fixture *f = *state;
	int32_t t[50];
	float want[96];

	tokens(f, 4, t, 50);
	open_draft(f);
	memcpy(want, append(f, t, 30), sizeof(want));
	append(f, t + 30, 20);
	draft_truncate(f->d, 17);
	cache_holds(f, t, 17);
	same_logits(f, append(f, t + 17, 13), want, "again from 17");
	/* longer than the cached text, so nothing changes */
	draft_truncate(f->d, 400);
	cache_holds(f, t, 30);
	draft_truncate(f->d, 0);
	cache_holds(f, t, 0);
	same_logits(f, append(f, t, 30), want, "again from 0");
}

/* Change from one text to another, which may have a common prefix of any
 * length, be longer or shorter, or be the same text. */
static void test_following_is_fresh(void **state)
{
	struct fixture *f = *state;
	struct draft_model *fresh;
	struct err e = { 0 };
	int32_t t[60];

	tokens(f, 5, t, 60);
	open_draft(f);
	assert_ok(draft_open(&fresh, f->model, NULL, DRAFT_F32, 0, 1, &e), &e);
	for (uint64_t i = 0; i < 60; i++) {
		uint32_t n = 1 + (uint32_t)(rng_uniform(7, 1, i) * 60);
		uint32_t at = (uint32_t)(rng_uniform(7, 2, i) * n);
		const float *got, *want;

		/* Add 0, 1 or 2; with 0 the token stays the same. */
		t[at] = (t[at] + (int32_t)(i % 3)) % 96;
		got = follow(f, t, n);
		draft_truncate(fresh, 0);
		assert_ok(draft_append(fresh, t, n, &want, &e), &e);
		same_logits(f, got, want, "follow");
		cache_holds(f, t, n);
	}
	draft_close(fresh);
}

/* A draft model (`like`) that shares the weights of another one but has a cache
 * of its own. The test appends a text to `like` in pieces of four tokens, while
 * the other model continues its own text. */
static void test_like_another(void **state)
{
	struct fixture *f = *state;
	struct draft_model *like, *alone;
	struct err e = { 0 };
	int32_t ours[12], its[12];

	f->context = 40;
	f->threads = 2;
	tokens(f, 8, ours, 12);
	tokens(f, 9, its, 12);
	open_draft(f);
	append(f, ours, 5);
	assert_ok(draft_open_like(&like, f->d, &e), &e);
	assert_ok(draft_open(&alone, f->model, NULL, DRAFT_F32, 40, 1, &e), &e);
	assert_int_equal(draft_context(like), 40);
	for (int i = 0; i < 12; i += 4) {
		const float *got, *want;

		follow(f, ours, 5 + (size_t)i / 2);
		assert_ok(draft_append(like, its + i, 4, &got, &e), &e);
		assert_ok(draft_append(alone, its + i, 4, &want, &e), &e);
		same_logits(f, got, want, "like another");
	}
	draft_close(alone);
	draft_close(like);
	cache_holds(f, ours, 9);
	append(f, ours + 9, 1);
}

/* ---- refusals ------------------------------------------------------ */

static void test_other_vocabulary(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->model = model_file_open(&f->file);
	f->file.n_vocab = 100;
	f->other = model_file_open(&f->file);
	assert_int_equal(
		draft_open(&f->d, f->model, f->other, DRAFT_F32, 0, 1, &e),
		-EINVAL);
	assert_non_null(strstr(e.text, "96 tokens"));
	assert_non_null(strstr(e.text, "100"));
	f->d = NULL;
	assert_ok(
		draft_open(&f->d, f->model, f->model, DRAFT_F32, 0, 1, &e), &e);
}

static void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 95);
}

static void test_diffusion_model(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->file.arch = "llada";
	f->file.keys = put_mask;
	f->model = model_file_open(&f->file);
	assert_int_equal(draft_open(&f->d, f->model, NULL, DRAFT_F32, 0, 1, &e),
		-EINVAL);
	assert_non_null(strstr(e.text, "'llada' cannot draft"));
	f->d = NULL;
}

static void test_context(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	const float *logits;
	int32_t t[21];

	open_draft(f);
	/* the maximum context of the model */
	assert_int_equal(draft_context(f->d), 256);
	f->context = 1000;
	open_draft(f);
	assert_int_equal(draft_context(f->d), 256);
	f->context = 20;
	open_draft(f);
	assert_int_equal(draft_context(f->d), 20);
	tokens(f, 6, t, 21);
	assert_int_equal(draft_append(f->d, t, 21, &logits, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "context of 20 tokens"));
	cache_holds(f, t, 0);
	append(f, t, 19);
	assert_int_equal(draft_append(f->d, t, 2, &logits, &e), -ENOSPC);
	append(f, t + 19, 1);
	assert_int_equal(draft_append(f->d, t, 1, &logits, &e), -ENOSPC);
	cache_holds(f, t, 20);
	assert_int_equal(draft_follow(f->d, t, 21, &logits, &e), -ENOSPC);
}

static void test_token_out_of_range(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	const float *logits;

	open_draft(f);
	for (int i = 0; i < 2; i++) {
		int32_t t[] = { 1, i ? -1 : 96, 2 };

		assert_int_equal(
			draft_append(f->d, t, 3, &logits, &e), -EINVAL);
		assert_non_null(strstr(e.text, i ? "token -1" : "token 96"));
		cache_holds(f, t, 0);
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_llama_is_the_definition),
	TEST(test_llama3_is_the_definition),
	TEST(test_qwen2_is_the_definition),
	TEST(test_qwen3_is_the_definition),
	TEST(test_quantized_is_the_definition),
	TEST(test_large_model_is_the_definition),
	TEST(test_stories),
	TEST(test_pieces_make_no_difference),
	TEST(test_threads_make_no_difference),
	TEST(test_truncated_is_fresh),
	TEST(test_following_is_fresh),
	TEST(test_like_another),
	TEST(test_other_vocabulary),
	TEST(test_diffusion_model),
	TEST(test_context),
	TEST(test_token_out_of_range),
};

TEST_FILE(tests)
