/* Tests of tandem_stats, which returns the counters of a handle, and of
 * tandem_prompt. */
#include "host/api/tandem.h"

#include "base/err.h"
#include "host/api/report.h"
#include "tests/harness.h"
#include "tests/host/api/tiny_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct tandem *opened_with(const char *a, const char *b, const char *c)
{
	static char model[5000];
	const char *const all[] = { a, b, c, NULL };
	struct tandem_options options;
	struct tandem *t;

	model_of_shape(model, sizeof(model), "tiny");
	tandem_options_init(&options, sizeof(options));
	options.model = model;
	options.set = all;
	assert_int_equal(tandem_open(&t, &options), 0);
	return t;
}

static struct tandem *opened(const char *set)
{
	return opened_with(set, NULL, NULL);
}

static void what_was_done_is_counted(void **state)
{
	struct tandem *t = opened("clock=soc:tensor/soc/sd8gen3.soc");
	struct tandem_stats s = { .size = sizeof(s) };
	struct tandem_result result = { .size = sizeof(result) };
	struct tandem_request r;
	double phone;

	tandem_stats(t, &s);
	assert_non_null(strstr(s.model, "tiny.gguf"));
	assert_int_equal(s.context, 0);
	assert_int_equal(s.passes, 0);
	tandem_request_init(&r, sizeof(r));
	r.prompt = "Hello there";
	r.max_tokens = 5;
	r.flags = TANDEM_IGNORE_EOS;
	assert_int_equal(tandem_start(t, 0), 0);
	tandem_stats(t, &s);
	assert_true(s.context > 16 && s.passes == 0);
	assert_int_equal(tandem_generate(t, &r, &result), 0);
	tandem_stats(t, &s);
	assert_int_equal(s.passes, result.passes);
	assert_int_equal(s.prompt_rows, result.prompt_tokens);
	assert_int_equal(s.rows, result.prompt_tokens + result.tokens - 1);
	assert_true(s.padded_rows > 0);
	assert_true(s.mapped_bytes > 0 && s.mapped_bytes <= s.window_bytes);
	assert_close(s.phone_seconds, result.phone_seconds, 1e-12, "seconds");
	phone = s.phone_seconds;
	assert_int_equal(tandem_generate(t, &r, &result), 0);
	tandem_stats(t, &s);
	assert_true(s.phone_seconds > phone && s.phone_joules > 0);
	assert_int_equal(tandem_close(t), 0);
}

static void a_report_has_the_last_text_alone(void **state)
{
	struct tandem *t = opened("clock=soc:tensor/soc/sd8gen3.soc");
	struct tandem_result result = { .size = sizeof(result) };
	struct tandem_report r;
	struct tandem_request q;
	struct err e = { 0 };

	tandem_report(t, &r);
	assert_non_null(r.model);
	assert_string_equal(r.method, "autoregressive");
	assert_null(r.drafter);
	assert_null(r.generation);
	assert_int_equal(r.context + r.total.passes + r.work.passes, 0);
	tandem_request_init(&q, sizeof(q));
	q.prompt = "Hello there";
	q.max_tokens = 5;
	q.flags = TANDEM_IGNORE_EOS;
	for (unsigned i = 1; i <= 2; i++) {
		assert_int_equal(tandem_generate(t, &q, &result), 0);
		tandem_report(t, &r);
		assert_int_equal(r.work.passes, result.passes);
		assert_int_equal(r.total.passes, i * result.passes);
		assert_true(r.context && r.generation);
		assert_true(r.began_ns && r.began_ns <= r.ended_ns);
	}
	/* A request that is refused adds nothing to the statistics. */
	q.top_p = -1;
	assert_int_equal(tandem_generate(t, &q, &result), TANDEM_MISUSE);
	assert_int_equal(tandem_failure(t, &e), -EINVAL);
	assert_string_equal(e.text, tandem_error(t));
	tandem_report(t, &r);
	assert_null(r.generation);
	assert_int_equal(r.work.passes, 0);
	assert_int_equal(tandem_close(t), 0);
}

/* Requests that run side by side read their prompts in shared passes. */
static void prompts_of_shared_passes_are_counted_as_such(void **state)
{
	struct tandem *t = opened("texts=3");
	struct tandem_stats s = { .size = sizeof(s) };
	struct tandem_result result = { .size = sizeof(result) };
	struct tandem_submitted *x[3];
	struct tandem_request r;
	uint64_t read = 0, written = 0;
	unsigned left = 3;

	tandem_request_init(&r, sizeof(r));
	r.max_tokens = 5;
	r.flags = TANDEM_IGNORE_EOS;
	for (unsigned i = 0; i < 3; i++) {
		r.prompt = &"Hello there, all of you"[6 * i];
		assert_int_equal(tandem_submit(t, &r, &x[i]), 0);
	}
	while (left)
		assert_int_equal(tandem_advance(t, &left), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(tandem_request_state(x[i], &result), 0);
		read += result.prompt_tokens;
		written += result.tokens - 1;
		tandem_request_close(x[i]);
	}
	tandem_stats(t, &s);
	assert_int_equal(s.prompt_rows, read);
	assert_int_equal(s.rows, read + written);
	assert_int_equal(tandem_close(t), 0);
}

