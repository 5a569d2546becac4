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
#include "host/method/lanes.h"
#include "host/model/shapes.h"
#include "tests/harness.h"
#include "tests/host/npu/fake_device.h"

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
	uint64_t seed, drawn; /* random numbers */
	unsigned live, ended, canceled;
	uint64_t cached, pauses;
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
	struct session *s = p->t->decoder.session;
	uint32_t text = SESSION_TEXT;

	session_truncate(s, text, 0); /* of one that was written alone */
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
	if (p.t->lanes)
		p.pauses = p.t->lanes->stats.pauses;
	check_level(&p, slots);
	assert_int_equal(tandem_close(p.t), 0);
	return p;
}

static bool has(const char *const *set, const char *option)
{
	for (; *set; set++)
		if (!strncmp(*set, option, strlen(option)))
			return true;
	return false;
}

static void test_random(void **state)
{
	static const char *const sets[][8] = {
		{ "ctx=256", "texts=6", "keep=2", "text-slots=256" },
		{ "ctx=256" },
		{ "ctx=256", "texts=2" },
		{ "ctx=256", "texts=7", "prefill-chunk=16" },
		{ "ctx=256", "texts=16", "keep=4", "prefill-chunk=16" },
		{ "ctx=256", "texts=5", "keep=3", "text-slots=256" },
		{ "ctx=256", "texts=8", "keep=2", "draft=pld", "tree-rows=24" },
		{ "ctx=256", "texts=9", "draft=pld+recycle", "text-slots=224" },
		{ "ctx=256", "keep=3" },
		{ "ctx=256", "method=chain", "draft=pld", "keep=3" },
		{ "ctx=256", "texts=4", "method=opt-tree", "draft=pld" },
		{ "ctx=256", "texts=3", "keep=2", "graph-switch=async" },
	};

	uint64_t pauses = 0;

	write_alone();
	for (unsigned i = 0; i < ARRAY_LEN(sets); i++) {
		struct party p =
			play_with(sets[i], i ? 40 : 200, harness_seed() + i);

		assert_int_equal(has(sets[i], "keep="), p.cached > 0);
		pauses += p.pauses;
	}
	assert_true(pauses > 0);
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

/* ---- what befalls one, and all ------------------------------------------- */

static struct fake fake;

/* On a device that the test computes. */
static struct tandem *opened_fake(const char *texts, unsigned restarts)
{
	const char *const set[] = { "ctx=64", texts, NULL };
	struct tandem *t = opened(set);

	t->decoder.session_opts.npu = &fake.ops;
	t->decoder.session_opts.layout = LAYOUT_ROWS;
	t->decoder.session_opts.restarts = restarts;
	return t;
}

#define FEW 3

struct few {
	struct strbuf text[FEW];
	struct tandem_text *x[FEW];
	int state[FEW];
	char error[200]; /* of the last that failed */
};

static struct tandem_request asking_few(unsigned i, struct strbuf *text)
{
	static const char *const prompt[FEW] = { "ab", "x", "hello" };
	struct tandem_request r = asking(1, text);

	r.prompt = prompt[i];
	r.max_tokens = 9;
	r.seed = i;
	return r;
}

/* Side by side; what tandem_advance returned when it was not 0. */
static int write_few(struct tandem *t, struct few *f)
{
	unsigned left = FEW;
	int ret = 0;

	*f = (struct few){ 0 };
	for (unsigned i = 0; i < FEW; i++) {
		struct tandem_request r = asking_few(i, &f->text[i]);

		assert_int_equal(tandem_submit(t, &r, &f->x[i]), 0);
	}
	while (left && !ret)
		ret = tandem_advance(t, &left);
	for (unsigned i = 0; i < FEW; i++) {
		f->state[i] = tandem_text_state(f->x[i], NULL);
		if (f->state[i])
			snprintf(f->error, sizeof(f->error), "%s",
				tandem_text_error(f->x[i]));
		tandem_text_close(f->x[i]);
	}
	return ret;
}

static void release_few(struct few *f)
{
	for (unsigned i = 0; i < FEW; i++)
		strbuf_release(&f->text[i]);
}

static void assert_as_alone(const struct few *f, unsigned i)
{
	struct tandem *t = opened_fake(NULL, 0);
	struct strbuf text = STRBUF_INIT;
	struct tandem_request r = asking_few(i, &text);

	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(tandem_close(t), 0);
	assert_int_equal(f->text[i].len, text.len);
	assert_memory_equal(f->text[i].data, text.data, text.len);
	strbuf_release(&text);
}

static unsigned passes;

static void spoil_a_row(
	struct fake *of, float *hidden, uint32_t rows, uint32_t n)
{
	if (rows == FEW && ++passes == 20)
		hidden[n + 1] = NAN;
}

static void test_one_fails(void **state)
{
	struct tandem *t;
	struct few f;

	fake_init(&fake);
	passes = 0;
	fake.spoil = spoil_a_row;
	t = opened_fake("texts=3", 0);
	assert_int_equal(write_few(t, &f), 0);
	fake.spoil = NULL;
	assert_int_equal(f.state[0], 0);
	assert_int_equal(f.state[1], TANDEM_FAILED);
	assert_int_equal(f.state[2], 0);
	assert_non_null(strstr(f.error, "that is no number"));
	assert_as_alone(&f, 0);
	assert_as_alone(&f, 2);
	release_few(&f);
	assert_int_equal(write_few(t, &f), 0); /* and is as good as before */
	assert_as_alone(&f, 1);
	release_few(&f);
	assert_int_equal(tandem_close(t), 0);
}

/* Wherever a device is lost, another takes its place beneath; or all end. */
static void test_lost(void **state)
{
	struct tandem *t;
	struct few f;
	unsigned answers, replaced = 0;

	fake_init(&fake);
	t = opened_fake("texts=2", 0);
	assert_int_equal(tandem_start(t, 0), 0);
	answers = fake.answered;
	assert_int_equal(write_few(t, &f), 0);
	answers = fake.answered - answers;
	release_few(&f);
	assert_int_equal(tandem_close(t), 0);
	for (unsigned at = 1; at < answers; at += answers / 5) {
		t = opened_fake("texts=2", 1);
		assert_int_equal(tandem_start(t, 0), 0);
		fake.lives = at;
		assert_int_equal(write_few(t, &f), 0);
		for (unsigned i = 0; i < FEW; i++)
			assert_as_alone(&f, i);
		release_few(&f);
		assert_int_equal(tandem_close(t), 0);
		replaced++;
	}
	assert_true(replaced >= 5);

	t = opened_fake("texts=2", 0);
	assert_int_equal(tandem_start(t, 0), 0);
	fake.lives = answers / 2;
	assert_int_equal(write_few(t, &f), TANDEM_LOST);
	for (unsigned i = 0; i < FEW; i++)
		assert_in_range(f.state[i] == TANDEM_LOST, i == FEW - 1, 1);
	assert_non_null(strstr(f.error, "lost"));
	assert_int_equal(tandem_advance(t, NULL), TANDEM_LOST);
	release_few(&f);
	tandem_close(t);
}

static int cancel_all(void *arg, int32_t id, const char *text, size_t len)
{
	struct tandem *t = arg;

	assert_int_equal(tandem_advance(t, NULL), TANDEM_MISUSE);
	tandem_cancel(t);
	return 0;
}

/* Who is asked to stop returns soon, and the texts go on as if nothing were. */
static void test_cancel_all(void **state)
{
	static const char *const set[] = { "ctx=256", "texts=3", NULL };
	struct tandem *t = opened(set);
	struct strbuf text = STRBUF_INIT;
	struct tandem_request r = asking(9, NULL), other = asking(1, &text);
	struct tandem_text *x, *y;
	unsigned left = 2, canceled = 0;

	write_alone();
	r.sink = cancel_all;
	r.sink_arg = t;
	assert_int_equal(tandem_submit(t, &r, &x), 0);
	assert_int_equal(tandem_submit(t, &other, &y), 0);
	while (left) {
		int ret = tandem_advance(t, &left);

		canceled += ret == TANDEM_CANCELED;
		assert_true(!ret || ret == TANDEM_CANCELED);
	}
	assert_true(canceled >= r.max_tokens - 1);
	assert_int_equal(tandem_text_state(x, NULL), 0);
	assert_int_equal(tandem_text_state(y, NULL), 0);
	assert_same(&text, 1);
	strbuf_release(&text);
	tandem_text_close(x);
	tandem_text_close(y);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- what came of them --------------------------------------------------- */

/* The one text of a handle takes what tandem_generate does; of several each has
 * a share. */
static void test_results(void **state)
{
	static const char *const one[] = { "ctx=256",
		"clock=soc:host/soc/sd8gen3.soc", NULL };
	static const char *const two[] = { "ctx=256", "texts=2",
		"clock=soc:host/soc/sd8gen3.soc", NULL };
	struct tandem_result alone = { .size = sizeof(alone) }, got = alone;
	struct tandem_request r = asking(1, NULL);
	struct tandem *t = opened(one);
	struct tandem_text *x, *y;
	unsigned left = 1;

	r.sink = NULL;
	assert_int_equal(tandem_generate(t, &r, &alone), 0);
	assert_int_equal(tandem_submit(t, &r, &x), 0);
	while (left)
		assert_int_equal(tandem_advance(t, &left), 0);
	assert_int_equal(tandem_text_state(x, &got), 0);
	assert_int_equal(got.stop, alone.stop);
	assert_int_equal(got.passes, alone.passes);
	assert_int_equal(got.tokens, alone.tokens);
	assert_int_equal(got.prompt_tokens, alone.prompt_tokens);
	assert_close(got.phone_seconds, alone.phone_seconds, 1e-9, "seconds");
	assert_close(got.phone_joules, alone.phone_joules, 1e-9, "joules");
	assert_true(got.seconds_prompt > 0 && got.seconds > got.seconds_prompt);
	tandem_text_close(x);
	assert_int_equal(tandem_close(t), 0);

	t = opened(two);
	assert_int_equal(tandem_submit(t, &r, &x), 0);
	assert_int_equal(tandem_submit(t, &r, &y), 0);
	for (left = 2; left;)
		assert_int_equal(tandem_advance(t, &left), 0);
	assert_int_equal(tandem_text_state(x, &got), 0);
	assert_int_equal(got.passes, alone.passes);
	assert_true(got.phone_joules > 0);
	assert_true(got.phone_joules < 1.1 * alone.phone_joules);
	tandem_text_close(x);
	tandem_text_close(y);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- what is kept -------------------------------------------------------- */

#define TURN 12 /* tokens of a prompt's, and of an answer */

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

/* A turn of it: some tokens, and the answer. */
static uint64_t take_turn(
	struct tandem *t, struct talk *k, unsigned turn, bool submits)
{
	struct tandem_result got = { .size = sizeof(got) };
	struct tandem_request r = asking(1, NULL);
	struct tandem_text *x;
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
	assert_int_equal(tandem_text_state(x, &got), 0);
	tandem_text_close(x);
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
		/* All but the last token, which no pass had as its row. */
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
	cmocka_unit_test_setup(test_random, setup),
	cmocka_unit_test_setup(test_coherence, setup),
	cmocka_unit_test_setup(test_refused, setup),
	cmocka_unit_test_setup(test_logprobs, setup),
	cmocka_unit_test_setup(test_canceled, setup),
	cmocka_unit_test_setup(test_one_fails, setup),
	cmocka_unit_test_setup(test_lost, setup),
	cmocka_unit_test_setup(test_cancel_all, setup),
	cmocka_unit_test_setup(test_results, setup),
	cmocka_unit_test_setup(test_conversation, setup),
};

TEST_MAIN(tests)
