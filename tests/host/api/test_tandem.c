/*
 * The library as a program sees it that includes tandem.h: what it is asked,
 * how texts end, several handles, and a device that dies. Pairs are real
 * (TANDEM_NPU); cli/library has what only an installed library can show.
 */
#include "base/err.h"
#include "base/strbuf.h"
#include "base/version.h"
#include "host/api/tandem.h"
#include "host/api/tandem_impl.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "host/text/tokenizer.h"
#include "tests/harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char model[5000], diffusion_model[5000];

static void make_model(char *path, size_t size, const char *like)
{
	struct synth_opts o = { .quant = DTYPE_F32, .ffn_down = DTYPE_F32 };
	struct err e = { 0 };

	while (strcmp(shape_names[o.shape], like))
		o.shape++;
	snprintf(path, size, "%s/%s.gguf", harness_tmp(), like);
	assert_ok(synth_write(path, &o, &e), &e);
}

static int setup(void **state)
{
	make_model(model, sizeof(model), "tiny");
	make_model(diffusion_model, sizeof(diffusion_model), "tiny-llada");
	return 0;
}

/* Fails with the sentence, in which `part` is to be found. */
#define assert_says(handle, part)                            \
	do {                                                 \
		if (!strstr(tandem_error(handle), part))     \
			fail_msg("'%s' does not hold '%s'",  \
				tandem_error(handle), part); \
	} while (0)

static int open_with(struct tandem **t, const char *a, const char *b)
{
	const char *const set[] = { a, b, NULL };
	struct tandem_options o;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.set = a ? set : NULL;
	return tandem_open(t, &o);
}

static struct tandem *opened(const char *a, const char *b)
{
	struct tandem *t;
	int ret = open_with(&t, a, b);

	if (ret)
		fail_msg("returned %d: %s", ret, tandem_error(NULL));
	return t;
}

static int keep(void *arg, int32_t id, const char *text, size_t len)
{
	strbuf_add(arg, text, len);
	return 0;
}

static struct tandem_request asking(const char *prompt, int64_t tokens)
{
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.prompt = prompt;
	r.max_tokens = tokens;
	r.flags = TANDEM_IGNORE_EOS;
	return r;
}

/* What the handle writes behind the prompt; the caller's to free. */
static char *text_of(struct tandem *t, const char *prompt, int64_t tokens)
{
	struct tandem_request r = asking(prompt, tokens);
	struct tandem_result got = { .size = sizeof(got) };
	struct strbuf text = STRBUF_INIT;

	r.sink = keep;
	r.sink_arg = &text;
	if (tandem_generate(t, &r, &got))
		fail_msg("%s", tandem_error(t));
	assert_int_equal(got.stop, TANDEM_STOP_LENGTH);
	assert_int_equal(got.tokens, tokens);
	assert_true(text.len);
	return text.data;
}

/* ---- what is asked ------------------------------------------------------- */

static void test_version(void **state)
{
	char ours[32];

	snprintf(ours, sizeof(ours), "%d.%d.%d", TANDEM_VERSION_MAJOR,
		TANDEM_VERSION_MINOR, TANDEM_VERSION_PATCH);
	assert_string_equal(ours, TANDEM_VERSION);
	assert_string_equal(tandem_version(), TANDEM_VERSION);
}

/* A struct of a program that was built with a later header. */
struct later {
	struct tandem_options known;
	long more[4];
};

static void test_sizes(void **state)
{
	struct later later;
	struct tandem_options o = { 0 };
	struct tandem_request r = { .size = sizeof(r) - 1 };
	struct tandem *t;

	assert_int_equal(tandem_open(&t, &o), TANDEM_MISUSE);
	assert_null(t);
	assert_says(NULL, "tandem_options_init");
	memset(&later, 0xff, sizeof(later));
	tandem_options_init(&later.known, sizeof(later));
	assert_int_equal(later.known.size, sizeof(later));
	assert_int_equal(later.more[3], 0);
	later.known.model = model;
	assert_int_equal(tandem_open(&t, &later.known), 0);
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "tandem_request_init");
	assert_int_equal(tandem_generate(t, NULL, NULL), TANDEM_MISUSE);
	assert_int_equal(tandem_close(t), 0);
	later.more[3] = 1; /* asks for what this library does not know */
	assert_int_equal(tandem_open(&t, &later.known), TANDEM_MISUSE);
	assert_null(t);
}

