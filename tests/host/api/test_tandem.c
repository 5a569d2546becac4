/*
 * The library as seen by a program that includes tandem.h: options, requests,
 * ends of texts, steps, drafts and samples. tests/cli/library.sh tests an
 * installed library.
 */
#include "base/version.h"
#include "host/api/tandem_impl.h"
#include "tests/host/api/opened_tandem.h"

#include <stdlib.h>

/* ---- wrong options and requests ------------------------------------------ */

static void test_version(void **state)
{
	char ours[32];

	snprintf(ours, sizeof(ours), "%d.%d.%d", TANDEM_VERSION_MAJOR,
		TANDEM_VERSION_MINOR, TANDEM_VERSION_PATCH);
	assert_string_equal(ours, TANDEM_VERSION);
	assert_string_equal(tandem_version(), TANDEM_VERSION);
}

/* The options of a program that was compiled with a later header. */
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
	/* a nonzero member that this library does not support */
	later.more[3] = 1;
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
		{ "clock=soc:sd8gen4,map_s=0", "did you mean 'soc:sd8gen",
			TANDEM_MISUSE },
		{ "clock=soc:tensor/soc/sd8gen3.soc,mop_s=0",
			"did you mean 'map_s'", TANDEM_MISUSE },
		{ "draft=x.gguf", "does not use a draft model", TANDEM_MISUSE },
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
	/* the refused request leaves the handle usable */
	free(text_of(t, "x", 4));
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
	struct tandem *t = opened("clock=soc:tensor/soc/sd8gen3.soc", NULL);
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
	/* last: number of the step that ends the text; 0 means none */
	size_t prompt, seen, last;
	/* tokens of the answer, as the last step of each block reported them */
	int32_t filled[4 * BLOCK];
	/* sunk: text that the sink has received; text: the text that it had
	 * received when the latest step was reported, then this step's text */
	struct strbuf text, sunk;
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

/* Each step fills one more mask of a block, and filled positions do not change.
 * The first token of a step follows the tokens that the sink has received. */
static int take_step(void *arg, const struct tandem_step *step)
{
	struct steps *s = arg;
	const size_t end = (s->seen / BLOCK + 1) * BLOCK, at = s->n_ids;
	size_t masks = 0;

	s->seen++;
	assert_int_equal(step->size, sizeof(*step));
	assert_int_equal(step->pass, s->seen);
	assert_in_range(at, end - BLOCK, end - 1);
	assert_int_equal(step->first, s->prompt + at);
	assert_int_equal(step->n, end - at);
	assert_int_equal(step->at[0], 0);
	for (size_t i = 0; i < step->n; i++) {
		bool mask = step->tokens[i] == -1;

		masks += mask;
		assert_int_equal(
			step->marks[i], mask ? TANDEM_MASK : TANDEM_STABLE);
		if (mask)
			assert_int_equal(step->at[i], step->at[i + 1]);
		s->filled[at + i] = step->tokens[i];
	}
	assert_int_equal(masks, BLOCK - 1 - (s->seen - 1) % BLOCK);
	strbuf_reset(&s->text);
	if (s->sunk.len)
		strbuf_add(&s->text, s->sunk.data, s->sunk.len);
	strbuf_add(&s->text, step->text, step->at[step->n]);
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

	/* The step callback ends the text within a block. Tokens that only this
	 * last step has filled are not part of the text. */
	s = (struct steps){ .last = BLOCK + 3 };
	r = watching(t, &s, 4 * BLOCK);
	assert_int_equal(tandem_generate(t, &r, &got), 0);
	assert_int_equal(got.stop, TANDEM_STOP_SINK);
	assert_int_equal(got.tokens, s.n_ids);
	assert_in_range(got.tokens, BLOCK, BLOCK + 2);
	assert_int_equal(got.passes, BLOCK + 3);
	strbuf_release(&s.text);
	strbuf_release(&s.sunk);
	assert_int_equal(tandem_close(t), 0);
}

/* A model that generates from left to right has no steps to report. */
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

/* ---- drafts -------------------------------------------------------------- */

struct drafts {
	uint64_t seen, last; /* last: pass that ends the text; 0 means none */
	size_t nodes, accepted;
	/* tokens that the sink has received since the previous call of
	 * take_draft */
	int32_t ids[64];
	size_t n_ids;
};

static int collect_id(void *arg, int32_t id, const char *text, size_t len)
{
	struct drafts *s = arg;

	assert_in_range(s->n_ids, 0, 63);
	if (id >= 0)
		s->ids[s->n_ids++] = id;
	return 0;
}

/* The tokens of a pass are those of the accepted path and one token that is
 * drawn after the path. */
