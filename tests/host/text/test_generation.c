/*
 * Generations with scripted logits: the text emitted after each token, and the
 * conditions that end a generation.
 */
#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "host/text/tokenizer.h"
#include "tests/harness.h"
#include "tests/host/text/vocab_file.h"

#include <stdlib.h>
#include <string.h>

/* Token ids of vocab_spm: bytes from id 3 on, words from id 259 on. */
#define BYTE(c) (3 + (c))
enum { BOS = 1, EOS = 2, SPACE = 259, A, B, C, AB, BC, ABC, CA, _A, _AB };
#define N_VOCAB 274

struct fixture {
	struct strbuf file, text;
	struct gguf *gguf;
	struct tokenizer *tok;
	struct sampler *sampler;
	struct generation_opts opts;
	struct generation *g;
	char log[512]; /* "id:text|" for every call of the sink */
	int sink_fails;
	char steps[512]; /* "pass@first:text|text|" for every step */
	int step_fails;
};

static int sink(void *arg, int32_t id, const char *text, size_t len)
{
	struct fixture *f = arg;
	size_t n = strlen(f->log);

	snprintf(
		f->log + n, sizeof(f->log) - n, "%d:%.*s|", id, (int)len, text);
	strbuf_add(&f->text, text, len);
	return f->sink_fails;
}

static int setup(void **state)
{
	static struct vocab v;
	struct vocab_file keys = { 0 };
	struct fixture *f = calloc(1, sizeof(*f));
	struct err e = { 0 };

	vocab_spm(&v);
	vocab_keys(&keys, &v);
	vocab_finish(&keys, &f->file);
	assert_ok(gguf_parse(&f->gguf, f->file.data, f->file.len, &e), &e);
	assert_ok(tokenizer_open(&f->tok, f->gguf, &e), &e);
	assert_int_equal(tokenizer_n_vocab(f->tok), N_VOCAB);
	assert_ok(
		sampler_open(&f->sampler, &sampler_defaults, N_VOCAB, &e), &e);
	f->opts = (struct generation_opts){ .tokenizer = f->tok,
		.sampler = f->sampler,
		.n_vocab = N_VOCAB,
		.n_predict = 100,
		.context = 100,
		.sink = sink,
		.arg = f };
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	generation_close(f->g);
	sampler_close(f->sampler);
	tokenizer_close(f->tok);
	gguf_close(f->gguf);
	strbuf_release(&f->file);
	strbuf_release(&f->text);
	free(f);
	return 0;
}

static void begin(struct fixture *f, const int32_t *prompt, size_t n)
{
	struct err e = { 0 };

	assert_ok(generation_open(&f->g, &f->opts, prompt, n, &e), &e);
}

/* Draw these tokens from scripted logits until the generation ends. Returns the
 * number of drawn tokens. */
static unsigned draw_scripted(struct fixture *f, const int32_t *id, unsigned n)
{
	unsigned i;

	for (i = 0; i < n && !gen_done(f->g); i++) {
		float *l = gen_logits(f->g);

		memset(l, 0, N_VOCAB * sizeof(*l));
		l[id[i]] = 1;
		assert_int_equal(gen_next(f->g, l), id[i]);
	}
	return i;
}

#define BEGIN(f, ...)                              \
	begin(f, (const int32_t[]){ __VA_ARGS__ }, \
		sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t))
#define DRAW(f, ...)                                       \
	draw_scripted(f, (const int32_t[]){ __VA_ARGS__ }, \
		sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t))

static void text_is(const struct fixture *f, const char *want)
{
	assert_string_equal(f->text.len ? f->text.data : "", want);
}

static void test_text_as_it_comes(void **state)
{
	struct fixture *f = *state;
	size_t n;

	BEGIN(f, BOS, _A);
	assert_int_equal(gen_first_ns(f->g), 0);
	DRAW(f, AB, _A, C);
	assert_string_equal(f->log, "263:ab|267: a|262:c|");
	assert_true(gen_first_ns(f->g) > 0);
	gen_tokens(f->g, &n);
	assert_int_equal(n, 5);
	assert_int_equal(gen_prompt_length(f->g), 2);
	assert_int_equal(gen_generated(f->g), 3);
	assert_int_equal(gen_stop_reason(f->g), GEN_RUNNING);
}

static void test_leading_space(void **state)
{
	struct fixture *f = *state;

	/* in the middle of a text, the leading space is part of the text */
	BEGIN(f, BOS, A);
	DRAW(f, _A);
	text_is(f, " a");
}

