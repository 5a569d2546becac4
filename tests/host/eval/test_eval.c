/* The figures that an evaluation reports: accuracy, its interval, and the test
 * that compares two runs; and prompts that a model cannot read.
 * tests/cli/eval.sh runs whole evaluations. */
#include "base/checked.h"
#include "base/err.h"
#include "host/api/tandem.h"
#include "host/eval/eval.h"
#include "host/eval/eval_score.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_accuracy(void **state)
{
	static const struct eval_tally none = { 0, 0 }, some = { 3, 8 };

	assert_close(eval_accuracy(&none), 0, 0, "of none");
	assert_close(eval_accuracy(&some), 0.375, 0, "3 of 8");
}

/* Compare the intervals with those that another program computed. */
static void test_interval(void **state)
{
	static const struct {
		struct eval_tally tally;
		double low, high;
	} known[] = {
		{ { 8, 10 }, 0.490162, 0.943318 },
		{ { 0, 10 }, 0, 0.277533 },
		{ { 10, 10 }, 0.722467, 1 },
		{ { 0, 1 }, 0, 0.793451 },
		{ { 100, 200 }, 0.431361, 0.568639 },
		{ { 0, 0 }, 0, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		double low, high;

		eval_interval(&known[i].tally, &low, &high);
		assert_close(low, known[i].low, 1e-6, "low");
		assert_close(high, known[i].high, 1e-6, "high");
	}
}

/*
 * The bounds of the interval are, by definition, the shares p from which the
 * measured share is 1.96 standard deviations sqrt(p (1 - p) / n) away.
 */
static void test_interval_bounds(void **state)
{
	for (uint64_t n = 1; n < 300; n = n * 3 + 1) {
		for (uint64_t right = 1; right < n; right++) {
			struct eval_tally t = { right, n };
			double p = (double)right / (double)n, low, high;

			eval_interval(&t, &low, &high);
			assert_true(low > 0 && low < p && p < high && high < 1);
			assert_close(
				(p - low) / sqrt(low * (1 - low) / (double)n),
				1.959964, 1e-5, "low");
			assert_close((high - p) /
					sqrt(high * (1 - high) / (double)n),
				1.959964, 1e-5, "high");
		}
	}
}

/* Compare the p-values with exact sums of binomial coefficients. */
static void test_mcnemar(void **state)
{
	static const struct {
		uint64_t a_only, b_only;
		double p;
	} known[] = {
		{ 0, 0, 1 },
		{ 5, 5, 1 },
		{ 0, 5, 0.0625 },
		{ 1, 9, 0.021484375 },
		{ 10, 2, 0.03857421875 },
		{ 30, 60, 0.00206026568096 },
		{ 150, 203, 0.00557018200301 },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		assert_close(eval_mcnemar(known[i].a_only, known[i].b_only),
			known[i].p, 1e-9, "p");
}

/* ---- prompts ------------------------------------------------------------- */

#define N_LETTERS 26

/* A vocabulary of the lower-case letters, without a token for other bytes. */
static void put_letters(struct gguf_writer *w)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
	struct gguf_str token[N_LETTERS];
	int32_t type[N_LETTERS];

	for (unsigned i = 0; i < N_LETTERS; i++) {
		token[i] = (struct gguf_str){ letters + i, 1 };
		type[i] = 1;
	}
	gguf_put_str(w, "tokenizer.ggml.model", "gpt2");
	gguf_put_str(w, "tokenizer.ggml.pre", "gpt-2");
	gguf_put_strs(w, "tokenizer.ggml.tokens", token, N_LETTERS);
	gguf_put_i32s(w, "tokenizer.ggml.token_type", type, N_LETTERS);
	gguf_put_strs(w, "tokenizer.ggml.merges",
		&(const struct gguf_str){ "a b", 3 }, 1);
}

static struct tandem *open_letters(void)
{
	struct model_file file = model_file_tiny;
	struct tandem_options o;
	struct tandem *t;
	char path[4200];

	file.n_vocab = N_LETTERS;
	file.keys = put_letters;
	snprintf(path, sizeof(path), "%s/letters.gguf", harness_tmp());
	model_file_write(&file, path);
	tandem_options_init(&o, sizeof(o));
	o.model = path;
	if (tandem_open(&t, &o))
		fail_msg("%s", tandem_error(NULL));
	return t;
}

static void check_longest(struct tandem *t, const char *prompt,
	uint32_t context, int want, const char *what)
{
	struct eval_item item[] = { { .id = "one", .prompt = "xyz" },
		{ .id = "two", .prompt = prompt } };
	struct eval_items items = { .item = item, .n = 2 };
	uint32_t longest = 7;
	struct err e = { 0 };

	assert_int_equal(eval_longest(t, &items, context, &longest, &e), want);
	if (want && !strstr(e.text, what))
		fail_msg("'%s' lacks '%s'", e.text, what);
	if (!want)
		assert_int_equal(longest, strlen(prompt));
}

static void test_longest(void **state)
{
	struct tandem *t = open_letters();

	check_longest(t, "uvwxy", 6, 0, NULL);
	check_longest(t, "uvwxy", 5, -EFBIG,
		"the prompt of item 'two' has 5 tokens, but the context has "
		"only 5");
	check_longest(t, "uv7", 6, -EILSEQ,
		"item 'two': the vocabulary has no token for byte 0x37");
	tandem_close(t);
}

static void check_solution(struct tandem *t, const char *prompt,
	const char *solution, int want, unsigned byte)
{
	struct eval_item item = { .id = "one", .prompt = prompt };
	struct scored s = { .item = &item, .solution = solution };
	struct scoring sc = { .items = { .item = &item, .n = 1 },
		.scored = &s };
	struct err e = { 0 };
	char what[64];

	snprintf(what, sizeof(what), "has no token for byte 0x%02x", byte);
	assert_int_equal(scoring_tokenize(&sc, t, "n", &e), want);
	if (want && !strstr(e.text, what))
		fail_msg("'%s' lacks '%s'", e.text, what);
	if (!want) {
		/* the steps "un" and "vx" */
		assert_int_equal(s.n_prompt, strlen(prompt));
		assert_int_equal(sc.longest, s.n);
		assert_int_equal(s.n_steps, 2);
		assert_int_equal(s.step_end[0], s.n_prompt + 1);
		assert_int_equal(s.step_end[1], s.n - 1);
	}
	free(s.token);
	free(s.step_end);
	free(s.score);
}

static void test_solutions(void **state)
{
	struct tandem *t = open_letters();

	check_solution(t, "xyz", "unvx", 0, 0);
	check_solution(t, "x8z", "unvx", -EILSEQ, '8');
	check_solution(t, "xyz", "unv9", -EILSEQ, '9');
	tandem_close(t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_accuracy),
	cmocka_unit_test(test_interval),
	cmocka_unit_test(test_interval_bounds),
	cmocka_unit_test(test_mcnemar),
	cmocka_unit_test(test_longest),
	cmocka_unit_test(test_solutions),
};

TEST_FILE(tests)