static void test_bad_options(void **state)
{
	static const struct {
		const char *set, *says;
		int status;
	} cases[] = {
		{ "methode=chain", "did you mean '--method'", TANDEM_MISUSE },
		{ "method=chian", "unknown method 'chian'", TANDEM_MISUSE },
		{ "threads=many", "--threads", TANDEM_MISUSE },
		{ "threads", "--threads", TANDEM_MISUSE },
		{ "clock=soc:none", "none", TANDEM_MISUSE },
		{ "draft=x.gguf", "no use for a draft model", TANDEM_MISUSE },
		{ "help", "help", TANDEM_MISUSE },
		{ "", "", TANDEM_MISUSE },
	};
	struct tandem_options o;
	struct tandem *t;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int ret = open_with(&t, cases[i].set, NULL);

		if (ret != cases[i].status)
			fail_msg("'%s' gives %d", cases[i].set, ret);
		assert_null(t);
		assert_says(NULL, cases[i].says);
	}
	tandem_options_init(&o, sizeof(o));
	o.model = "/no/such/model";
	assert_int_equal(tandem_open(&t, &o), TANDEM_FAILED);
	assert_says(NULL, "/no/such/model");
	o.model = model;
	o.device_program = "/no/such/device";
	assert_int_equal(tandem_open(&t, &o), 0);
	assert_int_equal(tandem_start(t, 0), TANDEM_FAILED);
	assert_says(t, "/no/such/device");
	assert_int_equal(tandem_close(t), 0);
}

static void test_bad_requests(void **state)
{
	struct tandem *t = opened("ctx=64", NULL);
	struct tandem_request r = asking("x", 4);
	const char *const bad_stop[] = { "\xff", NULL };
	const int32_t beyond = 1 << 30;
	char prompt[400];

	r.temperature = -1;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "temperature");
	r = asking("x", -2);
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "max_tokens");
	r = asking("x", 4);
	r.stop = bad_stop;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	r = asking(NULL, 4);
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	r = asking("", 4);
	r.flags = TANDEM_NO_BOS;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "nothing to continue");
	r = asking(NULL, 4);
	r.tokens = &beyond;
	r.n_tokens = 1;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "vocabulary");
	memset(prompt, 'x', sizeof(prompt) - 1);
	prompt[sizeof(prompt) - 1] = '\0';
	r = asking(prompt, 4);
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_FAILED);
	assert_says(t, "64");
	free(text_of(t, "x", 4)); /* and is as good as before */
	assert_int_equal(tandem_start(t, 0), TANDEM_MISUSE);
	assert_int_equal(tandem_close(t), 0);
	assert_int_equal(tandem_close(NULL), 0);
}

/* ---- texts --------------------------------------------------------------- */

static void test_tokens(void **state)
{
	struct tandem *t = opened(NULL, NULL);
	struct tandem_request r = asking("Hello there", 8);
	struct strbuf by_text = STRBUF_INIT, by_ids = STRBUF_INIT;
	int32_t ids[64], few[2] = { -7, -7 };
	int64_t n = tandem_tokenize(t, "Hello there", 11, 0, ids, 64);
	char back[64], part[3] = "..";
	int64_t len;

	assert_in_range(n, 3, 63);
	assert_int_equal(tandem_tokenize(t, "Hello there", 11, 0, few, 1), n);
	assert_int_equal(few[0], ids[0]);
	assert_int_equal(few[1], -7);
	len = tandem_detokenize(t, ids, (size_t)n, 0, back, sizeof(back));
	assert_int_equal(len, 11);
	assert_memory_equal(back, "Hello there", 11);
	assert_int_equal(tandem_detokenize(t, ids, (size_t)n, 0, part, 1), len);
	assert_string_equal(part, "H.");
	ids[1] = 1 << 30;
	assert_int_equal(tandem_detokenize(t, ids, (size_t)n, 0, back, 64),
		TANDEM_MISUSE);

	r.sink = keep;
	r.sink_arg = &by_text;
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	n = tandem_tokenize(t, "Hello there", 11, 0, ids, 64);
	r.tokens = ids;
	r.n_tokens = (size_t)n;
	r.prompt = NULL;
	r.sink_arg = &by_ids;
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_string_equal(by_ids.data, by_text.data);
	strbuf_release(&by_text);
	strbuf_release(&by_ids);
	assert_int_equal(tandem_close(t), 0);
}