static void test_leading_space_of_a_whole_text(void **state)
{
	struct fixture *f = *state;

	BEGIN(f, BOS);
	DRAW(f, _A);
	text_is(f, "a");
}

static void test_end_of_text(void **state)
{
	struct fixture *f = *state;

	BEGIN(f, BOS, A);
	assert_int_equal(DRAW(f, B, EOS, C), 2);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_EOS);
	assert_string_equal(gen_stop_name(gen_stop_reason(f->g)), "eos");
	gen_flush(f->g);
	assert_string_equal(f->log, "261:b|2:|");
}

static void test_end_of_text_ignored(void **state)
{
	struct fixture *f = *state;

	f->opts.ignore_eos = true;
	BEGIN(f, BOS, A);
	assert_int_equal(DRAW(f, B, EOS, C), 3);
	text_is(f, "bc");
}

/* BOS does not end a text; only EOS and similar tokens do. */
static void test_begin_of_text_goes_on(void **state)
{
	struct fixture *f = *state;

	BEGIN(f, BOS, A);
	assert_int_equal(DRAW(f, B, BOS, C), 3);
	assert_false(gen_done(f->g));
}

static void test_character_in_pieces(void **state)
{
	struct fixture *f = *state;

	BEGIN(f, BOS, A);
	DRAW(f, BYTE(0xe2), BYTE(0x82), BYTE(0xac), B);
	assert_string_equal(f->log, "229:|133:|175:\xe2\x82\xac|261:b|");
}

static void test_half_a_character_at_the_end(void **state)
{
	struct fixture *f = *state;

	f->opts.n_predict = 2;
	BEGIN(f, BOS, A);
	DRAW(f, B, BYTE(0xe2));
	text_is(f, "b");
	gen_flush(f->g);
	text_is(f, "b\xef\xbf\xbd");
}

static void test_half_a_character_in_the_prompt(void **state)
{
	struct fixture *f = *state;

	BEGIN(f, BOS, A, BYTE(0xc3));
	DRAW(f, BYTE(0xa9), B);
	text_is(f,
		"\xc3\xa9"
		"b");
}

/* ---- stop strings -------------------------------------------------- */

static const char *const stops[] = { "bcab", "cc", "" };

static void test_stop_across_tokens(void **state)
{
	struct fixture *f = *state;

	f->opts.stop = stops;
	f->opts.n_stop = 3;
	BEGIN(f, BOS, A);
	assert_int_equal(DRAW(f, AB, CA, BC, A), 3);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_STRING);
	/* "b" and then "bca" were withheld, because a stop string might follow.
	 * Of "abcabc" only "a" remains. */
	assert_string_equal(f->log, "263:a|266:|264:|");
	gen_flush(f->g);
	text_is(f, "a");
}

static void test_held_text_is_emitted(void **state)
{
	struct fixture *f = *state;

	f->opts.stop = stops;
	f->opts.n_stop = 3;
	BEGIN(f, BOS, A);
	DRAW(f, A, B, C, A);
	text_is(f, "a");
	/* "bcac" is no stop string, but its last "c" may begin "cc" */
	DRAW(f, C);
	text_is(f, "abca");
	DRAW(f, A);
	text_is(f, "abcaca");
}

static void test_held_text_at_the_end(void **state)
{
	struct fixture *f = *state;

	f->opts.stop = stops;
	f->opts.n_stop = 3;
	f->opts.n_predict = 3;
	BEGIN(f, BOS, A);
	DRAW(f, A, B, C);
	text_is(f, "a");
	gen_flush(f->g);
	text_is(f, "abc");
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_LENGTH);
}

static void test_earliest_stop_wins(void **state)
{
	static const char *const two[] = { "ca", "bc" };
	struct fixture *f = *state;

	f->opts.stop = two;
	f->opts.n_stop = 2;
	BEGIN(f, BOS, A);
	DRAW(f, ABC);
	text_is(f, "a");
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_STRING);
}

static void test_stop_not_in_the_prompt(void **state)
{
	struct fixture *f = *state;

	f->opts.stop = stops;
	f->opts.n_stop = 3;
	BEGIN(f, BOS, C);
	DRAW(f, C, A);
	text_is(f, "ca");
	assert_false(gen_done(f->g));
}

/* ---- limits -------------------------------------------------------- */

static int other_sink(void *arg, int32_t id, const char *text, size_t len)
{
	strbuf_add(arg, text, len);
	return 0;
}

/* A fork continues from the state of its original, including the text that is
 * withheld because a stop string might follow. */
