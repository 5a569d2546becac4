/*
 * Logit biases and penalties through tandem.h. A method that generates the text
 * of plain decoding must also do so with the same biases and penalties, when a
 * request runs alone and when requests share passes (runs of the model).
 * Reported log-probabilities are those of the model, without biases and
 * penalties.
 */
#include "base/checked.h"
#include "tests/host/api/opened_tandem.h"

#include <math.h>
#include <stdlib.h>

#define TOKENS 48

struct text {
	int32_t id[TOKENS];
	double logprob[TOKENS];
	unsigned n;
};

static int keep_token(void *arg, const struct tandem_token *token)
{
	struct text *text = arg;

	assert_in_range(text->n, 0, TOKENS - 1);
	text->id[text->n] = token->id;
	text->logprob[text->n++] = (double)token->logprob;
	return 0;
}

static struct tandem_request biased(
	const struct tandem_bias *bias, size_t n, struct text *text)
{
	struct tandem_request r = asking("Once upon a time", TOKENS);

	r.bias = bias;
	r.n_bias = n;
	r.presence_penalty = n ? 0.5 : 0;
	r.frequency_penalty = n ? 0.25 : 0;
	r.token = keep_token;
	r.token_arg = text;
	text->n = 0;
	return r;
}

static void write_text(struct tandem *t, const struct tandem_request *r)
{
	if (tandem_generate(t, r, NULL))
		fail_msg("%s", tandem_error(t));
}

static void assert_same(
	const char *what, const struct text *got, const struct text *want)
{
	for (unsigned i = 0; i < TOKENS; i++)
		if (i >= got->n || got->id[i] != want->id[i])
			fail_msg("%s: %u tokens, which differ from %u on", what,
				got->n, i);
}

/* Generate a text by plain decoding without biases. bias[0] becomes a strong
 * bias against the text's first token, bias[1] a weaker bias against a later
 * token of the text. Returns the text that plain decoding generates with these
 * biases. */
static struct text plain_text(const char *set, struct tandem_bias bias[2])
{
	struct tandem *t = opened(set, NULL);
	struct text plain, text;
	struct tandem_request r = biased(NULL, 0, &plain);

	write_text(t, &r);
	assert_int_equal(plain.n, TOKENS);
	bias[0] = (struct tandem_bias){ plain.id[0], -100 };
	bias[1] = (struct tandem_bias){ plain.id[TOKENS / 2], -1 };
	r = biased(bias, 2, &text);
	write_text(t, &r);
	for (unsigned i = 0; i < TOKENS; i++)
		assert_int_not_equal(text.id[i], bias[0].id);
	/* The first tokens of `plain` and `text` are drawn from the same
	 * distribution of the model. The first token of `plain`, which bias[0]
	 * excludes from `text`, is the likeliest token of this distribution. */
	assert_true(text.logprob[0] < plain.logprob[0] && text.logprob[0] < 0);
	assert_int_equal(tandem_close(t), 0);
	return text;
}

static void drafted_text_equals_plain_text_with_the_same_biases(void **state)
{
	static const char *const method[] = { "chain", "specinfer", "opt-tree",
		"eagle2-tree", "edgellm", "lever", "sdnpu" };
	struct tandem_bias bias[2];
	struct text want = plain_text(NULL, bias), got, both[2];

	for (unsigned i = 0; i < ARRAY_LEN(method); i++) {
		const char *draft =
			i + 1 < ARRAY_LEN(method) ? "draft=pld+recycle" : NULL;
		const char *set[] = { "texts=2", NULL, draft, NULL };
		struct tandem_submitted *x[2];
		struct tandem_options o;
		char name[64];
		struct tandem *t;
		struct tandem_request r;

		snprintf(name, sizeof(name), "method=%s", method[i]);
		set[1] = name;
		tandem_options_init(&o, sizeof(o));
		o.model = model;
		o.set = set;
		if (tandem_open(&t, &o))
			fail_msg("%s: %s", name, tandem_error(NULL));
		r = biased(bias, 2, &got);
		write_text(t, &r);
		assert_same(name, &got, &want);
		for (unsigned k = 0; k < 2; k++) {
			r = biased(bias, 2, &both[k]);
			assert_int_equal(tandem_submit(t, &r, &x[k]), 0);
		}
		for (unsigned k = 0; k < 2; k++) {
			assert_int_equal(tandem_wait(t, x[k]), 0);
			tandem_request_close(x[k]);
			assert_same(name, &both[k], &want);
		}
		assert_int_equal(tandem_close(t), 0);
	}
}

/* The method linear-spec drafts by filling masks, but it draws the tokens of
 * the text from left to right, so biases apply to its text too. */
static void linear_spec_has_biases_too(void **state)
{
	struct tandem_bias bias[2];
	struct text want, got;
	struct tandem_request r;
	struct tandem *t;

	snprintf(model, sizeof(model), "flash/models/block.gguf");
	want = plain_text("method=autoregressive", bias);
	t = opened("method=linear-spec", NULL);
	r = biased(bias, 2, &got);
	write_text(t, &r);
	assert_same("linear-spec", &got, &want);
	assert_int_equal(tandem_close(t), 0);
}

static void wrong_biases_are_refused(void **state)
{
	static const struct tandem_bias outside = { 1 << 20, 1 },
					large = { 1, 100.5f };
	static struct tandem_bias many[TANDEM_BIASES + 1];
	struct tandem *t = opened(NULL, NULL);
	struct text text;
	struct tandem_request r = biased(&outside, 1, &text);

	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "token 1048576, which is not in the vocabulary");
	r.bias = &large;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "bias of token 1 is 100.5, must be -100 to 100");
	r.bias = many;
	r.n_bias = TANDEM_BIASES;
	write_text(t, &r);
	r.n_bias++;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "n_bias is 1025, must be 0 to 1024");
	r.n_bias = 0;
	r.presence_penalty = NAN;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "presence_penalty is nan, must be -2 to 2");
	assert_int_equal(tandem_close(t), 0);
}

static void methods_that_fill_masks_refuse_biases(void **state)
{
	static const struct tandem_bias bias = { 1, 1 };
	struct text text;
	struct tandem_request r = biased(&bias, 1, &text);
	struct tandem *t;

	snprintf(model, sizeof(model), "%s", diffusion_model);
	t = opened("method=llada", NULL);
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "logit biases and penalties do not apply; leave");
	assert_int_equal(tandem_close(t), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)
static const struct CMUnitTest tests[] = {
	TEST(drafted_text_equals_plain_text_with_the_same_biases),
	TEST(linear_spec_has_biases_too),
	TEST(wrong_biases_are_refused),
	TEST(methods_that_fill_masks_refuse_biases),
};
TEST_FILE(tests)
