/* Callbacks of requests, results of requests, and the prefix cache that later
 * requests reuse. */
#include "tests/host/api/many_texts.h"

#include <math.h>

/* ---- log-probabilities --------------------------------------------------- */

struct notes {
	unsigned n, ids;
	double sum;
	struct strbuf text;
};

static int take_token(void *arg, const struct tandem_token *token)
{
	struct notes *told = arg;
	double sum = 0;

	assert_int_equal(token->size, sizeof(*token));
	strbuf_add(&told->text, token->text, token->bytes);
	told->n++;
	if (token->id < 0)
		return 0;
	told->ids++;
	assert_int_equal(token->n_top, 20);
	for (unsigned i = 0; i < token->n_top; i++) {
		const struct tandem_likely *l = &token->top[i];

		sum += exp((double)l->logprob);
		assert_true(!i || l[-1].logprob >= l->logprob);
		assert_non_null(l->text);
	}
	/* The drawn token is the likeliest token, because decoding is
	 * greedy. */
	assert_int_equal(token->id, token->top[0].id);
	assert_true(token->logprob == token->top[0].logprob);
	assert_true(sum <= 1.0001);
	told->sum += (double)token->logprob;
	return 0;
}

static void test_logprobs(void **state)
{
	struct tandem *t = opened(NULL);
	struct strbuf text = STRBUF_INIT;
	struct tandem_request r = asking(9, &text);
	struct notes told = { 0 };

	r.token = take_token;
	r.token_arg = &told;
	r.logprobs = 20;
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(told.ids, r.max_tokens);
	assert_true(told.sum < 0);
	assert_int_equal(told.text.len, text.len);
	assert_memory_equal(told.text.data, text.data, text.len);
	strbuf_release(&told.text);
	strbuf_release(&text);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- results of requests ------------------------------------------------- */

/* On a handle with one lane (it runs one request at a time), a submitted
 * request needs the same phone time (simulated time) as a call of
 * tandem_generate. On a handle with several lanes, each request is charged its
 * share of the passes' time. */
static void test_results(void **state)
{
	static const char *const one[] = { "ctx=256",
		"clock=soc:tensor/soc/sd8gen3.soc", NULL };
	static const char *const two[] = { "ctx=256", "texts=2",
		"clock=soc:tensor/soc/sd8gen3.soc", NULL };
	struct tandem_result alone = { .size = sizeof(alone) }, got = alone;
	struct tandem_request r = asking(1, NULL);
	struct tandem *t = opened(one);
	struct tandem_submitted *x, *y;
	unsigned left = 1;

	r.sink = NULL;
	assert_int_equal(tandem_generate(t, &r, &alone), 0);
	assert_int_equal(tandem_submit(t, &r, &x), 0);
	while (left)
		assert_int_equal(tandem_advance(t, &left), 0);
	assert_int_equal(tandem_request_state(x, &got), 0);
	assert_int_equal(got.stop, alone.stop);
	assert_int_equal(got.passes, alone.passes);
	assert_int_equal(got.tokens, alone.tokens);
	assert_int_equal(got.prompt_tokens, alone.prompt_tokens);
	assert_close(got.phone_seconds, alone.phone_seconds, 1e-9, "seconds");
	assert_close(got.phone_joules, alone.phone_joules, 1e-9, "joules");
	assert_true(got.seconds_prompt > 0 && got.seconds > got.seconds_prompt);
	tandem_request_close(x);
	assert_int_equal(tandem_close(t), 0);

	t = opened(two);
	assert_int_equal(tandem_submit(t, &r, &x), 0);
	assert_int_equal(tandem_submit(t, &r, &y), 0);
	for (left = 2; left;)
		assert_int_equal(tandem_advance(t, &left), 0);
	assert_int_equal(tandem_request_state(x, &got), 0);
	assert_int_equal(got.passes, alone.passes);
	assert_true(got.phone_joules > 0);
	assert_true(got.phone_joules < 1.1 * alone.phone_joules);
	tandem_request_close(x);
	tandem_request_close(y);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- prefix cache -------------------------------------------------------- */

/* number of tokens that a turn adds to the prompt, and number of tokens of an
 * answer */
#define TURN 12

struct talk {
	int32_t id[8 * TURN];
	size_t n;
};

static int take_id(void *arg, int32_t id, const char *text, size_t len)
{
	struct talk *k = arg;

	if (id >= 0)
		k->id[k->n++] = id;
	return 0;
}

/* Take one turn of the conversation: append some tokens to the prompt, then
 * generate the answer. Returns the number of prompt tokens that the prefix
 * cache had. */
static uint64_t take_turn(
	struct tandem *t, struct talk *k, unsigned turn, bool submits)
{
	struct tandem_result got = { .size = sizeof(got) };
	struct tandem_request r = asking(1, NULL);
	struct tandem_submitted *x;
	unsigned left = 1;

	for (unsigned i = 0; i < TURN; i++)
		k->id[k->n++] = (int32_t)(3 + 17 * turn + 5 * i) % 200;
	r.tokens = k->id;
	r.n_tokens = k->n;
	r.max_tokens = TURN;
	r.sink = take_id;
	r.sink_arg = k;
	if (!submits) {
		assert_int_equal(tandem_generate(t, &r, &got), 0);
		return got.cached_tokens;
	}
	assert_int_equal(tandem_submit(t, &r, &x), 0);
	while (left)
		assert_int_equal(tandem_advance(t, &left), 0);
	assert_int_equal(tandem_request_state(x, &got), 0);
	tandem_request_close(x);
	return got.cached_tokens;
}

static void check_talk(const char *method, bool submits)
{
	const char *const set[] = { "ctx=256", "keep=2", "draft=pld", method,
		NULL };
	struct tandem *t = opened(set), *plain = opened(NULL);
	struct talk k = { 0 }, alone = { 0 };

	for (unsigned turn = 0; turn < 3; turn++) {
		size_t before = k.n;
		uint64_t cached = take_turn(t, &k, turn, submits);

		assert_int_equal(take_turn(plain, &alone, turn, false), 0);
		assert_int_equal(k.n, alone.n);
		assert_memory_equal(k.id, alone.id, k.n * sizeof(*k.id));
		/* At most the last two of the earlier tokens are not cached.
		 * For example, the last token of an answer has not been an
		 * input of a pass. */
		assert_in_range(cached, before ? before - 2 : 0, before);
	}
	assert_int_equal(tandem_close(t), 0);
	assert_int_equal(tandem_close(plain), 0);
}

static void test_conversation(void **state)
{
	check_talk("method=chain", false);
	check_talk("method=opt-tree", false);
	check_talk("method=chain", true);
	check_talk("texts=2", true);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_logprobs, setup),
	cmocka_unit_test_setup(test_results, setup),
	cmocka_unit_test_setup(test_conversation, setup),
};

TEST_FILE(tests)