static void test_fork(void **state)
{
	static const char *const stop[] = { "bcab" };
	struct fixture *f = *state;
	struct strbuf text = STRBUF_INIT;
	struct generation *fork;
	struct err e = { 0 };
	const int32_t *id;
	size_t n;

	f->opts.stop = stop;
	f->opts.n_stop = 1;
	BEGIN(f, BOS, C);
	DRAW(f, A, B, C);
	text_is(f, "a");
	assert_ok(generation_fork(&fork, f->g, 0, other_sink, &text, &e), &e);
	DRAW(f, CA);
	text_is(f, "abcca");
	gen_append(fork, _A);
	gen_append(fork, AB);
	assert_string_equal(text.data, "bc aa");
	gen_append(fork, CA);
	gen_append(fork, BC);
	assert_int_equal(gen_stop_reason(fork), GEN_STOP_STRING);
	assert_int_equal(gen_stop_reason(f->g), GEN_RUNNING);
	assert_string_equal(text.data, "bc aa");
	assert_null(gen_logits(fork));
	assert_int_equal(gen_prompt_length(fork), 2);
	id = gen_tokens(fork, &n);
	assert_int_equal(n, 9);
	assert_int_equal(id[4], C);
	assert_int_equal(id[5], _A);
	generation_close(fork);
	strbuf_release(&text);
}

/* A fork draws the tokens that a generation with the same random stream would
 * draw. */
static void test_fork_draws(void **state)
{
	struct sampler_opts o = sampler_defaults;
	struct fixture *f = *state;
	struct sampler *other;
	struct generation *fork, *alone;
	float logits[N_VOCAB] = { 0 };
	struct err e = { 0 };
	unsigned same = 0;

	sampler_close(f->sampler);
	o.temperature = 1;
	assert_ok(sampler_open(&f->sampler, &o, N_VOCAB, &e), &e);
	o.stream = 9;
	assert_ok(sampler_open(&other, &o, N_VOCAB, &e), &e);
	f->opts.sampler = f->sampler;
	f->opts.ignore_eos = true;
	BEGIN(f, BOS);
	f->opts.sampler = other;
	assert_ok(generation_open(&alone, &f->opts, &(int32_t){ BOS }, 1, &e),
		&e);
	assert_ok(generation_fork(&fork, f->g, 9, NULL, NULL, &e), &e);
	for (unsigned i = 0; i < 50; i++) {
		int32_t id = gen_next(fork, logits);

		assert_int_equal(id, gen_next(alone, logits));
		same += id == gen_next(f->g, logits);
	}
	assert_true(same < 10);
	generation_close(fork);
	generation_close(alone);
	sampler_close(other);
}

static void test_length(void **state)
{
	struct fixture *f = *state;

	f->opts.n_predict = 2;
	BEGIN(f, BOS, A);
	assert_int_equal(DRAW(f, B, B, B), 2);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_LENGTH);
}

static void test_no_tokens_wanted(void **state)
{
	struct fixture *f = *state;

	f->opts.n_predict = 0;
	BEGIN(f, BOS, A);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_LENGTH);
	gen_flush(f->g);
	assert_string_equal(f->log, "");
}

static void test_context(void **state)
{
	struct fixture *f = *state;

	f->opts.context = 5;
	BEGIN(f, BOS, A);
	assert_int_equal(DRAW(f, B, B, B, B), 3);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_CONTEXT);
}

/* If both limits are reached, the reported reason is the length. */
static void test_length_before_context(void **state)
{
	struct fixture *f = *state;

	f->opts.context = 5;
	f->opts.n_predict = 3;
	BEGIN(f, BOS, A);
	DRAW(f, B, B, B, B);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_LENGTH);
}

/* gen_left returns the number of tokens that may follow until the nearer of two
 * limits is reached: the context or n_predict. */
static void test_tokens_left(void **state)
{
	struct fixture *f = *state;

	f->opts.context = 7;
	f->opts.n_predict = 4;
	BEGIN(f, BOS, A);
	assert_int_equal(gen_left(f->g), 4);
	DRAW(f, B);
	assert_int_equal(gen_left(f->g), 3);
	DRAW(f, EOS);
	assert_int_equal(gen_left(f->g), 0);
	generation_close(f->g);
	f->opts.n_predict = 9;
	BEGIN(f, BOS, A);
	assert_int_equal(gen_left(f->g), 5);
	DRAW(f, B, B, B, B, B);
	assert_int_equal(gen_left(f->g), 0);
	generation_close(f->g);
	f->opts.context = 1; /* the prompt is longer than the context */
	BEGIN(f, BOS, A);
	assert_int_equal(gen_left(f->g), 0);
}

