/* Parsing the streams of servers, which arrive in pieces. */
#include "host/bench/serve_stream.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

/* Feed a text, of which the first `at` bytes arrive at 1 ms and the rest at
 * 4 ms. Each part has memory of its exact length, so that sanitizers detect
 * reads beyond its end. */
static void feed(struct serve_stream *s, const char *text, size_t at)
{
	const size_t part[] = { at, strlen(text) - at };

	for (int i = 0; i < 2; i++) {
		char *copy = malloc(part[i] + !part[i]);

		assert_non_null(copy);
		memcpy(copy, text, part[i]);
		serve_stream_feed(s, copy, part[i], i ? 4000000 : 1000000);
		free(copy);
		text += part[i];
	}
	serve_stream_finish(s, 5000000);
}

static const char tandem[] =
	": reading the prompt\n\n"
	"data: {\"choices\":[{\"index\":0,\"text\":\"One \"}],\"usage\":null}\n"
	"\n"
	"data: {\"choices\":[{\"index\":0,\"text\":\"two\"}],\"usage\":null}\n"
	"\n"
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
	"\"completion_tokens\":5,\"prompt_tokens_details\":"
	"{\"cached_tokens\":3}},\"timings\":{\"prompt_n\":9,\"cache_n\":3,"
	"\"prompt_ms\":2.5,\"prompt_per_second\":2400.0,\"predicted_n\":5,"
	"\"predicted_ms\":10,\"predicted_per_second\":500,\"draft_n\":8,"
	"\"draft_n_accepted\":2}}\n\n"
	"data: [DONE]\n\n";

static void test_any_split(void **state)
{
	for (size_t at = 0; at < sizeof(tandem); at++) {
		struct series gap = { 0 };
		struct serve_stream s = { .gap = &gap };
		const struct serve_answer *a = &s.answer;

		feed(&s, tandem, at);
		assert_true(s.ended);
		assert_string_equal(s.error, "");
		assert_string_equal(s.text.data, "One two");
		assert_int_equal(a->pieces, 2);
		assert_int_equal(a->prompt_tokens, 9);
		assert_int_equal(a->cached_tokens, 3);
		assert_int_equal(a->tokens, 5);
		assert_int_equal(a->drafted, 8);
		assert_int_equal(a->accepted, 2);
		assert_close(a->prompt_ms, 2.5, 0, "ms of the prompt");
		assert_close(a->predicted_per_s, 500, 0, "rate");
		assert_int_equal(gap.n, 1);
		assert_close(gap.value[0],
			(double)(a->last_ns - a->first_ns) * 1e-6, 1e-12,
			"gap");
		serve_stream_release(&s);
		series_release(&gap);
	}
}

static void test_times(void **state)
{
	struct serve_stream s = { 0 };

	feed(&s, tandem, (size_t)(strstr(tandem, "two") - tandem));
	assert_int_equal(s.answer.first_ns, 1000000);
	assert_int_equal(s.answer.last_ns, 4000000);
	serve_stream_release(&s);
}

/* The server reports no token counts, so each piece of the chat counts as a
 * token. */
static void test_chat_without_usage(void **state)
{
	struct serve_stream s = { 0 };

	feed(&s,
		"event: message\r\n"
		"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\","
		"\"content\":null}}]}\r\n\r\n"
		"data:{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n"
		"id: 7\r\n"
		"data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\r\n\r\n"
		"data: [DONE]\r\n\r\n",
		20);
	assert_true(s.ended);
	assert_string_equal(s.text.data, "ab");
	assert_int_equal(s.answer.tokens, 2);
	assert_int_equal(s.answer.prompt_tokens, 0);
	assert_string_equal(s.error, "");
	serve_stream_release(&s);
}

static void test_errors(void **state)
{
	static const struct {
		const char *body, *error;
	} cases[] = {
		{ "{\"error\":{\"message\":\"the queue is full\"}}",
			"the queue is full" },
		{ "{\"error\":\"no such path\"}\n", "no such path" },
		{ "{\"error\":{}}", "an error without a message" },
		{ "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"
		  "data: {\"error\":{\"message\":\"device lost\"}}\n\n"
		  "data: [DONE]\n\n",
			"device lost" },
		{ "<html>\n<body>Bad gateway</body>\n", "<html>" },
		/* the line is cut off */
		{ "data: {\"choices\":[{\"text\":\"a\"",
			"{\"choices\":[{\"text\":\"a\"" },
		{ "data: [1]\n", "[1]" },
		{ "data: {\"choices\":7,\"usage\":[],\"timings\":"
		  "{\"draft_n\":-3,\"predicted_n\":\"x\"},\"error\":null}\n",
			"" },
		{ "", "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (size_t at = 0; at <= strlen(cases[i].body); at++) {
			struct serve_stream s = { 0 };

			feed(&s, cases[i].body, at);
			assert_string_equal(s.error, cases[i].error);
			assert_int_equal(s.answer.drafted, 0);
			serve_stream_release(&s);
		}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_any_split),
	cmocka_unit_test(test_times),
	cmocka_unit_test(test_chat_without_usage),
	cmocka_unit_test(test_errors),
};
TEST_FILE(tests)
