/*
 * Embeddings through tandem.h. The values must match those that the test
 * computes with a reference model (reference_model.h). An embedding must have
 * the same bytes whether its request runs alone or shares passes with other
 * requests. Uses real device processes ($TANDEM_NPU).
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/api/tandem.h"
#include "tensor/gguf_write.h"
#include "tests/harness.h"
#include "tests/host/model/reference_model.h"

#include <string.h>

#define WIDTH   32 /* n_embd of model_file_tiny */
#define N_VOCAB 32
#define TEXTS   12
#define MOST    70 /* tokens of the longest text */

static char path[4200];
static int pooling; /* pooling_type of the next model file; -1: no key */
static bool adds_eos;

static void put_keys(struct gguf_writer *w)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABC";
	struct gguf_str token[N_VOCAB];
	int32_t type[N_VOCAB];

	for (unsigned i = 0; i < N_VOCAB; i++) {
		token[i] = (struct gguf_str){ letters + i, 1 };
		type[i] = 1;
	}
	token[N_VOCAB - 3] = (struct gguf_str){ "ab", 2 };
	token[N_VOCAB - 2] = (struct gguf_str){ "<|end|>", 7 };
	token[N_VOCAB - 1] = (struct gguf_str){ "AB", 2 };
	type[N_VOCAB - 2] = 3;
	gguf_put_str(w, "tokenizer.ggml.model", "gpt2");
	gguf_put_str(w, "tokenizer.ggml.pre", "gpt-2");
	gguf_put_strs(w, "tokenizer.ggml.tokens", token, N_VOCAB);
	gguf_put_i32s(w, "tokenizer.ggml.token_type", type, N_VOCAB);
	gguf_put_strs(w, "tokenizer.ggml.merges",
		&(const struct gguf_str){ "a b", 3 }, 1);
	gguf_put_u32(w, "tokenizer.ggml.eos_token_id", N_VOCAB - 2);
	gguf_put_bool(w, "tokenizer.ggml.add_eos_token", adds_eos);
	if (pooling >= 0)
		gguf_put_u32(w, "llama.pooling_type", (uint32_t)pooling);
}

static struct model_file write_model(int pooling_type)
{
	struct model_file file = model_file_tiny;

	file.n_vocab = N_VOCAB;
	file.keys = put_keys;
	pooling = pooling_type;
	snprintf(path, sizeof(path), "%s/model.gguf", harness_tmp());
	model_file_write(&file, path);
	return file;
}

static int setup(void **state)
{
	adds_eos = false;
	write_model(-1);
	return 0;
}

static struct tandem *opened(const char *a, const char *b, const char *c)
{
	const char *const set[] = { "precision=f32", "ctx=128", a, b, c, NULL };
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = path;
	o.set = set;
	if (tandem_open(&t, &o))
		fail_msg("%s", tandem_error(NULL));
	return t;
}

struct vector {
	unsigned calls;
	float value[WIDTH];
};

static void keep(void *arg, const float *values, size_t n)
{
	struct vector *v = arg;

	assert_int_equal(n, WIDTH);
	memcpy(v->value, values, sizeof(v->value));
	v->calls++;
}

static struct tandem_request embedding_of(
	const int32_t *token, size_t n, struct vector *out)
{
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.tokens = token;
	r.n_tokens = n;
	r.flags = TANDEM_EMBED;
	r.embedding = keep;
	r.embedding_arg = out;
	out->calls = 0;
	return r;
}

static void embed(
	struct tandem *t, const struct tandem_request *r, struct vector *out)
{
	struct tandem_result got = { .size = sizeof(got) };

	if (tandem_generate(t, r, &got))
		fail_msg("%s", tandem_error(t));
	assert_int_equal(out->calls, 1);
	assert_int_equal(got.tokens, 0);
	assert_int_equal(got.cached_tokens, 0);
}

/* Store text number i, which has 1 to MOST tokens, in `token`. Some texts are
 * prefixes of others. Returns the number of tokens. */
static size_t text_of(unsigned i, int32_t token[MOST])
{
	size_t n = i ? 1 + (i * 29) % MOST : 1;

	for (size_t k = 0; k < n; k++)
		token[k] = (int32_t)((i % 3 + k * k + 3 * k) % (N_VOCAB - 3));
	return n;
}

static void the_values_are_those_of_the_definition(void **state)
{
	struct model_file file = write_model(-1);
	struct tandem *t = opened(NULL, NULL, NULL);
	struct gguf *g;
	struct err e = { 0 };
	int32_t token[MOST];
	double want[WIDTH];
	struct vector got;

	assert_ok(gguf_open(&g, path, &e), &e);
	for (unsigned i = 0; i < 2 * TEXTS; i++) {
		size_t n = text_of(i / 2, token);
		struct tandem_request r = embedding_of(token, n, &got);

		r.pooling = i % 2 ? TANDEM_POOLING_LAST : TANDEM_POOLING_MEAN;
		embed(t, &r, &got);
		ref_embedding(g, &file, token, (unsigned)n, i % 2, want);
		for (unsigned k = 0; k < WIDTH; k++)
			assert_close(
				(double)got.value[k], want[k], 2e-6, "a value");
	}
	gguf_close(g);
	assert_int_equal(tandem_close(t), 0);
}