static int take_draft(void *arg, const struct tandem_draft *d)
{
	struct drafts *s = arg;
	int32_t end = 0; /* last node of the path so far */
	size_t n = 0;

	assert_int_equal(d->size, sizeof(*d));
	assert_int_equal(d->pass, ++s->seen);
	assert_int_equal(d->parents[0], -1);
	assert_int_equal(d->accepted[0], 1);
	assert_int_equal(d->at[0], 0);
	/* The root of the first tree is the text's first token, which was drawn
	 * from the prompt's last row and passed to the sink before. */
	if (s->seen == 1)
		assert_int_equal(d->tokens[0], s->ids[n++]);
	for (size_t i = 1; i < d->n; i++) {
		assert_in_range(d->parents[i], 0, i - 1);
		assert_true(d->at[i] <= d->at[i + 1]);
		if (!d->accepted[i])
			continue;
		assert_int_equal(d->parents[i], end);
		assert_int_equal(d->tokens[i], s->ids[n++]);
		s->accepted++;
		end = (int32_t)i;
	}
	assert_int_equal(d->next, s->ids[n++]);
	assert_true(d->at[d->n] < d->at[d->n + 1]);
	assert_int_equal(n, s->n_ids);
	s->nodes += d->n - 1;
	s->n_ids = 0;
	return s->seen == s->last;
}

static void check_drafts(struct tandem *t, uint64_t last, struct drafts *s)
{
	struct tandem_request r = asking("Hello", 40);
	struct tandem_result got = { .size = sizeof(got) };

	*s = (struct drafts){ .last = last };
	r.sink = collect_id;
	r.draft = take_draft;
	r.sink_arg = r.draft_arg = s;
	assert_int_equal(tandem_generate(t, &r, &got), 0);
	assert_int_equal(
		got.stop, last ? TANDEM_STOP_SINK : TANDEM_STOP_LENGTH);
	assert_int_equal(got.drafted, s->nodes);
	assert_int_equal(got.accepted, s->accepted);
	assert_true(!last || s->seen == last);
}

static void test_drafts(void **state)
{
	struct tandem *t = opened("method=chain", "draft=oracle:1");
	struct drafts s;

	check_drafts(t, 0, &s);
	assert_true(s.accepted);
	check_drafts(t, 2, &s);
	assert_int_equal(tandem_close(t), 0);
	t = opened("method=specinfer", "draft=recycle");
	check_drafts(t, 0, &s);
	assert_true(s.nodes > s.accepted);
	assert_int_equal(tandem_close(t), 0);
	t = opened(NULL, NULL);
	check_drafts(t, 0, &s);
	assert_int_equal(s.seen, 0);
	assert_int_equal(tandem_close(t), 0);
}

/* A program may declare only the first members of struct tandem_request, as a
 * language binding might do. The struct may end after any multiple of 8
 * bytes. */
static void test_first_members(void **state)
{
	struct tandem_request r = asking("Once", 3);
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	for (o.size = 16; o.size <= sizeof(o); o.size += 8) {
		assert_int_equal(tandem_open(&t, &o), 0);
		assert_int_equal(tandem_close(t), 0);
	}
	t = opened(NULL, NULL);
	for (r.size = 16; r.size <= sizeof(r); r.size += 8)
		assert_int_equal(tandem_prompt(t, &r, NULL, 0), 4);
	r.size = 20;
	assert_int_equal(tandem_prompt(t, &r, NULL, 0), TANDEM_MISUSE);
	assert_says(t, "must be a multiple of 8");
	assert_int_equal(tandem_close(t), 0);
}

/* A program with an older header passes a shorter request. The library must not
 * read beyond the size that the request states. */
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

/* Each sample equals the text of a single request with the same random
 * stream. */
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
	assert_int_equal(heard.n, 4); /* plain decoding reports no samples */
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

/* After a cancellation the sample callback gets the unfinished samples, marked
 * as incomplete. */
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

/* The request comes from an older header, which has the member for steps and no
 * member for samples. */
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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_version),
	cmocka_unit_test_setup(test_sizes, setup),
	cmocka_unit_test_setup(test_bad_options, setup),
	cmocka_unit_test_setup(test_bad_requests, setup),
	cmocka_unit_test_setup(test_tokens, setup),
	cmocka_unit_test_setup(test_ends, setup),
	cmocka_unit_test_setup(test_short_result, setup),
	cmocka_unit_test_setup(test_phone, setup),
	cmocka_unit_test_setup(test_start, setup),
	cmocka_unit_test_setup(test_steps, setup),
	cmocka_unit_test_setup(test_no_steps, setup),
	cmocka_unit_test_setup(test_drafts, setup),
	cmocka_unit_test_setup(test_first_members, setup),
	cmocka_unit_test_setup(test_short_request, setup),
	cmocka_unit_test_setup(test_samples, setup),
	cmocka_unit_test_setup(test_samples_canceled, setup),
	cmocka_unit_test_setup(test_request_without_samples, setup),
};

TEST_FILE(tests)
