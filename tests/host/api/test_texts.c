/*
 * Several texts of a handle: each is what tandem_generate alone makes of its
 * request, whatever runs beside it, and what befalls one stays its own. Pairs
 * are real (TANDEM_NPU).
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "host/api/tandem_impl.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "tests/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 24 /* requests there are */

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

/* The i-th of many requests that differ in all there is; some begin like
 * others. */
static struct tandem_request asking(unsigned i, struct strbuf *text)
{
	static const char *const prompt[] = {
		"Once",
		"Once upon a time there was a king who had a very long name",
		"x",
		"Once upon a time there was a king who had",
		"Hello there, who are you, and what is it that you want of me? "
		"I have come a long way to ask you this, and I shall not go "
		"before you have told me all that you know about the matter.",
		"Once upon a time there was a queen",
		"Hello there, who are you, and what is it that you want?",
	};
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.prompt = prompt[i % ARRAY_LEN(prompt)];
	r.max_tokens = i % 11 ? 3 + 7 * (i % 4) : 0;
	r.flags = i % 2 ? TANDEM_IGNORE_EOS : 0;
	r.temperature = i % 3 ? .9 : 0;
	r.seed = 1 + i;
	r.sink = keep;
	r.sink_arg = text;
	return r;
}

/* What tandem_generate alone makes of each. */
static struct strbuf wanted[MANY];

static void write_alone(void)
{
	struct tandem *t = opened(NULL);

	for (unsigned i = 0; i < MANY && !wanted[i].len; i++) {
		struct tandem_request r = asking(i, &wanted[i]);

		if (tandem_generate(t, &r, NULL))
			fail_msg("%s", tandem_error(t));
	}
	assert_int_equal(tandem_close(t), 0);
}

static void assert_same(const struct strbuf *text, unsigned i)
{
	if (text->len != wanted[i].len ||
		(text->len && memcmp(text->data, wanted[i].data, text->len)))
		fail_msg("text %u is '%.*s', alone '%.*s'", i, (int)text->len,
			text->data ? text->data : "", (int)wanted[i].len,
			wanted[i].data ? wanted[i].data : "");
}

/* ---- at random ----------------------------------------------------------- */

#define LIVE 12 /* submitted at a time, at most */

struct party {
	struct tandem *t;
	uint64_t seed, drawn;
	unsigned live, ended, canceled;
	uint64_t cached;
	struct guest {
		struct tandem_text *x;
		struct strbuf *text;
		unsigned of;
		bool canceled;
	} guest[LIVE];
};

static unsigned chance(struct party *p, unsigned below)
{
	return (unsigned)(rng_uniform(p->seed, 0, p->drawn++) * below);
}

static void come(struct party *p)
{
	struct guest *g = &p->guest[p->live++];
	struct tandem_request r;

	*g = (struct guest){ .of = chance(p, MANY),
		.text = calloc(1, sizeof(*g->text)) };
	r = asking(g->of, g->text);
	if (tandem_submit(p->t, &r, &g->x))
		fail_msg("%s", tandem_error(p->t));
}

static void leave(struct party *p, unsigned i)
{
	struct guest *g = &p->guest[i];
	struct tandem_result got = { .size = sizeof(got) };
	int state = tandem_text_state(g->x, &got);

	if (g->canceled) {
		assert_int_equal(state, TANDEM_CANCELED);
	} else if (state) {
		fail_msg("text %u: %d, %s", g->of, state,
			tandem_text_error(g->x));
	} else {
		assert_same(g->text, g->of);
		assert_true(got.cached_tokens < got.prompt_tokens);
	}
	p->ended += !state;
	p->canceled += state == TANDEM_CANCELED;
	p->cached += got.cached_tokens;
	tandem_text_close(g->x);
	strbuf_release(g->text);
	free(g->text);
	*g = p->guest[--p->live];
}

static void play(struct party *p, unsigned texts)
{
	unsigned come_to = texts, left;

	while (come_to || p->live) {
		while (come_to && p->live < LIVE && !chance(p, 3)) {
			come(p);
			come_to--;
		}
		if (p->live && !chance(p, 25)) {
			unsigned i = chance(p, p->live);

			if (tandem_text_state(p->guest[i].x, NULL) == 1) {
				tandem_text_cancel(p->guest[i].x);
				p->guest[i].canceled = true;
			}
		}
		if (tandem_advance(p->t, &left))
			fail_msg("%s", tandem_error(p->t));
		for (unsigned i = p->live; i-- > 0;)
			if (tandem_text_state(p->guest[i].x, NULL) != 1)
				leave(p, i);
		assert_int_equal(left, p->live);
	}
}