static void the_model_file_chooses_the_pooling(void **state)
{
	static const struct {
		int type;
		enum tandem_pooling same;
	} choice[] = { { -1, TANDEM_POOLING_MEAN }, { 0, TANDEM_POOLING_MEAN },
		{ 1, TANDEM_POOLING_MEAN }, { 3, TANDEM_POOLING_LAST } };
	int32_t token[MOST];
	size_t n = text_of(1, token);

	for (unsigned i = 0; i < ARRAY_LEN(choice); i++) {
		struct vector a, b;
		struct tandem_request r = embedding_of(token, n, &a);
		struct tandem *t;

		write_model(choice[i].type);
		t = opened(NULL, NULL, NULL);
		embed(t, &r, &a);
		r.embedding_arg = &b;
		r.pooling = choice[i].same;
		b.calls = 0;
		embed(t, &r, &b);
		assert_memory_equal(a.value, b.value, sizeof(a.value));
		assert_int_equal(tandem_close(t), 0);
	}
}

static void assert_refused(
	struct tandem *t, const struct tandem_request *r, const char *says)
{
	struct tandem_submitted *x;

	assert_int_equal(tandem_submit(t, r, &x), TANDEM_MISUSE);
	assert_null(x);
	if (!strstr(tandem_error(t), says))
		fail_msg("'%s' does not hold '%s'", tandem_error(t), says);
}

static void other_requests_are_refused(void **state)
{
	static const char *const says[] = {
		[2] = "is 2 (the first token),", [4] = "is 4 (a score),"
	};
	int32_t token[200] = { 1 };
	struct vector v;
	struct tandem_request r = embedding_of(token, 200, &v);
	struct tandem *t = opened(NULL, NULL, NULL);

	assert_refused(t, &r, "the prompt has 200 tokens");
	assert_refused(t, &r, "128");
	r.n_tokens = 1;
	r.pooling = 3;
	assert_refused(t, &r, "pooling is 3");
	assert_int_equal(tandem_close(t), 0);
	for (int type = 2; type <= 4; type += 2) {
		write_model(type);
		t = opened(NULL, NULL, NULL);
		r.pooling = TANDEM_POOLING_MODEL;
		assert_refused(t, &r, says[type]);
		assert_int_equal(tandem_close(t), 0);
	}
	assert_int_equal(v.calls, 0);
}

static void diffusion_models_have_no_embeddings(void **state)
{
	struct vector v;
	struct tandem_request r = embedding_of((const int32_t[]){ 1 }, 1, &v);
	struct tandem *t;

	snprintf(path, sizeof(path), "flash/models/diffusion.gguf");
	t = opened("method=llada", NULL, NULL);
	assert_refused(t, &r, "is a diffusion model");
	assert_int_equal(tandem_close(t), 0);
}