static void test_failing_sink(void **state)
{
	struct fixture *f = *state;

	f->sink_fails = -1;
	BEGIN(f, BOS, A);
	assert_int_equal(DRAW(f, B, B, B), 1);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_ERROR);
}

static void test_foreign_token_in_the_prompt(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	assert_true(generation_open(&f->g, &f->opts,
			    (const int32_t[]){ BOS, 9999 }, 2, &e) < 0);
	assert_non_null(strstr(e.text, "9999"));
	f->g = NULL;
}

/* Tokens that are appended without logits are treated like drawn tokens. */
static void test_appended(void **state)
{
	static const int32_t id[] = { AB, _A, B, C, A };
	static const char *const stop[] = { "bc" };
	struct fixture *f = *state;
	char drawn[512];

	f->opts.stop = stop;
	f->opts.n_stop = 1;
	BEGIN(f, BOS, _A);
	assert_int_equal(draw_scripted(f, id, 5), 4);
	snprintf(drawn, sizeof(drawn), "%s", f->log);
	generation_close(f->g);
	f->log[0] = '\0';
	BEGIN(f, BOS, _A);
	for (unsigned i = 0; i < 5; i++)
		gen_append(f->g, id[i]);
	assert_string_equal(f->log, drawn);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_STRING);
	assert_int_equal(gen_generated(f->g), 4);
}

static void test_appended_up_to_the_end(void **state)
{
	struct fixture *f = *state;

	f->opts.n_predict = 3;
	BEGIN(f, BOS, A);
	for (unsigned i = 0; i < 5; i++)
		gen_append(f->g, B);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_LENGTH);
	text_is(f, "bbb");
	generation_close(f->g);
	f->opts.n_predict = 100;
	BEGIN(f, BOS, A);
	gen_append(f->g, EOS);
	gen_append(f->g, B);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_EOS);
	assert_int_equal(gen_generated(f->g), 1);
}

static void test_ids_alone(void **state)
{
	struct fixture *f = *state;

	f->opts.tokenizer = NULL;
	BEGIN(f, BOS, A);
	DRAW(f, B, EOS, C);
	assert_string_equal(f->log, "261:|2:|262:|");
}

/* ---- steps --------------------------------------------------------- */

static int note_step(void *arg, const struct gen_step *s)
{
	struct fixture *f = arg;
	struct strbuf text = STRBUF_INIT;
	size_t at[16], n = strlen(f->steps);
	int ret = s->n < 16 ? gen_step_text(f->g, s, &text, at) : -1;

	assert_int_equal(ret, 0);
	n += (size_t)snprintf(f->steps + n, sizeof(f->steps) - n,
		"%u@%zu:%.*s|", (unsigned)s->pass, s->first, (int)at[0],
		text.len ? text.data : "");
	for (uint32_t i = 0; i < s->n; i++)
		n += (size_t)snprintf(f->steps + n, sizeof(f->steps) - n,
			"%.*s|", (int)(at[i + 1] - at[i]),
			text.len ? text.data + at[i] : "");
	assert_true(n < sizeof(f->steps));
	strbuf_release(&text);
	return f->step_fails;
}

/* Report a step. `marks` has one letter per token: m for a mask, v for visible,
 * s for stable. */
static void step(struct fixture *f, const char *marks, const int32_t *id)
{
	static const char letter[] = {
		[GEN_MASK] = 'm', [GEN_VISIBLE] = 'v', [GEN_STABLE] = 's'
	};
	uint8_t mark[16] = { 0 };
	struct gen_step s = {
		.n = (uint32_t)strlen(marks), .token = id, .mark = mark
	};

	gen_tokens(f->g, &s.first);
	for (uint32_t i = 0; i < s.n; i++)
		while (letter[mark[i]] != marks[i])
			mark[i]++;
	f->steps[0] = '\0';
	gen_step(f->g, &s);
}

#define STEP(f, marks, ...) step(f, marks, (const int32_t[]){ __VA_ARGS__ })

static void watch(struct fixture *f)
{
	f->opts.step = note_step;
	f->opts.step_arg = f;
}

static void test_steps(void **state)
{
	struct fixture *f = *state;

	watch(f);
	BEGIN(f, BOS, _A);
	assert_true(gen_is_watched(f->g));
	STEP(f, "mvm", A, _AB, A);
	assert_string_equal(f->steps, "1@2:|| ab||");
	STEP(f, "ssv", A, _AB, CA);
	assert_string_equal(f->steps, "2@2:|a| ab|ca|");
	assert_string_equal(f->log, "");
	gen_append(f->g, A);
	STEP(f, "");
	assert_string_equal(f->steps, "3@3:|");
}

