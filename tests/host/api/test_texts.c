/*
 * Several texts of a handle: each is what tandem_generate alone makes of its
 * request, whatever runs beside it, and what befalls one stays its own. Pairs
 * are real (TANDEM_NPU).
 */
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "tests/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 8

static char model[5000];

static int setup(void **state)
{
	struct synth_opts o = { .quant = DTYPE_F32, .ffn_down = DTYPE_F32 };
	struct err e = { 0 };

	while (strcmp(shape_names[o.shape], "tiny"))
		o.shape++;
	snprintf(model, sizeof(model), "%s/tiny.gguf", harness_tmp());
	assert_ok(synth_write(model, &o, &e), &e);
	return 0;
}

static struct tandem *opened(const char *const *set)
{
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.set = set;
	if (tandem_open(&t, &o))
		fail_msg("%s", tandem_error(NULL));
	return t;
}

static int keep(void *arg, int32_t id, const char *text, size_t len)
{
	strbuf_add(arg, text, len);
	return 0;
}

/* The i-th of many requests that differ in all there is. */
static struct tandem_request asking(unsigned i, struct strbuf *text)
{
	static const char *const prompt[] = { "Once", "upon a time there was",
		"x", "Hello there, who are you?" };
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.prompt = prompt[i % 4];
	r.max_tokens = 3 + 5 * (i % 3);
	r.flags = i % 2 ? TANDEM_IGNORE_EOS : 0;
	r.temperature = i % 3 ? .9 : 0;
	r.seed = 1 + i;
	r.sink = keep;
	r.sink_arg = text;
	return r;
}

static struct strbuf alone(unsigned i)
{
	struct strbuf text = STRBUF_INIT;
	struct tandem_request r = asking(i, &text);
	struct tandem *t = opened(NULL);

	if (tandem_generate(t, &r, NULL))
		fail_msg("%s", tandem_error(t));
	assert_int_equal(tandem_close(t), 0);
	return text;
}

static void assert_same(const struct strbuf *text, const struct strbuf *wanted)
{
	assert_int_equal(text->len, wanted->len);
	if (wanted->len)
		assert_memory_equal(text->data, wanted->data, wanted->len);
}

static void test_side_by_side(void **state)
{
	static const char *const set[] = { "ctx=256", NULL };
	struct tandem *t = opened(set);
	struct strbuf text[MANY] = { 0 };
	struct tandem_text *x[MANY];
	unsigned left = MANY;

	for (unsigned i = 0; i < MANY; i++) {
		struct tandem_request r = asking(i, &text[i]);

		assert_int_equal(tandem_submit(t, &r, &x[i]), 0);
		assert_int_equal(tandem_text_state(x[i], NULL), 1);
	}
	while (left)
		if (tandem_advance(t, &left))
			fail_msg("%s", tandem_error(t));
	for (unsigned i = 0; i < MANY; i++) {
		struct tandem_result got = { .size = sizeof(got) };
		struct strbuf wanted = alone(i);

		assert_int_equal(tandem_text_state(x[i], &got), 0);
		assert_in_range(got.tokens, 1, 3 + 5 * (i % 3));
		assert_same(&text[i], &wanted);
		tandem_text_close(x[i]);
		strbuf_release(&text[i]);
		strbuf_release(&wanted);
	}
	assert_int_equal(tandem_close(t), 0);
}

/* ---- what is asked ------------------------------------------------------- */

static void test_refused(void **state)
{
	static const char *const set[] = { "ctx=32", NULL };
	struct tandem *t = opened(set);
	struct tandem_request r = asking(0, NULL);
	struct tandem_text *x;
	char prompt[400];

	memset(prompt, 'x', sizeof(prompt) - 1);
	prompt[sizeof(prompt) - 1] = '\0';
	r.prompt = prompt;
	assert_int_equal(tandem_submit(t, &r, &x), TANDEM_MISUSE);
	assert_null(x);
	assert_non_null(strstr(tandem_error(t), "32"));
	r = asking(0, NULL);
	r.logprobs = 21;
	assert_int_equal(tandem_submit(t, &r, &x), TANDEM_MISUSE);
	assert_non_null(strstr(tandem_error(t), "logprobs"));
	r.logprobs = 0;
	r.sink = NULL;
	assert_int_equal(tandem_submit(t, &r, &x), 0);
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_non_null(strstr(tandem_error(t), "under way"));
	tandem_text_close(x);
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	tandem_text_close(NULL);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- log-probabilities --------------------------------------------------- */

struct told {
	unsigned n, ids;
	double sum;
	struct strbuf text;
};

static int take_token(void *arg, const struct tandem_token *token)
{
	struct told *told = arg;
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
	/* Greedy: it is the likeliest. */
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
	struct tandem_request r = asking(3, &text);
	struct told told = { 0 };

	r.token = take_token;
	r.token_arg = &told;
	r.logprobs = 20;
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(told.ids, r.max_tokens);
	assert_true(told.sum < 0);
	assert_same(&told.text, &text);
	strbuf_release(&told.text);
	strbuf_release(&text);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- ends ---------------------------------------------------------------- */

static void test_canceled(void **state)
{
	struct tandem *t = opened(NULL);
	struct strbuf text[3] = { 0 }, wanted = alone(2);
	struct tandem_result got = { .size = sizeof(got) };
	struct tandem_text *x[3];
	unsigned left = 3;

	for (unsigned i = 0; i < 3; i++) {
		struct tandem_request r = asking(i, &text[i]);

		assert_int_equal(tandem_submit(t, &r, &x[i]), 0);
	}
	tandem_text_cancel(x[0]);
	tandem_text_close(x[1]);
	while (left)
		assert_int_equal(tandem_advance(t, &left), 0);
	assert_int_equal(tandem_text_state(x[0], &got), TANDEM_CANCELED);
	assert_int_equal(got.stop, TANDEM_STOP_NONE);
	assert_int_equal(got.passes, 0);
	assert_non_null(strstr(tandem_text_error(x[0]), "canceled"));
	assert_int_equal(text[0].len, 0);
	assert_int_equal(text[1].len, 0);
	assert_int_equal(tandem_text_state(x[2], NULL), 0);
	assert_same(&text[2], &wanted);
	tandem_text_close(x[0]);
	tandem_text_close(x[2]);
	strbuf_release(&text[2]);
	strbuf_release(&wanted);
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_side_by_side, setup),
	cmocka_unit_test_setup(test_refused, setup),
	cmocka_unit_test_setup(test_logprobs, setup),
	cmocka_unit_test_setup(test_canceled, setup),
};

TEST_MAIN(tests)