static int enough(void *arg, int32_t id, const char *text, size_t len)
{
	unsigned *left = arg;

	return !--*left;
}

static void test_ends(void **state)
{
	struct tandem *t = opened("ctx=32", NULL);
	char *text = text_of(t, "x", 8);
	const char stop_text[] = { text[3], '\0' };
	const char *const stop[] = { "no such text", stop_text, NULL };
	struct tandem_result got = { .size = sizeof(got) };
	struct strbuf until = STRBUF_INIT;
	struct tandem_request r = asking("x", 8);
	unsigned left = 3;

	r.stop = stop;
	r.sink = keep;
	r.sink_arg = &until;
	assert_int_equal(tandem_generate(t, &r, &got), 0);
	assert_int_equal(got.stop, TANDEM_STOP_STRING);
	assert_null(until.len ? strstr(until.data, stop_text) : NULL);
	assert_memory_equal(until.len ? until.data : "", text, until.len);

	r = asking("x", 8);
	r.sink = enough;
	r.sink_arg = &left;
	assert_int_equal(tandem_generate(t, &r, &got), 0);
	assert_int_equal(got.stop, TANDEM_STOP_SINK);
	assert_int_equal(got.tokens, 3);

	r = asking("x", -1);
	assert_int_equal(tandem_generate(t, &r, &got), 0);
	assert_int_equal(got.stop, TANDEM_STOP_CONTEXT);
	assert_int_equal(got.prompt_tokens + got.tokens, 32);
	assert_true(got.passes >= got.tokens);

	r = asking("x", 0);
	assert_int_equal(tandem_generate(t, &r, &got), 0);
	assert_int_equal(got.stop, TANDEM_STOP_LENGTH);
	assert_int_equal(got.tokens, 0);
	strbuf_release(&until);
	free(text);
	assert_int_equal(tandem_close(t), 0);
}

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

	if (tandem_read_prompt(t, r, &l))
		fail_msg("%s", tandem_error(t));
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
 * A prompt begins with the last one and the tokens of its answer, whatever
 * those are; drawn at a high temperature they are seldom what their text would
 * be tokenized to.
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
	/* What ends turns: the template's own, and none that a user says. */
	assert_int_equal(tandem_tokenize(t, "<|eot_id|>", 10,
				 TANDEM_SPECIAL | TANDEM_NO_BOS, &end, 1),
		1);
	assert_int_equal(times_in(&next, end), 4);
	free(first.id);
	free(next.id);
	assert_int_equal(tandem_close(t), 0);
}

/* The token that ended an answer comes once. */
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
	/* A turn and its system are what they are without turns. */
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
	assert_says(t, "ends with the assistant's");
	r = conversing(turn, 0);
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	r = conversing(turn, 1);
	r.flags = 0;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "TANDEM_CHAT");
	r = conversing(turn, 1);
	r.system = "x";
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "in their place");
	r = conversing(turn, 1);
	turn[0].tokens = &id;
	turn[0].n_tokens = 1;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "only the assistant's");
	turn[0] = (struct tandem_turn){ .role = "user" };
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "turn 1 has no text");
	turn[0].role = "tool";
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "'tool'");
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

/* A result of an older header is not written beyond its end. */
static void test_short_result(void **state)
{
	struct tandem *t = opened(NULL, NULL);
	struct tandem_request r = asking("x", 2);
	struct tandem_result got;

	memset(&got, 0x55, sizeof(got));
	got.size = offsetof(struct tandem_result, passes);
	assert_int_equal(tandem_generate(t, &r, &got), 0);
	assert_int_equal(got.tokens, 2);
	assert_int_equal(got.passes, 0x5555555555555555);
	assert_int_equal(tandem_close(t), 0);
}

static void test_phone(void **state)
{
	struct tandem *t = opened("clock=soc:host/soc/sd8gen3.soc", NULL);
	struct tandem_result one = { .size = sizeof(one) }, two = one;
	struct tandem_request r = asking("x", 4);

	assert_int_equal(tandem_generate(t, &r, &one), 0);
	assert_int_equal(tandem_generate(t, &r, &two), 0);
	assert_true(one.phone_seconds > 0 && one.phone_joules > 0);
	assert_true(two.passes == one.passes);
	assert_close(two.phone_seconds, one.phone_seconds, 0, "phone's time");
	assert_int_equal(tandem_close(t), 0);
}