/* A step that ends within a character does not change the state of the text. */
static void test_step_cuts_characters(void **state)
{
	struct fixture *f = *state;

	watch(f);
	BEGIN(f, BOS, A);
	STEP(f, "sss", BYTE(0xe2), BYTE(0x82), BYTE(0xac));
	assert_string_equal(f->steps, "1@2:|||\xe2\x82\xac|");
	STEP(f, "sms", BYTE(0xe2), A, A);
	assert_string_equal(f->steps, "2@2:|\xef\xbf\xbd||a|");
	STEP(f, "s", BYTE(0xe2));
	assert_string_equal(f->steps, "3@2:|\xef\xbf\xbd|");
	DRAW(f, BYTE(0xe2), BYTE(0x82));
	STEP(f, "ss", BYTE(0xac), A);
	assert_string_equal(f->steps, "4@4:|\xe2\x82\xac|a|");
	STEP(f, "ms", A, A);
	assert_string_equal(f->steps, "5@4:\xef\xbf\xbd||a|");
	DRAW(f, BYTE(0xac));
	text_is(f, "\xe2\x82\xac");
}

static void test_step_follows_held_text(void **state)
{
	struct fixture *f = *state;

	watch(f);
	f->opts.stop = stops;
	f->opts.n_stop = 3;
	BEGIN(f, BOS, A);
	DRAW(f, A, B, C);
	text_is(f, "a");
	STEP(f, "sm", A, A);
	assert_string_equal(f->steps, "1@5:bc|a||");
}

/* The leading space that the tokenizer adds is removed from the first token of
 * a text. After a mask the space is kept. */
static void test_step_of_a_whole_text(void **state)
{
	struct fixture *f = *state;

	watch(f);
	BEGIN(f, BOS);
	STEP(f, "ss", _A, _A);
	assert_string_equal(f->steps, "1@1:|a| a|");
	STEP(f, "ms", _A, _A);
	assert_string_equal(f->steps, "2@1:|| a|");
}

static void test_failing_step(void **state)
{
	struct fixture *f = *state;

	watch(f);
	f->step_fails = -1;
	BEGIN(f, BOS, A);
	STEP(f, "m", A);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_ERROR);
	assert_false(gen_is_watched(f->g));
	STEP(f, "m", A);
	assert_string_equal(f->steps, "");
}

static void test_steps_of_no_interest(void **state)
{
	struct fixture *f = *state, watched = *f;
	struct err e = { 0 };

	BEGIN(f, BOS, A);
	assert_false(gen_is_watched(f->g));
	STEP(f, "m", A);
	assert_false(gen_done(f->g));
	/* A fork does not report steps to the observer of its original. */
	watch(&watched);
	BEGIN(&watched, BOS, A);
	generation_close(f->g);
	assert_ok(generation_open_like(&f->g, watched.g, &e), &e);
	assert_false(gen_is_watched(f->g));
	generation_close(watched.g);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_text_as_it_comes),
	TEST(test_leading_space),
	TEST(test_leading_space_of_a_whole_text),
	TEST(test_end_of_text),
	TEST(test_end_of_text_ignored),
	TEST(test_begin_of_text_goes_on),
	TEST(test_character_in_pieces),
	TEST(test_half_a_character_at_the_end),
	TEST(test_half_a_character_in_the_prompt),
	TEST(test_stop_across_tokens),
	TEST(test_held_text_is_emitted),
	TEST(test_held_text_at_the_end),
	TEST(test_fork),
	TEST(test_fork_draws),
	TEST(test_earliest_stop_wins),
	TEST(test_stop_not_in_the_prompt),
	TEST(test_length),
	TEST(test_no_tokens_wanted),
	TEST(test_context),
	TEST(test_length_before_context),
	TEST(test_tokens_left),
	TEST(test_failing_sink),
	TEST(test_foreign_token_in_the_prompt),
	TEST(test_appended),
	TEST(test_appended_up_to_the_end),
	TEST(test_ids_alone),
	TEST(test_steps),
	TEST(test_step_cuts_characters),
	TEST(test_step_follows_held_text),
	TEST(test_step_of_a_whole_text),
	TEST(test_failing_step),
	TEST(test_steps_of_no_interest),
};

TEST_FILE(tests)
