/*
 * The logits of sessions on a real device process ($TANDEM_NPU; skipped if
 * unset), compared with those of a reference transformer (reference_model.h)
 * for every architecture and for any division into passes.
 */
#include "base/err.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"

#include <errno.h>
#include <math.h>

static void check_reference(
	struct fixture *f, enum wire_precision precision, double bound)
{
	enum { N = 40 };
	double *want;
	float *got;
	int32_t t[N];
	struct err e = { 0 };

	f->opts.precision = precision;
	open_session(f);
	tokens(f, 1, t, N);
	want = calloc((size_t)N * f->file.n_vocab, sizeof(*want));
	got = calloc(f->file.n_vocab, sizeof(*got));
	ref_logits(f->model->gguf, &f->file, t, N, want);
	/* The prefill graph computes 16 tokens, then passes of varying size
	 * compute the rest. */
	for (uint32_t at = 0, n; at < N; at += n) {
		uint32_t path[TREE_MAX];

		n = at ? 1 + at % 5 : 16;
		n = n > N - at ? N - at : n;
		forward(f, t + at, NULL, n);
		for (uint32_t i = 0; i < n; i++) {
			path[i] = i;
			assert_ok(session_logits(f->s, i, 1, got, &e), &e);
			for (uint32_t v = 0; v < f->file.n_vocab; v++)
				assert_close(got[v],
					want[(at + i) * f->file.n_vocab + v],
					bound, "logit");
		}
		accept(f, path, n);
	}
	free(want);
	free(got);
	pair_close(&f->s);
}

static void test_llama_is_the_definition(void **state)
{
	struct fixture *f = *state;

	check_reference(f, WIRE_F32, 2e-5);
	check_reference(f, WIRE_F16, 5e-3);
	check_reference(f, WIRE_F16_KV16, 1e-2);
}

static void test_llama3_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.rope_freqs = true;
	/* more layers than blocks, so some blocks have two layers */
	f->file.n_layer = 7;
	check_reference(f, WIRE_F32, 1e-4);
}

static void test_qwen2_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "qwen2";
	f->file.bias = f->file.tied = true;
	check_reference(f, WIRE_F32, 2e-5);
}

static void test_qwen3_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "qwen3";
	f->file.qk_norm = true;
	f->file.head_dim = 16;
	f->file.n_kv_head = 1;
	f->file.type = DTYPE_Q8_0;
	check_reference(f, WIRE_F32, 2e-5);
}

static void with_experts(struct fixture *f, const char *arch)
{
	f->file.arch = arch;
	f->file.n_expert = 8;
	f->file.n_used = 3;
	f->file.n_ff = 32;
	check_reference(f, WIRE_F32, 2e-5);
}

static void test_mixtral_is_the_definition(void **state)
{
	with_experts(*state, "llama");
}

static void test_qwen3moe_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.qk_norm = true;
	f->file.head_dim = 16;
	f->file.type = DTYPE_Q8_0;
	with_experts(f, "qwen3moe");
}

static void test_olmoe_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.qk_norm = true;
	with_experts(f, "olmoe");
}

static void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 1);
}

/* The largest difference between the logits of n rows, each of which attends to
 * all n, and the logits of the reference transformer. */
static double masked_error(struct fixture *f, const int32_t *t, uint32_t n)
{
	uint32_t n_vocab = f->file.n_vocab;
	double *want = calloc((size_t)n * n_vocab, sizeof(*want)), most = 0;
	float *got = calloc(n_vocab, sizeof(*got));
	struct err e = { 0 };

	ref_logits(f->model->gguf, &f->file, t, n, want);
	forward(f, t, NULL, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_ok(session_logits(f->s, i, 1, got, &e), &e);
		for (uint32_t v = 0; v < n_vocab; v++)
			most = fmax(most,
				fabs((double)got[v] - want[i * n_vocab + v]));
	}
	free(want);
	free(got);
	return most;
}

/* Check lengths whose visibility masks are shorter and longer than a machine
 * word. */
static void check_masked(struct fixture *f, unsigned levels)
{
	static const uint32_t n[] = { 1, 2, 40, 64, 65, 100 };
	static const struct {
		enum wire_precision precision;
		double bound;
	} level[] = { { WIRE_F32, 2e-5 }, { WIRE_F16, 1e-2 },
		{ WIRE_F16_KV16, 2e-2 } };
	int32_t t[100];

	f->file.keys = put_mask;
	f->opts.decode_rows = 100;
	tokens(f, 20, t, 100);
	for (unsigned l = 0; l < levels; l++) {
		double most = 0;

		f->opts.precision = level[l].precision;
		open_session(f);
		for (unsigned i = 0; i < 6; i++)
			most = fmax(most, masked_error(f, t, n[i]));
		print_message("largest difference %g\n", most);
		assert_close(most, 0, level[l].bound, "difference");
		pair_close(&f->s);
	}
}

static void test_qwen2moe_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.bias = true;
	f->file.n_shared = 96;
	with_experts(f, "qwen2moe");
}

static void test_llada_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "llada";
	check_masked(f, 3);
}

static void test_llada_moe_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "llada-moe";
	f->file.qk_norm = true;
	f->file.n_expert = 8;
	f->file.n_used = 3;
	f->file.n_ff = 32;
	/* Compare only in float32: with values rounded to fp16, a row may
	 * choose another expert. */
	check_masked(f, 1);
}

static void test_dream_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "dream";
	f->file.bias = true;
	check_masked(f, 3);
}

static void test_llada_has_no_trees(void **state)
{
	struct fixture *f = *state;
	static const int32_t token[] = { 3, 4 }, parent[] = { -1, 0 };
	struct err e = { 0 };

	f->file.arch = "llada";
	f->file.keys = put_mask;
	open_session(f);
	assert_ptr_equal(session_model(f->s), f->model);
	assert_int_equal(pair_tree(f->s, token, parent, 2, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text, "cannot compute a token tree"));
	forward(f, token, NULL, 2);
	pair_close(&f->s);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_llama_is_the_definition),
	TEST(test_llama3_is_the_definition),
	TEST(test_qwen2_is_the_definition),
	TEST(test_qwen3_is_the_definition),
	TEST(test_mixtral_is_the_definition),
	TEST(test_qwen3moe_is_the_definition),
	TEST(test_olmoe_is_the_definition),
	TEST(test_qwen2moe_is_the_definition),
	TEST(test_llada_is_the_definition),
	TEST(test_llada_moe_is_the_definition),
	TEST(test_dream_is_the_definition),
	TEST(test_llada_has_no_trees),
};

TEST_FILE(tests)
