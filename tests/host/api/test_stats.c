/* What the library tells of a handle, and of a prompt before it is read. */
#include "host/api/tandem.h"

#include "base/err.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "tests/harness.h"

#include <stdio.h>
#include <string.h>

static struct tandem *opened(const char *set)
{
	static char model[5000];
	const char *const all[] = { set, NULL };
	struct synth_opts o = { .quant = DTYPE_F32, .ffn_down = DTYPE_F32 };
	struct tandem_options options;
	struct tandem *t;
	struct err e = { 0 };

	while (strcmp(shape_names[o.shape], "tiny"))
		o.shape++;
	snprintf(model, sizeof(model), "%s/tiny.gguf", harness_tmp());
	assert_ok(synth_write(model, &o, &e), &e);
	tandem_options_init(&options, sizeof(options));
	options.model = model;
	options.set = all;
	assert_int_equal(tandem_open(&t, &options), 0);
	return t;
}

static void what_was_done_is_counted(void **state)
{
	struct tandem *t = opened("clock=soc:host/soc/sd8gen3.soc");
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

/* A program that was built with less of the struct. */
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
	cmocka_unit_test(a_shorter_struct_is_filled_as_far_as_it_goes),
	cmocka_unit_test(a_prompt_has_the_tokens_that_are_read),
};
TEST_MAIN(tests)