/* Nothing is left of any, once what is kept has given way. */
static void check_level(const struct party *p, uint32_t slots)
{
	const struct session *s = p->t->decoder.session;
	uint32_t text = SESSION_TEXT;

	assert_true(session_has_room(s, &text, &slots, 1));
	assert_int_equal(session_free_slots(s), slots);
}

static struct party play_with(
	const char *const *set, unsigned texts, uint64_t seed)
{
	struct party p = { .t = opened(set), .seed = seed };
	uint32_t slots;

	assert_int_equal(tandem_start(p.t, 0), 0);
	slots = session_free_slots(p.t->decoder.session);
	print_message("seed %llu\n", (unsigned long long)seed);
	play(&p, texts);
	print_message("%u ended, %u canceled, %llu cached tokens\n", p.ended,
		p.canceled, (unsigned long long)p.cached);
	assert_true(p.ended > texts / 2);
	check_level(&p, slots);
	assert_int_equal(tandem_close(p.t), 0);
	return p;
}

static void test_random(void **state)
{
	static const char *const sets[][8] = {
		{ "ctx=256", "texts=6", "keep=2", "text-slots=384" },
		{ "ctx=256" },
		{ "ctx=256", "texts=2" },
		{ "ctx=256", "texts=7", "prefill-chunk=16" },
		{ "ctx=256", "texts=16", "keep=4", "prefill-chunk=16" },
		{ "ctx=256", "texts=5", "keep=3", "text-slots=288" },
		{ "ctx=256", "texts=8", "keep=2", "draft=pld", "tree-rows=24" },
		{ "ctx=256", "texts=4", "draft=pld+recycle", "text-slots=320" },
		{ "ctx=256", "keep=3" },
		{ "ctx=256", "method=chain", "draft=pld", "keep=3" },
	};

	write_alone();
	for (unsigned i = 0; i < ARRAY_LEN(sets); i++) {
		struct party p =
			play_with(sets[i], i ? 40 : 200, harness_seed() + i);
		bool keeps = false;

		for (unsigned k = 0; sets[i][k]; k++)
			keeps |= !strncmp(sets[i][k], "keep=", 5);
		assert_int_equal(keeps, p.cached > 0);
	}
}

static void test_coherence(void **state)
{
	static const char *const level[] = { "coherence=off",
		"coherence=strict", "coherence=check" };

	write_alone();
	for (unsigned i = 0; i < ARRAY_LEN(level); i++) {
		const char *const set[] = { "ctx=256", "texts=6", "keep=2",
			"text-slots=320", level[i], NULL };

		play_with(set, 20, 7);
	}
}

/* ---- what is asked ------------------------------------------------------- */

static void test_refused(void **state)
{
	static const char *const set[] = { "ctx=32", NULL };
	struct tandem *t = opened(set);
	struct tandem_request r = asking(1, NULL);
	struct tandem_text *x;
	char prompt[400];

	memset(prompt, 'x', sizeof(prompt) - 1);
	prompt[sizeof(prompt) - 1] = '\0';
	r.prompt = prompt;
	assert_int_equal(tandem_submit(t, &r, &x), TANDEM_MISUSE);
	assert_null(x);
	assert_non_null(strstr(tandem_error(t), "32"));
	r = asking(1, NULL);
	r.logprobs = 21;
	assert_int_equal(tandem_submit(t, &r, &x), TANDEM_MISUSE);
	assert_non_null(strstr(tandem_error(t), "logprobs"));
	r = asking(2, NULL);
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
	struct tandem_request r = asking(9, &text);
	struct told told = { 0 };

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

/* ---- ends ---------------------------------------------------------------- */

static void test_canceled(void **state)
{
	struct tandem *t = opened(NULL);
	struct strbuf text[3] = { 0 };
	struct tandem_result got = { .size = sizeof(got) };
	struct tandem_text *x[3];
	unsigned left = 3;

	write_alone();
	for (unsigned i = 0; i < 3; i++) {
		struct tandem_request r = asking(i + 1, &text[i]);

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
	assert_same(&text[2], 3);
	tandem_text_close(x[0]);
	tandem_text_close(x[2]);
	strbuf_release(&text[2]);
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_random, setup),
	cmocka_unit_test_setup(test_coherence, setup),
	cmocka_unit_test_setup(test_refused, setup),
	cmocka_unit_test_setup(test_logprobs, setup),
	cmocka_unit_test_setup(test_canceled, setup),
};

TEST_MAIN(tests)
