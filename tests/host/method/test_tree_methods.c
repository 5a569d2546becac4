/*
 * The methods that verify drafted trees, on a real device process ($TANDEM_NPU;
 * skipped if unset). The text equals plain decoding token for token, with every
 * drafter on the host and on the device, for greedy and sampled texts, and for
 * every size of tree.
 */
#include "base/checked.h"
#include "host/scheduler/method.h"
#include "host/scheduler/tree_options.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/method/drafted_text.h"
#include "tests/host/session/pair.h"

static void test_greedy(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	for (enum place p = 0; p < ORACLE; p++)
		for (int draft = 0; draft < N_DRAFTS; draft++)
			check_methods(f, p, draft);
	check_methods(f, ORACLE, 0);
	end_texts(f);
}

static void test_greedy_in_int8(void **state)
{
	struct fixture *f = *state;

	f->w.opts.precision = WIRE_INT8;
	open_models(f);
	open_session(f, f->w.model[SAME]);
	check_places(f);
	end_texts(f);
}

static void test_sampled(void **state)
{
	struct fixture *f = *state;

	f->w.sampling.temperature = 0.3;
	open_models(f);
	open_session(f, f->w.model[SAME]);
	for (f->w.sampling.seed = 1; f->w.sampling.seed <= 2;
		f->w.sampling.seed++)
		check_places(f);
	f->w.sampling.temperature = 1;
	f->w.sampling.top_k = 3;
	check_places(f);
	end_texts(f);
}

/* The penalty depends on the text before each token of a path. */
static void test_repeat_penalty(void **state)
{
	struct fixture *f = *state;

	f->w.sampling.repeat_penalty = 1.5;
	f->w.sampling.repeat_last = 20;
	open_models(f);
	open_session(f, f->w.model[SAME]);
	check_places(f);
	end_texts(f);
}

/* With biases and penalties the text must differ from the text without them,
 * and must equal plain decoding with the same biases and penalties. */
static void test_biases(void **state)
{
	struct token_bias bias[] = { { 0, 1.5f }, { 0, -100 }, { 0, -2 } };
	struct fixture *f = *state;
	struct text unbiased;

	open_models(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	unbiased = f->plain;
	bias[1].id = unbiased.token[N_PROMPT];
	bias[2].id = unbiased.token[N_PROMPT + 1];
	f->w.sampling.bias = bias;
	f->w.sampling.n_bias = ARRAY_LEN(bias);
	f->w.sampling.presence_penalty = 0.25;
	f->w.sampling.frequency_penalty = 0.125;
	check_places(f);
	assert_int_not_equal(
		f->plain.token[N_PROMPT], unbiased.token[N_PROMPT]);
	for (size_t i = N_PROMPT; i < f->plain.n; i++)
		assert_int_not_equal(f->plain.token[i], bias[1].id);
	f->w.sampling.temperature = 0.3;
	check_places(f);
	end_texts(f);
}

/* The model's layers are streamed from flash, and reads continue between
 * passes. */
static void test_streamed(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	image_file_open(&f->image, f->w.model[SAME], 0);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	pair_close(&f->w.s);
	for (unsigned i = 0; i < 3; i++) {
		f->w.opts.dram_share = i * .25;
		f->w.opts.stage_slots = 2 + i;
		open_session(f, f->image.model);
		for (enum place p = 0; p < N_PLACES; p++)
			check_methods(f, p, COARSE);
		pair_close(&f->w.s);
	}
}

static void test_sizes_of_trees(void **state)
{
	static const uint32_t sizes[] = { 2, 3, 4, 5, 8, 13, 32, 63, ROWS };
	struct fixture *f = *state;

	open_models(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		f->tree_rows = sizes[i];
		f->depth = 1 + i % 3 * 6;
		f->candidates = 1 + i * 15 / 8;
		f->stop_rule = i % 2;
		check_methods(f, BATCHED, i % 2 ? COARSE : SAME);
		check_methods(f, ORACLE, 0);
	}
	end_texts(f);
}

/* Trees may have as many rows as passes with streamed layers allow. Some
 * methods must use all of these rows. */
static void test_largest_trees(void **state)
{
	struct fixture *f = *state;
	struct drafting d;
	uint32_t most, filled = 0;

	f->w.opts.decode_rows = TREE_ROWS_STREAMED;
	f->w.opts.context = N_PROMPT + TREE_ROWS_STREAMED - 20;
	f->w.opts.dram_share = 0;
	f->streams = true;
	f->tree_rows = TREE_ROWS_MOST;
	f->depth = TREE_DEPTH_WEIGHED;
	f->candidates = TREE_CANDIDATES;
	f->w.n_predict = 64;
	open_models(f);
	image_file_open(&f->image, f->w.model[SAME], 0);
	open_session(f, f->image.model);
	write_plain(f);
	open_drafting(f, &d, BATCHED, COARSE);
	/* After the prompt, the context has room for 20 rows fewer than a pass
	 * may have, so the context limits the trees. */
	most = session_context(f->w.s) - N_PROMPT;
	for (unsigned m = 0; m < N_METHODS; m++) {
		check_text(f, verifying[m], &d);
		filled += f->most == most;
	}
	assert_true(filled > 0);
	/* Default tree sizes of lever. */
	assert_int_equal(method_lever.decode_rows(
				 &(struct method_env){ .streams = true }),
		TREE_ROWS_STREAMED);
	assert_int_equal(
		method_lever.decode_rows(&(struct method_env){ 0 }), TREE_ROWS);
	/* Default tree sizes of a method that does not weigh the cost of
	 * rows. */
	assert_int_equal(method_opt_tree.decode_rows(
				 &(struct method_env){ .streams = true }),
		TREE_ROWS);
	assert_int_equal(method_opt_tree.decode_rows(&(struct method_env){ 0 }),
		TREE_ROWS_CPU);
	close_drafting(&d);
	end_texts(f);
}

/* The state after a first text must not affect the second text. */
static void test_second_text_is_independent(void **state)
{
	struct fixture *f = *state;
	struct drafting d;

	open_models(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	for (enum place p = 0; p < ORACLE; p++) {
		open_drafting(f, &d, p, COARSE);
		for (unsigned i = 0; i < 2; i++) {
			f->w.sampling.temperature = 1 - i;
			write_plain(f);
			for (unsigned m = 0; m < N_METHODS; m++)
				check_text(f, verifying[m], &d);
		}
		close_drafting(&d);
	}
	end_texts(f);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_greedy),
	TEST(test_greedy_in_int8),
	TEST(test_sampled),
	TEST(test_repeat_penalty),
	TEST(test_biases),
	TEST(test_streamed),
	TEST(test_sizes_of_trees),
	TEST(test_largest_trees),
	TEST(test_second_text_is_independent),
};

TEST_FILE(tests)