static void assert_sums(const struct tandem_stats *s)
{
	uint64_t drafted = 0, accepted = 0;

	for (unsigned k = 0; k < TANDEM_POSITIONS; k++) {
		assert_true(s->accepted_at[k] <= s->drafted_at[k]);
		drafted += s->drafted_at[k];
		accepted += s->accepted_at[k];
	}
	assert_int_equal(drafted, s->drafted);
	assert_int_equal(accepted, s->accepted);
}

/* A pass accepts all tokens of a draft that is always right. The first token of
 * the text comes from the prompt's pass, and each further pass emits five
 * tokens: four drafted ones, and one that is drawn after them. */
static void drafts_are_counted_by_position(void **state)
{
	struct tandem *t =
		opened_with("method=chain", "draft-len=4", "draft=oracle:1");
	struct tandem_stats s = { .size = sizeof(s) };
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.prompt = "Hello there";
	r.max_tokens = 21;
	r.flags = TANDEM_IGNORE_EOS;
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	tandem_stats(t, &s);
	for (unsigned k = 0; k < 4; k++) {
		assert_int_equal(s.drafted_at[k], 4);
		assert_int_equal(s.accepted_at[k], 4);
	}
	assert_int_equal(s.drafted_at[4], 0);
	assert_sums(&s);
	assert_int_equal(tandem_close(t), 0);
}

/* A tree has several nodes at each depth, of which at most one is accepted. */
static void drafts_of_trees_are_counted_by_depth(void **state)
{
	struct tandem *t =
		opened_with("texts=2", "draft=pld+recycle", "tree-depth=3");
	struct tandem_stats s = { .size = sizeof(s) };
	struct tandem_result result = { .size = sizeof(result) };
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.prompt = "one two three one two three one";
	r.max_tokens = 30;
	r.flags = TANDEM_IGNORE_EOS;
	assert_int_equal(tandem_generate(t, &r, &result), 0);
	tandem_stats(t, &s);
	assert_int_equal(s.drafted, result.drafted);
	assert_int_equal(s.accepted, result.accepted);
	assert_true(s.drafted_at[0] > 0);
	assert_int_equal(s.drafted_at[3], 0);
	assert_true(s.accepted_at[0] >= s.accepted_at[1]);
	assert_true(s.accepted_at[1] >= s.accepted_at[2]);
	assert_sums(&s);
	assert_int_equal(tandem_close(t), 0);
}

/* A program that was compiled with an older header passes a shorter struct. */
static void a_shorter_struct_is_filled_as_far_as_it_goes(void **state)
{
	struct tandem *t = opened(NULL);
	struct tandem_stats s;

	memset(&s, 7, sizeof(s));
	s.size = offsetof(struct tandem_stats, passes);
	tandem_stats(t, &s);
	assert_int_equal(s.context, 0);
	assert_int_equal(s.passes, 0x0707070707070707);
	assert_int_equal(tandem_close(t), 0);
}

static void a_prompt_has_the_tokens_that_are_read(void **state)
{
	struct tandem *t = opened(NULL);
	struct tandem_result result = { .size = sizeof(result) };
	struct tandem_request r;
	int32_t ids[64], few[2] = { -7, -7 }, plain[64];
	int64_t n;

	tandem_request_init(&r, sizeof(r));
	r.prompt = "Hello there";
	r.max_tokens = 1;
	n = tandem_prompt(t, &r, ids, 64);
	assert_int_equal(
		n, tandem_tokenize(t, "Hello there", 11, 0, plain, 64));
	assert_memory_equal(ids, plain, (size_t)n * sizeof(*ids));
	assert_int_equal(tandem_prompt(t, &r, few, 1), n);
	assert_int_equal(few[0], ids[0]);
	assert_int_equal(few[1], -7);
	r.flags = TANDEM_CHAT;
	assert_true(tandem_prompt(t, &r, ids, 64) > n);
	n = tandem_prompt(t, &r, NULL, 0);
	assert_int_equal(tandem_generate(t, &r, &result), 0);
	assert_int_equal(result.prompt_tokens, n);
	r.temperature = -1;
	assert_int_equal(tandem_prompt(t, &r, ids, 64), TANDEM_MISUSE);
	assert_non_null(strstr(tandem_error(t), "temperature"));
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_was_done_is_counted),
	cmocka_unit_test(a_report_has_the_last_text_alone),
	cmocka_unit_test(prompts_of_shared_passes_are_counted_as_such),
	cmocka_unit_test(drafts_are_counted_by_position),
	cmocka_unit_test(drafts_of_trees_are_counted_by_depth),
	cmocka_unit_test(a_shorter_struct_is_filled_as_far_as_it_goes),
	cmocka_unit_test(a_prompt_has_the_tokens_that_are_read),
};
TEST_FILE(tests)