static void test_start(void **state)
{
	struct tandem *t = opened(NULL, NULL);

	assert_int_equal(tandem_start(t, 24), 0);
	assert_int_equal(session_context(t->decoder.session), 24);
	free(text_of(t, "x", 8));
	assert_int_equal(tandem_close(t), 0);
}

/* ---- steps --------------------------------------------------------------- */

#define BLOCK ((size_t)8)

struct steps {
	size_t prompt, seen, last; /* last: enough by then; 0: never */
	int32_t filled[4 * BLOCK]; /* by the last step of each block */
	struct strbuf text, sunk;  /* of those; what the sink got */
	int32_t ids[4 * BLOCK];
	size_t n_ids;
};

static int take_token(void *arg, int32_t id, const char *text, size_t len)
{
	struct steps *s = arg;

	if (id >= 0)
		s->ids[s->n_ids++] = id;
	strbuf_add(&s->sunk, text, len);
	return 0;
}

/* One more of a block's masks is filled in each, and stays. */
static int take_step(void *arg, const struct tandem_step *step)
{
	struct steps *s = arg;
	const size_t block = s->seen / BLOCK;
	size_t masks = 0;

	s->seen++;
	assert_int_equal(step->size, sizeof(*step));
	assert_int_equal(step->pass, s->seen);
	assert_int_equal(step->first, s->prompt + block * BLOCK);
	assert_int_equal(step->n, BLOCK);
	assert_int_equal(step->at[0], 0);
	for (size_t i = 0; i < BLOCK; i++) {
		bool mask = step->tokens[i] == -1;

		masks += mask;
		assert_int_equal(
			step->marks[i], mask ? TANDEM_MASK : TANDEM_STABLE);
		if (mask)
			assert_int_equal(step->at[i], step->at[i + 1]);
		s->filled[block * BLOCK + i] = step->tokens[i];
	}
	assert_int_equal(masks, BLOCK - 1 - (s->seen - 1) % BLOCK);
	if (!masks)
		strbuf_add(&s->text, step->text, step->at[BLOCK]);
	return s->seen == s->last;
}

static struct tandem *opened_diffusion(void)
{
	const char *const set[] = { "method=llada", "block=8", NULL };
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = diffusion_model;
	o.set = set;
	if (tandem_open(&t, &o))
		fail_msg("%s", tandem_error(NULL));
	return t;
}

static struct tandem_request watching(
	struct tandem *t, struct steps *s, int64_t tokens)
{
	struct tandem_request r = asking("Hello", tokens);

	s->prompt = (size_t)tandem_tokenize(t, "Hello", 5, 0, NULL, 0);
	r.sink = take_token;
	r.step = take_step;
	r.sink_arg = r.step_arg = s;
	return r;
}

static void test_steps(void **state)
{
	struct tandem *t = opened_diffusion();
	struct steps s = { 0 };
	struct tandem_request r = watching(t, &s, 4 * BLOCK);
	struct tandem_result got = { .size = sizeof(got) };

	assert_int_equal(tandem_generate(t, &r, &got), 0);
	assert_int_equal(got.stop, TANDEM_STOP_LENGTH);
	assert_int_equal(s.seen, 4 * BLOCK);
	assert_int_equal(s.n_ids, 4 * BLOCK);
	assert_memory_equal(s.filled, s.ids, sizeof(s.ids));
	assert_true(s.text.len);
	assert_string_equal(s.text.data, s.sunk.data);
	strbuf_release(&s.text);
	strbuf_release(&s.sunk);

	/* Seen enough: nothing of an unfinished block is text. */
	s = (struct steps){ .last = BLOCK + 3 };
	r = watching(t, &s, 4 * BLOCK);
	assert_int_equal(tandem_generate(t, &r, &got), 0);
	assert_int_equal(got.stop, TANDEM_STOP_SINK);
	assert_int_equal(got.tokens, BLOCK);
	assert_int_equal(got.passes, BLOCK + 3);
	strbuf_release(&s.text);
	strbuf_release(&s.sunk);
	assert_int_equal(tandem_close(t), 0);
}

/* Written in order, nothing settles. */
static void test_no_steps(void **state)
{
	struct tandem *t = opened(NULL, NULL);
	struct steps s = { 0 };
	struct tandem_request r = watching(t, &s, BLOCK);

	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(s.seen, 0);
	assert_int_equal(s.n_ids, BLOCK);
	strbuf_release(&s.sunk);
	assert_int_equal(tandem_close(t), 0);
}