static void a_text_gets_an_end_if_the_model_wants_it(void **state)
{
	struct vector v;
	struct tandem_request r = embedding_of(NULL, 0, &v);
	struct tandem *t;
	int32_t id[8];

	adds_eos = true;
	write_model(-1);
	t = opened(NULL, NULL, NULL);
	r.tokens = NULL;
	r.prompt = "cde";
	assert_int_equal(tandem_prompt(t, &r, id, 8), 4);
	assert_int_equal(id[3], N_VOCAB - 2);
	r.flags = 0;
	assert_int_equal(tandem_prompt(t, &r, id, 8), 3);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- several requests ---------------------------------------------------- */

static struct vector alone[TEXTS];

static void embed_alone(const char *set)
{
	struct tandem *t = opened(set, NULL, NULL);
	int32_t token[MOST];

	for (unsigned i = 0; i < TEXTS; i++) {
		struct vector v;
		struct tandem_request r =
			embedding_of(token, text_of(i, token), &v);

		embed(t, &r, &v);
		if (set && memcmp(v.value, alone[i].value, sizeof(v.value)))
			fail_msg("text %u with %s differs", i, set);
		alone[i] = v;
	}
	assert_int_equal(tandem_close(t), 0);
}

static int add_id(void *arg, int32_t id, const char *text, size_t len)
{
	int32_t **at = arg;

	*(*at)++ = id;
	return 0;
}

/* Submit the embedding requests of all texts together with `generating`
 * requests that generate text. Compare the results with those of requests that
 * run alone. Returns the number of passes. */
static uint64_t embed_together(struct tandem *t, unsigned generating)
{
	struct tandem_stats before = { .size = sizeof(before) }, after = before;
	struct tandem_submitted *x[TEXTS + 2];
	static int32_t token[MOST], written[3][64];
	static struct vector v[TEXTS];
	int32_t *at[3] = { written[0], written[1], written[2] };
	struct tandem_request g = { 0 };
	unsigned n = 0;

	tandem_request_init(&g, sizeof(g));
	g.tokens = token;
	g.n_tokens = text_of(7, token);
	g.max_tokens = 20;
	g.flags = TANDEM_IGNORE_EOS;
	g.sink = add_id;
	g.sink_arg = &at[2];
	memset(written, 0, sizeof(written));
	if (generating && tandem_generate(t, &g, NULL))
		fail_msg("%s", tandem_error(t));
	tandem_start(t, 0);
	tandem_stats(t, &before);
	for (unsigned i = 0; i < TEXTS + generating; i++) {
		struct tandem_request r;
		size_t len = text_of(i < TEXTS ? i : 7, token);

		r = embedding_of(token, len, &v[i < TEXTS ? i : 0]);
		if (i >= TEXTS) {
			r = g;
			r.sink_arg = &at[i - TEXTS];
		}
		if (tandem_submit(t, &r, &x[n++]))
			fail_msg("%s", tandem_error(t));
	}
	for (unsigned i = 0; i < n; i++) {
		if (tandem_wait(t, x[i]))
			fail_msg("%u: %s", i, tandem_request_error(x[i]));
		tandem_request_close(x[i]);
	}
	tandem_stats(t, &after);
	for (unsigned i = 0; i < TEXTS; i++) {
		assert_int_equal(v[i].calls, 1);
		if (memcmp(v[i].value, alone[i].value, sizeof(v[i].value)))
			fail_msg("text %u differs from the same one alone", i);
	}
	for (unsigned i = 0; i < generating; i++)
		assert_memory_equal(written[i], written[2], sizeof(written[2]));
	return after.passes - before.passes;
}

static void many_texts_share_passes(void **state)
{
	struct tandem *t;
	uint64_t passes;

	embed_alone(NULL);
	t = opened("texts=16", NULL, NULL);
	passes = embed_together(t, 0);
	print_message(
		"%d texts, %llu passes\n", TEXTS, (unsigned long long)passes);
	assert_in_range(passes, 1, TEXTS - 1);
	assert_int_equal(tandem_close(t), 0);
}

static void the_bytes_depend_on_no_option_and_no_other_request(void **state)
{
	static const char *const set[][3] = {
		{ "texts=1" },
		{ "texts=1", "keep=2" },
		{ "texts=5", "keep=3" },
		{ "texts=8", "prefill-chunk=7" },
		/* the KV cache has slots (one per token) for the longest text
		 * and few more */
		{ "texts=8", "text-slots=192" },
		{ "texts=4", "method=chain", "draft=pld" },
		{ "texts=3", "method=lever", "draft=pld+recycle" },
		{ "texts=2", "method=sample", "samples=3" },
		{ "texts=1", "method=sample", "samples=3" },
		/* with one text at a time, the requests run one after
		 * another */
		{ "texts=1", "method=chain", "draft=oracle:0.8" },
	};

	embed_alone(NULL);
	for (unsigned i = 0; i < ARRAY_LEN(set); i++) {
		struct tandem *t = opened(set[i][0], set[i][1], set[i][2]);

		print_message("%s %s %s\n", set[i][0],
			set[i][1] ? set[i][1] : "", set[i][2] ? set[i][2] : "");
		embed_together(t, 2);
		assert_int_equal(tandem_close(t), 0);
	}
	embed_alone("prefill-chunk=5");
}

static void a_canceled_request_delivers_nothing(void **state)
{
	struct tandem *t = opened("texts=2", "prefill-chunk=8", NULL);
	int32_t token[MOST];
	size_t n = text_of(7, token);
	struct vector v[2];
	struct tandem_request r = embedding_of(token, n, &v[0]);
	struct tandem_submitted *x[2];

	assert_true(n > 16);
	assert_int_equal(tandem_submit(t, &r, &x[0]), 0);
	r = embedding_of(token, n, &v[1]);
	assert_int_equal(tandem_submit(t, &r, &x[1]), 0);
	assert_int_equal(tandem_advance(t, NULL), 0);
	tandem_request_cancel(x[0]);
	assert_int_equal(tandem_wait(t, x[0]), TANDEM_CANCELED);
	assert_int_equal(tandem_wait(t, x[1]), 0);
	assert_int_equal(v[0].calls, 0);
	assert_int_equal(v[1].calls, 1);
	tandem_request_close(x[0]);
	tandem_request_close(x[1]);
	assert_int_equal(tandem_close(t), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)
static const struct CMUnitTest tests[] = {
	TEST(the_values_are_those_of_the_definition),
	TEST(the_model_file_chooses_the_pooling),
	TEST(other_requests_are_refused),
	TEST(diffusion_models_have_no_embeddings),
	TEST(a_text_gets_an_end_if_the_model_wants_it),
	TEST(many_texts_share_passes),
	TEST(the_bytes_depend_on_no_option_and_no_other_request),
	TEST(a_canceled_request_delivers_nothing),
};
TEST_FILE(tests)
