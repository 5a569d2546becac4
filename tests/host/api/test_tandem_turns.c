/* Conversations, and texts that must match a JSON schema, through tandem.h. */
#include "base/err.h"
#include "host/api/report.h"
#include "host/text/tokenizer.h"
#include "tests/host/api/opened_tandem.h"

#include <stdlib.h>

/* ---- conversations ------------------------------------------------------- */

struct ids {
	int32_t id[64];
	size_t n;
};

static int keep_ids(void *arg, int32_t id, const char *text, size_t len)
{
	struct ids *ids = arg;

	if (id >= 0 && ids->n < 64)
		ids->id[ids->n++] = id;
	return 0;
}

static struct tandem_request conversing(
	const struct tandem_turn *turns, size_t n)
{
	struct tandem_request r = asking(NULL, 20);

	r.flags = TANDEM_CHAT;
	r.turns = turns;
	r.n_turns = n;
	return r;
}

static struct token_list prompt_of(
	struct tandem *t, const struct tandem_request *r)
{
	struct token_list l = { 0 };
	struct err e = { 0 };

	assert_ok(tandem_prompt_tokens(t, r, &l.id, &l.n, &e), &e);
	return l;
}

static size_t times_in(const struct token_list *l, int32_t id)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += l->id[i] == id;
	return n;
}

/*
 * The prompt of a turn must begin with the tokens of the previous turn's prompt
 * and of its answer. At a high temperature the answer's tokens are
 * seldom those that its text would be tokenized to, so the test fails if the
 * library tokenizes the text again.
 */
static void test_turns(void **state)
{
	struct tandem *t = opened(NULL, NULL);
	struct tandem_turn turn[] = { { .role = "system", .text = "Be kind." },
		{ .role = "user", .text = " Hello " }, { .role = "assistant" },
		{ .role = "user", .text = "More<|eot_id|>?" } };
	struct tandem_result got = { .size = sizeof(got) };
	struct tandem_request r = conversing(turn, 2);
	struct token_list first, next;
	struct ids answer = { 0 };
	int32_t end;

	r.temperature = 5;
	r.sink = keep_ids;
	r.sink_arg = &answer;
	first = prompt_of(t, &r);
	if (tandem_generate(t, &r, &got))
		fail_msg("%s", tandem_error(t));
	assert_int_equal(got.prompt_tokens, first.n);
	assert_int_equal(got.tokens, answer.n);
	assert_in_range(answer.n, 1, 20);

	turn[2].tokens = answer.id;
	turn[2].n_tokens = answer.n;
	r = conversing(turn, 4);
	next = prompt_of(t, &r);
	assert_true(next.n > first.n + answer.n);
	assert_memory_equal(next.id, first.id, first.n * sizeof(*first.id));
	assert_memory_equal(
		next.id + first.n, answer.id, answer.n * sizeof(*answer.id));
	/* Four end-of-turn tokens come from the template. The text <|eot_id|>
	 * in the user's turn is not converted to the special token. */
	assert_int_equal(tandem_tokenize(t, "<|eot_id|>", 10,
				 TANDEM_SPECIAL | TANDEM_NO_BOS, &end, 1),
		1);
	assert_int_equal(times_in(&next, end), 4);
	free(first.id);
	free(next.id);
	assert_int_equal(tandem_close(t), 0);
}

/* The token that ended an answer is in the next prompt only once. */
static void test_turns_ended(void **state)
{
	struct tandem *t = opened(NULL, NULL);
	struct tandem_turn turn[] = { { .role = "user", .text = "a" },
		{ .role = "assistant", .text = "b" },
		{ .role = "user", .text = "c" } };
	struct tandem_request r = conversing(turn, 3);
	struct token_list by_text = prompt_of(t, &r), by_tokens;
	int32_t answer[2];

	assert_int_equal(tandem_tokenize(t, "b<|eot_id|>", 11,
				 TANDEM_SPECIAL | TANDEM_NO_BOS, answer, 2),
		2);
	turn[1].tokens = answer;
	for (turn[1].n_tokens = 1; turn[1].n_tokens <= 2; turn[1].n_tokens++) {
		by_tokens = prompt_of(t, &r);
		assert_int_equal(by_tokens.n, by_text.n);
		assert_memory_equal(by_tokens.id, by_text.id,
			by_text.n * sizeof(*by_text.id));
		free(by_tokens.id);
	}
	/* A conversation of one turn, with or without a system turn, gives the
	 * prompt that r.prompt and r.system give. */
	turn[0].role = "system";
	r = conversing(turn, 1);
	r.turns = NULL;
	r.n_turns = 0;
	r.system = "a";
	r.prompt = "c";
	by_tokens = prompt_of(t, &r);
	free(by_text.id);
	turn[1] = turn[2];
	r = conversing(turn, 2);
	by_text = prompt_of(t, &r);
	assert_int_equal(by_tokens.n, by_text.n);
	assert_memory_equal(
		by_tokens.id, by_text.id, by_text.n * sizeof(*by_text.id));
	free(by_tokens.id);
	free(by_text.id);
	assert_int_equal(tandem_close(t), 0);
}

static void test_bad_turns(void **state)
{
	struct tandem *t = opened(NULL, NULL);
	const int32_t id = 5;
	struct tandem_turn turn[] = { { .role = "user", .text = "a" },
		{ .role = "assistant", .text = "b" } };
	struct tandem_request r = conversing(turn, 2);

	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "ends with an assistant turn");
	r = conversing(turn, 0);
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	r = conversing(turn, 1);
	r.flags = 0;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "TANDEM_CHAT");
	r = conversing(turn, 1);
	r.system = "x";
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "turns replace them");
	r = conversing(turn, 1);
	turn[0].tokens = &id;
	turn[0].n_tokens = 1;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "only an assistant turn");
	turn[0] = (struct tandem_turn){ .role = "user" };
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "turn 1 has no text");
	turn[0].role = "boss";
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "'boss'");
	assert_int_equal(tandem_close(t), 0);
}

/* ---- a schema ------------------------------------------------------------ */

static void test_schema(void **state)
{
	struct tandem *t = opened("method=chain", "draft=pld");
	struct tandem_request r = asking("x", 60);
	struct tandem_result got = { .size = sizeof(got) };
	struct strbuf text = STRBUF_INIT;

	r.flags = 0;
	r.json_schema = "{\"enum\":[\"yes\",\"no\"]}";
	r.sink = keep;
	r.sink_arg = &text;
	for (r.seed = 1; r.seed < 4; r.seed++) {
		const char *s;

		r.temperature = 1;
		strbuf_reset(&text);
		assert_int_equal(tandem_generate(t, &r, &got), 0);
		assert_int_equal(got.stop, TANDEM_STOP_EOS);
		s = text.data + strspn(text.data, " \n\r\t");
		assert_true(!strcmp(s, "\"yes\"") || !strcmp(s, "\"no\""));
	}
	strbuf_release(&text);
	r.flags = TANDEM_IGNORE_EOS;
	assert_int_equal(tandem_generate(t, &r, &got), TANDEM_MISUSE);
	assert_says(t, "TANDEM_IGNORE_EOS");
	r.flags = 0;
	r.json_schema = "{\"not\":{}}";
	assert_int_equal(tandem_generate(t, &r, &got), TANDEM_MISUSE);
	assert_says(t, "the keyword 'not'");
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_turns, setup),
	cmocka_unit_test_setup(test_turns_ended, setup),
	cmocka_unit_test_setup(test_bad_turns, setup),
	cmocka_unit_test_setup(test_schema, setup),
};

TEST_FILE(tests)