/* What is behind a request of an older header is not its own. */
static void test_short_request(void **state)
{
	struct tandem *t = opened_diffusion();
	struct steps s = { 0 };
	struct tandem_request r = watching(t, &s, BLOCK);

	r.size = offsetof(struct tandem_request, step);
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(s.seen, 0);
	assert_int_equal(s.n_ids, BLOCK);
	strbuf_release(&s.sunk);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- many samples -------------------------------------------------------- */

struct heard {
	unsigned n, ended, incomplete;
	size_t tokens;
	struct strbuf text[4];
};

static void hear(void *arg, const struct tandem_sample *s)
{
	struct heard *heard = arg;

	assert_int_equal(s->size, sizeof(*s));
	assert_int_equal(s->index, heard->n);
	assert_int_equal(s->stream, s->index);
	assert_int_equal(s->parent, -1);
	assert_int_equal(strlen(s->text), s->text_bytes);
	assert_null(s->error);
	heard->ended += s->state == TANDEM_SAMPLE_ENDED;
	heard->incomplete += s->state == TANDEM_SAMPLE_INCOMPLETE;
	heard->tokens += s->n_tokens;
	if (s->n_tokens) {
		assert_true(s->logprob < 0);
		assert_true(s->certainty > 0 && s->confidence > 0);
		assert_true(s->n_steps <= s->n_tokens);
	}
	strbuf_add(&heard->text[heard->n++], s->text, s->text_bytes);
}

static void forget_heard(struct heard *heard)
{
	for (unsigned i = 0; i < 4; i++)
		strbuf_release(&heard->text[i]);
	*heard = (struct heard){ 0 };
}

/* Each is what a request of its own is with that stream. */
static void test_samples(void **state)
{
	struct tandem *many = opened("samples=4", "parallel=3");
	struct tandem *one = opened(NULL, NULL);
	struct tandem_request r = asking("Once", 12);
	struct strbuf text = STRBUF_INIT;
	struct heard heard = { 0 };

	r.temperature = 1;
	r.sample = hear;
	r.sample_arg = &heard;
	r.sink = keep;
	r.sink_arg = &text;
	assert_int_equal(tandem_generate(many, &r, NULL), 0);
	assert_int_equal(heard.n, 4);
	assert_int_equal(heard.ended, 4);
	assert_int_equal(heard.tokens, 4 * 12);
	for (r.stream = 0; r.stream < 4; r.stream++) {
		if (r.stream)
			assert_int_equal(tandem_generate(one, &r, NULL), 0);
		assert_string_equal(text.data, heard.text[r.stream].data);
		strbuf_reset(&text);
	}
	assert_int_equal(heard.n, 4); /* plain decoding has none */
	strbuf_release(&text);
	forget_heard(&heard);
	assert_int_equal(tandem_close(many), 0);
	assert_int_equal(tandem_close(one), 0);
}

static int cancel_soon(void *arg, int32_t id, const char *text, size_t len)
{
	tandem_cancel(arg);
	return 0;
}

/* What there is of them is heard, and that it is not all. */
static void test_samples_canceled(void **state)
{
	struct tandem *t = opened("samples=4", NULL);
	struct tandem_request r = asking("Once", 12);
	struct heard heard = { 0 };

	r.temperature = 1;
	r.sample = hear;
	r.sample_arg = &heard;
	r.sink = cancel_soon;
	r.sink_arg = t;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_CANCELED);
	assert_int_equal(heard.n, 4);
	assert_int_equal(heard.incomplete, 4);
	assert_true(heard.tokens < 4 * 12);
	forget_heard(&heard);
	r.sink = NULL;
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(heard.ended, 4);
	forget_heard(&heard);
	assert_int_equal(tandem_close(t), 0);
}

