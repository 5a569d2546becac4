/*
 * Every method for causal models on a fake device
 * (tests/host/npu/fake_device.h). Plain decoding must match a reference
 * transformer (reference_model.h). The text of every other method must equal
 * that of plain decoding, wherever the draft model runs, with streamed layers,
 * and with rows pruned in the middle of the model. If the device is lost or
 * gives an invalid answer, the text ends with an error, and all tokens before
 * the error are correct.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/method/methods.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/method/drafted_text.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/npu/fake_device.h"

#include <math.h>

static struct fake fake;

static int setup_fake(void **state)
{
	struct fixture *f;

	setup(state);
	f = *state;
	fake_init(&fake);
	f->w.opts.npu = &fake.ops;
	f->w.opts.layout = LAYOUT_ROWS;
	return 0;
}

static void open_all(struct fixture *f)
{
	open_models(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
}

/* Check that each token of the text has the largest logit of the reference
 * transformer, unless the choice was within rounding error. */
static void check_reference(const struct fixture *f, const struct text *t)
{
	static double logits[REF_MAX_TOKENS][N_VOCAB];
	struct model_file file = model_file_tiny;

	file.n_vocab = N_VOCAB;
	file.n_layer = 4;
	ref_logits(f->w.model[SAME]->gguf, &file, t->token, (unsigned)t->n,
		logits[0]);
	for (size_t i = N_PROMPT; i < t->n; i++) {
		const double *l = logits[i - 1];
		double most = -INFINITY;

		for (unsigned v = 0; v < N_VOCAB; v++)
			most = l[v] > most ? l[v] : most;
		if (l[t->token[i]] < most - 2e-5)
			fail_msg("token %zu has logit %g, and there is %g", i,
				l[t->token[i]], most);
	}
}

static void test_plain_decoding_matches_definition(void **state)
{
	struct fixture *f = *state;

	open_all(f);
	assert_int_equal(f->plain.n, N_PROMPT + f->w.n_predict);
	check_reference(f, &f->plain);
}

static void test_streamed_layers_change_nothing(void **state)
{
	struct fixture *f = *state;
	struct method_env none = { 0 };
	struct text got;

	open_all(f);
	pair_close(&f->w.s);
	image_file_open(&f->image, f->w.model[SAME], 0);
	f->w.opts.layout = LAYOUT_DEFAULT;
	for (unsigned i = 0; i < 4; i++) {
		f->w.opts.dram_share = i * .25;
		open_session(f, f->image.model);
		writer_write(&f->w, &method_flash_ar, &none, &got);
		text_same(&got, &f->plain, "flash-ar");
		pair_close(&f->w.s);
	}
	f->w.opts.dram_share = .5;
	open_session(f, f->image.model);
	check_methods(f, BATCHED, COARSE);
	end_texts(f);
}

static void test_drafts_change_nothing(void **state)
{
	struct fixture *f = *state;

	open_all(f);
	check_reference(f, &f->plain);
	check_places(f);
	end_texts(f);
}

static void test_drafts_change_no_sampled_text(void **state)
{
	struct fixture *f = *state;

	f->w.sampling.temperature = .8;
	open_all(f);
	check_places(f);
	end_texts(f);
}

static void test_pruning_changes_nothing(void **state)
{
	static const double threshold[] = { .05, .2, 2 };
	struct fixture *f = *state;

	f->prune = true;
	open_all(f);
	open_exit(f);
	for (unsigned i = 0; i < ARRAY_LEN(threshold); i++) {
		f->threshold = threshold[i];
		for (enum place p = 0; p < N_PLACES; p++) {
			struct drafting d;

			open_drafting(f, &d, p, COARSE);
			check_text(f, &method_lever, &d);
			close_drafting(&d);
		}
	}
	assert_true(f->sum.kept < f->sum.drafted + f->sum.cycles);
	pair_close(&f->w.s);
}

/* ---- failing devices ----------------------------------------------------- */

static unsigned forged_at;

static void answers_another(
	struct fake *of, const void *request, struct fake_answer *a)
{
	if (of->answered == forged_at)
		a->done.op = WIRE_NOP;
}

/* Generate a text by one method until the text ends or fails, and check that
 * its tokens are those of plain decoding. */
static int write_some(struct fixture *f, const struct method *m,
	struct drafter *drafter, struct err *e)
{
	struct method_env env = { .drafter = drafter };
	struct sampler *sampler;
	struct generation *g;
	const int32_t *token;
	struct err none = { 0 };
	size_t n;
	int ret;

	assert_ok(
		sampler_open(&sampler, &f->w.sampling, N_VOCAB, &none), &none);
	assert_ok(method_open(&env, m, f->w.model[SAME], &none), &none);
	env.drafter = drafter;
	g = writer_begin(&f->w, sampler);
	session_truncate(f->w.s, SESSION_TEXT, 0);
	ret = method_run(f->w.s, g, &env, e);
	token = gen_tokens(g, &n);
	assert_true(n <= f->plain.n);
	assert_memory_equal(token, f->plain.token, n * sizeof(*token));
	method_close(&env);
	generation_close(g);
	sampler_close(sampler);
	return ret;
}

/* Let the device fail at answer number `forged_at`. Returns true if the failure
 * came before the text's end. */
static bool ends_early(struct fixture *f, const struct method *m, bool lost)
{
	struct err e = { 0 };
	struct drafting d = { 0 };
	int ret;

	fake.forge = NULL;
	fake.lives = 0;
	open_session(f, f->w.model[SAME]);
	open_drafting(f, &d, ORACLE, 0);
	fake.answered = 0;
	if (lost)
		fake.lives = forged_at;
	else
		fake.forge = answers_another;
	ret = write_some(f, m, m->needs_draft ? &d.watched.inner : NULL, &e);
	if (ret && lost) {
		assert_int_equal(ret, -ERR_DEVICE_LOST);
		assert_string_equal(e.text, "the fake device is lost");
	} else if (ret) {
		assert_int_equal(ret, -ERR_DEVICE_LOST);
		assert_non_null(strstr(e.text, "to operation 1 (nop)"));
	}
	close_drafting(&d);
	session_close(f->w.s, NULL);
	f->w.s = NULL;
	return ret != 0;
}

static void test_failing_device_ends_the_text(void **state)
{
	struct fixture *f = *state;

	open_all(f);
	pair_close(&f->w.s);
	for (unsigned m = 0; m <= N_METHODS; m++) {
		const struct method *method =
			m < N_METHODS ? verifying[m] : &method_autoregressive;

		for (unsigned lost = 0; lost < 2; lost++) {
			forged_at = 1;
			while (ends_early(f, method, lost))
				forged_at += 9;
			assert_true(forged_at > 9);
		}
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup_fake, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_plain_decoding_matches_definition),
	TEST(test_streamed_layers_change_nothing),
	TEST(test_drafts_change_nothing),
	TEST(test_drafts_change_no_sampled_text),
	TEST(test_pruning_changes_nothing),
	TEST(test_failing_device_ends_the_text),
};

TEST_FILE(tests)
