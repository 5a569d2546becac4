/*
 * The exact reward of an item: every step of a text gets 1 if the whole text
 * has the right answer, else 0.
 */
#include "base/err.h"
#include "host/eval/eval_items.h"
#include "host/eval/eval_reward.h"
#include "host/head/reward.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct eval_item item = { .answer = " The answer is 101.",
	.check = EVAL_NUMBER };

/* Score a solution, whose words follow a prompt of one token. */
static void check(const struct tokenizer *tok, const char *words, float want)
{
	struct eval_exact x = { &item, tok };
	struct token_list list = { 0 };
	struct err e = { 0 };
	float score[2] = { -1, -1 };
	uint32_t end[2];
	struct reward_text t = {
		.n_prompt = 1, .step_end = end, .n_steps = 2, .score = score
	};

	assert_int_equal(token_list_add(&list, tokenizer_bos(tok)), 0);
	assert_ok(
		tokenize(tok, words, strlen(words), 0, NULL, 0, &list, &e), &e);
	t.token = list.id;
	t.n = list.n;
	end[0] = 1;
	end[1] = (uint32_t)list.n - 1;
	assert_ok(eval_exact_score(&x, &t, 1, &e), &e);
	for (unsigned k = 0; k < 2; k++)
		assert_close((double)score[k], (double)want, 0, words);
	free(list.id);
}

/* A token that the vocabulary lacks has no text, so no answer is marked. */
static void check_no_token(const struct tokenizer *tok)
{
	struct eval_exact x = { &item, tok };
	int32_t token[] = { tokenizer_bos(tok),
		(int32_t)tokenizer_n_vocab(tok) };
	uint32_t end[] = { 1 };
	float score[] = { -1 };
	struct reward_text t = { .token = token,
		.n = 2,
		.n_prompt = 1,
		.step_end = end,
		.n_steps = 1,
		.score = score };
	struct err e = { 0 };

	assert_int_equal(eval_exact_score(&x, &t, 1, &e), -EINVAL);
	assert_string_equal(
		e.text, "cannot convert the tokens of a sample to text");
	assert_close((double)score[0], -1, 0, "no score");
}

static void test_marks(void **state)
{
	struct tokenizer *tok;
	struct err e = { 0 };
	struct gguf *g;

	assert_ok(gguf_open(&g, "flash/models/target.gguf", &e), &e);
	assert_ok(tokenizer_open(&tok, g, &e), &e);
	check(tok, " 108 - 7 = 101.\nThe answer is 101.", 1);
	check(tok, " 108 - 7 = 102.\nThe answer is 102.", 0);
	check(tok, " 101 is not 1.", 0);
	check(tok, " nothing", 0);
	check_no_token(tok);
	tokenizer_close(tok);
	gguf_close(g);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_marks),
};

TEST_FILE(tests)