/* A request of a header that knew of steps and of no samples. */
static void test_request_without_samples(void **state)
{
	struct tandem *t = opened("samples=4", NULL);
	struct tandem_request r = asking("Once", 3);
	struct heard heard = { 0 };

	r.sample = hear;
	r.sample_arg = &heard;
	r.size = offsetof(struct tandem_request, sample);
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(heard.n, 0);
	r.size = sizeof(r) - 1;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- canceling ----------------------------------------------------------- */

static void *cancel(void *arg)
{
	tandem_cancel(arg);
	return NULL;
}

struct patience {
	struct tandem *handle;
	unsigned left;
	pthread_t thread;
};

/* Soon another thread cancels; this text would go on for ever. */
static int cancel_later(void *arg, int32_t id, const char *text, size_t len)
{
	struct patience *p = arg;

	if (!p->left--)
		assert_int_equal(
			pthread_create(&p->thread, NULL, cancel, p->handle), 0);
	return 0;
}

static void test_cancel(void **state)
{
	struct tandem *t = opened(NULL, NULL);
	struct patience p = { .handle = t, .left = 5 };
	struct tandem_request r = asking("x", -1);
	struct tandem_result got = { .size = sizeof(got) };
	char *text;

	r.sink = cancel_later;
	r.sink_arg = &p;
	assert_int_equal(tandem_generate(t, &r, &got), TANDEM_CANCELED);
	assert_int_equal(pthread_join(p.thread, NULL), 0);
	assert_int_equal(got.stop, TANDEM_STOP_NONE);
	assert_true(got.tokens >= 5);
	text = text_of(t, "x", 8); /* and that was it */
	tandem_cancel(t);
	r.sink = NULL;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_CANCELED);
	free(text);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- several ------------------------------------------------------------- */

static void test_interleaved(void **state)
{
	struct tandem *a = opened(NULL, NULL);
	struct tandem *b = opened("method=chain", "draft=oracle:0.5");
	char *first = text_of(a, "one", 12), *second = text_of(b, "two", 12);

	for (int i = 0; i < 3; i++) {
		char *again[] = { text_of(b, "one", 12), text_of(a, "two", 12),
			text_of(a, "one", 12), text_of(b, "two", 12) };

		for (int j = 0; j < 4; j++) {
			assert_string_equal(again[j], j % 2 ? second : first);
			free(again[j]);
		}
	}
	free(first);
	free(second);
	assert_int_equal(tandem_close(a), 0);
	assert_int_equal(tandem_close(b), 0);
}

struct writer {
	const char *prompt, *wanted;
	unsigned wrong;
};

static void *write_often(void *arg)
{
	struct writer *w = arg;

	for (int i = 0; i < 4; i++) {
		struct tandem_request r = asking(w->prompt, 12);
		struct strbuf text = STRBUF_INIT;
		struct tandem *t;

		r.sink = keep;
		r.sink_arg = &text;
		w->wrong += open_with(&t, NULL, NULL) ||
			tandem_generate(t, &r, NULL) || !text.len ||
			strcmp(text.data, w->wanted) || tandem_close(t);
		strbuf_release(&text);
		/* Failures of one thread are not the other's. */
		w->wrong += open_with(&t, w->prompt, NULL) != TANDEM_MISUSE ||
			!strstr(tandem_error(NULL), w->prompt);
	}
	return NULL;
}

static void test_two_threads(void **state)
{
	static const char *const prompt[] = { "one", "two" };
	struct tandem *t = opened(NULL, NULL);
	struct writer w[2];
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		w[i] = (struct writer){ prompt[i], text_of(t, prompt[i], 12),
			0 };
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, write_often, &w[i]),
			0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(w[i].wrong, 0);
		free((char *)(uintptr_t)w[i].wanted);
	}
	assert_int_equal(tandem_close(t), 0);
}

/* ---- a device that dies -------------------------------------------------- */

/* The youngest child of this thread. */
static pid_t last_child(void)
{
	FILE *f = fopen("/proc/thread-self/children", "r");
	int pid = 0, last = 0;

	assert_non_null(f);
	while (fscanf(f, "%d", &pid) == 1)
		last = pid;
	fclose(f);
	assert_true(last > 0);
	return last;
}

struct killer {
	unsigned left;
	pid_t victim;
};

static int kill_later(void *arg, int32_t id, const char *text, size_t len)
{
	struct killer *k = arg;

	if (!k->left--)
		kill(k->victim, SIGKILL);
	return 0;
}

static void test_killed(void **state)
{
	struct tandem *a = opened(NULL, NULL), *b = opened("restarts=0", NULL);
	struct killer k = { .left = 3 };
	struct tandem_request r = asking("x", -1);
	struct tandem_result got = { .size = sizeof(got) };
	char *before = text_of(a, "x", 8), *after;

	assert_int_equal(tandem_start(b, 0), 0);
	k.victim = last_child();
	r.sink = kill_later;
	r.sink_arg = &k;
	assert_int_equal(tandem_generate(b, &r, &got), TANDEM_LOST);
	assert_says(b, "died (killed by signal 9");
	assert_true(got.tokens >= 3);
	assert_int_equal(tandem_generate(b, &r, NULL), TANDEM_LOST);
	assert_says(b, "died");
	after = text_of(a, "x", 8); /* the other one lives */
	assert_string_equal(after, before);
	tandem_close(b);
	free(after);
	b = opened(NULL, NULL);
	after = text_of(b, "x", 8);
	assert_string_equal(after, before);
	free(before);
	free(after);
	assert_int_equal(tandem_close(a), 0);
	assert_int_equal(tandem_close(b), 0);
}

static void keep_notice(void *arg, const char *sentence)
{
	strbuf_addf(arg, "%s\n", sentence);
}

/* Its text is that of one whose device lives, and the program is told. */
static void test_replaced(void **state)
{
	struct tandem *a = opened(NULL, NULL), *b;
	struct strbuf notices = STRBUF_INIT;
	struct killer k = { .left = 3 };
	struct tandem_options o;
	struct tandem_request r = asking("x", 8);
	struct tandem_result got = { .size = sizeof(got) };
	char *before = text_of(a, "x", 8), *after;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.notice = keep_notice;
	o.notice_arg = &notices;
	assert_int_equal(tandem_open(&b, &o), 0);
	assert_int_equal(tandem_start(b, 0), 0);
	k.victim = last_child();
	r.sink = kill_later;
	r.sink_arg = &k;
	assert_int_equal(tandem_generate(b, &r, &got), 0);
	assert_int_equal(got.tokens, 8);
	assert_non_null(strstr(notices.data, "died (killed by signal 9"));
	assert_non_null(strstr(notices.data, "took its place within"));
	after = text_of(b, "x", 8);
	assert_string_equal(after, before);
	free(before);
	free(after);
	strbuf_release(&notices);
	assert_int_equal(tandem_close(a), 0);
	assert_int_equal(tandem_close(b), 0);
}

/* A program of before there were notices. */
static void test_without_notices(void **state)
{
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, offsetof(struct tandem_options, notice));
	o.model = model;
	assert_int_equal(tandem_open(&t, &o), 0);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- progress ------------------------------------------------------------ */

struct told {
	unsigned times, ends;
	uint64_t done, total;
};

static void count_progress(
	void *arg, const char *what, uint64_t done, uint64_t total)
{
	struct told *told = arg;

	if (!what) {
		told->ends++;
		return;
	}
	assert_string_equal(what, "loading weights");
	told->times++;
	told->done = done;
	told->total = total;
}

static void test_progress(void **state)
{
	struct told told = { 0 };
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.progress = count_progress;
	o.progress_arg = &told;
	assert_int_equal(tandem_open(&t, &o), 0);
	assert_int_equal(told.times, 0);
	assert_int_equal(tandem_start(t, 0), 0);
	assert_int_equal(told.ends, 1);
	assert_true(told.times && told.done == told.total);
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_version),
	cmocka_unit_test_setup(test_sizes, setup),
	cmocka_unit_test_setup(test_bad_options, setup),
	cmocka_unit_test_setup(test_bad_requests, setup),
	cmocka_unit_test_setup(test_tokens, setup),
	cmocka_unit_test_setup(test_ends, setup),
	cmocka_unit_test_setup(test_turns, setup),
	cmocka_unit_test_setup(test_turns_ended, setup),
	cmocka_unit_test_setup(test_bad_turns, setup),
	cmocka_unit_test_setup(test_schema, setup),
	cmocka_unit_test_setup(test_short_result, setup),
	cmocka_unit_test_setup(test_phone, setup),
	cmocka_unit_test_setup(test_start, setup),
	cmocka_unit_test_setup(test_steps, setup),
	cmocka_unit_test_setup(test_no_steps, setup),
	cmocka_unit_test_setup(test_short_request, setup),
	cmocka_unit_test_setup(test_samples, setup),
	cmocka_unit_test_setup(test_samples_canceled, setup),
	cmocka_unit_test_setup(test_request_without_samples, setup),
	cmocka_unit_test_setup(test_cancel, setup),
	cmocka_unit_test_setup(test_interleaved, setup),
	cmocka_unit_test_setup(test_two_threads, setup),
	cmocka_unit_test_setup(test_killed, setup),
	cmocka_unit_test_setup(test_replaced, setup),
	cmocka_unit_test_setup(test_without_notices, setup),
	cmocka_unit_test_setup(test_progress, setup),
};

TEST_MAIN(tests)
