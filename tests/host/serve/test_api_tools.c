/* Tools in requests and in answers. */
#include "base/strbuf.h"
#include "host/serve/api_request.h"
#include "host/serve/engine.h"
#include "host/serve/reply.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

static const struct engine_offer offer = {
	.model = "m", .method = "chain", .clock = "wall", .precision = "int8"
};

#define USER "{\"role\":\"user\",\"content\":\"x\"}"
#define TOOLS \
	"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
#define CALL(id)                                                  \
	"{\"id\":\"" id "\",\"type\":\"function\",\"function\":{" \
	"\"name\":\"f\",\"arguments\":\"{\\\"a\\\": \\\"" id "\\\"}\"}}"
#define RESULT(id)                                                    \
	"{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":" \
	"\"of " id "\"}"
#define CHAT(messages) "{\"messages\":[" messages "]}"
#define CALLS(calls) \
	"{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" calls "]}"

static int read_chat(struct api_request *a, const char *body, struct fault *f)
{
	memset(f, 0, sizeof(*f));
	return api_request_read(a, API_CHAT, body, strlen(body), f);
}

static void taken(struct api_request *a, const char *body)
{
	struct fault f;

	if (read_chat(a, body, &f))
		fail_msg("%s: %s", body, f.text);
}

static void a_choice_of_tool_is_taken(void **state)
{
	struct api_request a;

	taken(&a, "{\"messages\":[" USER "]," TOOLS "}");
	assert_non_null(a.tools);
	assert_true(!a.must_call && a.parallel_calls && !a.tool);
	api_request_release(&a);
	taken(&a,
		"{\"messages\":[" USER "]," TOOLS ",\"tool_choice\":"
		"\"required\",\"parallel_tool_calls\":false}");
	assert_true(a.must_call && !a.parallel_calls && !a.tool);
	api_request_release(&a);
	taken(&a,
		"{\"messages\":[" USER "]," TOOLS ",\"tool_choice\":{\"type\":"
		"\"function\",\"function\":{\"name\":\"f\"}}}");
	assert_true(a.must_call);
	assert_string_equal(a.tool, "f");
	api_request_release(&a);
	taken(&a,
		"{\"messages\":[" USER "]," TOOLS ",\"tool_choice\":\"none\","
		"\"response_format\":{\"type\":\"json_object\"}}");
	assert_null(a.tools);
	api_request_release(&a);
}

static void calls_and_results_are_turns_in_order(void **state)
{
	struct api_request a;

	taken(&a,
		CHAT(USER "," CALLS(CALL("p") "," CALL("q")) "," RESULT(
			"q") "," RESULT("p")));
	assert_int_equal(a.n_turns, 6);
	assert_string_equal(a.turn[1].role, "assistant");
	assert_string_equal(a.turn[1].text, "");
	assert_string_equal(a.turn[2].role, "call");
	assert_string_equal(a.turn[2].text, "f {\"a\": \"p\"}");
	assert_string_equal(a.turn[3].text, "f {\"a\": \"q\"}");
	assert_string_equal(a.turn[4].role, "tool");
	assert_string_equal(a.turn[4].text, "of p");
	assert_string_equal(a.turn[5].text, "of q");
	api_request_release(&a);
}

static void wrong_tools_are_refused(void **state)
{
	static const struct {
		const char *body, *param;
	} cases[] = {
		{ "{\"messages\":[" USER "],\"tools\":{}}", "tools" },
		{ "{\"messages\":[" USER "]," TOOLS ",\"tool_choice\":\"any\"}",
			"tool_choice" },
		{ "{\"messages\":[" USER "]," TOOLS ",\"tool_choice\":{}}",
			"tool_choice" },
		{ "{\"messages\":[" USER "],\"tool_choice\":\"required\"}",
			"tool_choice" },
		{ "{\"messages\":[" USER "]," TOOLS
		  ",\"parallel_tool_calls\":1}",
			"parallel_tool_calls" },
		{ "{\"messages\":[" USER "]," TOOLS
		  ",\"response_format\":{\"type\":\"json_object\"}}",
			"response_format" },
		{ CHAT(USER "," RESULT("p")), "messages[1].tool_call_id" },
		{ CHAT(USER "," CALLS(CALL("p"))), "messages" },
		{ CHAT(USER "," CALLS(CALL("p")) "," RESULT("q")), "messages" },
		{ CHAT(USER
			  "," CALLS(CALL("p")) "," RESULT("p") "," RESULT("q")),
			"messages[3].tool_call_id" },
		{ CHAT(USER "," CALLS("{\"id\":\"a\"}")),
			"messages[1].tool_calls[0]" },
		{ CHAT(USER "," CALLS("{\"id\":\"a\",\"function\":{\"name\":"
				      "\"f\",\"arguments\":\"[\"}}")),
			"messages[1].tool_calls[0]" },
		{ CHAT(USER ",{\"role\":\"assistant\",\"content\":\"\","
			    "\"tool_calls\":3}"),
			"messages[1].tool_calls" },
		{ CHAT("{\"role\":\"tool\",\"content\":\"\"}"),
			"messages[0].tool_call_id" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct api_request a;
		struct fault f;

		if (!read_chat(&a, cases[i].body, &f))
			fail_msg("taken: %s", cases[i].body);
		assert_int_equal(f.status, 400);
		if (strcmp(f.param, cases[i].param))
			fail_msg("%s: param %s (%s)", cases[i].body, f.param,
				f.text);
		api_request_release(&a);
	}
}

/* ---- answers ------------------------------------------------------------- */

struct fixture {
	struct choice choice;
	struct choice_call calls[2];
	struct answer answer;
	struct reply reply;
	struct strbuf out;
};

static void begin(struct fixture *x, const char *body)
{
	*x = (struct fixture){ .answer.choice = &x->choice,
		.answer.n_choices = 1,
		.choice.calls = x->calls };
	taken(&x->answer.request, body);
	assert_int_equal(reply_init(&x->reply, &offer, &x->answer, 1), 0);
}

static void write_call(
	struct fixture *x, size_t i, const char *piece, bool ended)
{
	struct choice_call *c = &x->calls[i];

	x->choice.n_calls = i + 1;
	snprintf(c->name, sizeof(c->name), "f%zu", i);
	strbuf_add(&c->arguments, piece, strlen(piece));
	c->ended = ended;
}

static void finish(struct fixture *x, enum tandem_stop stop)
{
	x->choice.ended = true;
	x->choice.result.stop = stop;
	x->answer.state = ANSWER_ENDED;
}

static void has(struct fixture *x, const char *part)
{
	if (!x->out.data || !strstr(x->out.data, part))
		fail_msg("no %s in %s", part, x->out.data);
}

static void end(struct fixture *x)
{
	strbuf_release(&x->choice.text);
	strbuf_release(&x->calls[0].arguments);
	strbuf_release(&x->calls[1].arguments);
	reply_release(&x->reply);
	strbuf_release(&x->out);
	api_request_release(&x->answer.request);
}

static void a_whole_answer_has_its_calls(void **state)
{
	struct fixture x;

	begin(&x, "{\"messages\":[" USER "]," TOOLS "}");
	write_call(&x, 0, "{}", true);
	write_call(&x, 1, "{\"a\": 1}", true);
	finish(&x, TANDEM_STOP_EOS);
	reply_whole(&x.reply, &x.out);
	has(&x, "\"content\":null");
	has(&x,
		"\"type\":\"function\",\"function\":{\"name\":\"f0\","
		"\"arguments\":\"{}\"}}");
	has(&x, "\"name\":\"f1\",\"arguments\":\"{\\\"a\\\": 1}\"");
	has(&x, "\"finish_reason\":\"tool_calls\"");
	end(&x);
}

static void events_bring_the_name_and_then_pieces(void **state)
{
	struct fixture x;

	begin(&x, "{\"messages\":[" USER "]," TOOLS ",\"stream\":true}");
	strbuf_add(&x.choice.text, "so", 2);
	assert_false(reply_events(&x.reply, &x.out));
	has(&x, "\"delta\":{\"role\":\"assistant\",\"content\":\"so\"}");
	strbuf_reset(&x.out);
	write_call(&x, 0, "", false);
	assert_false(reply_events(&x.reply, &x.out));
	has(&x, "\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_");
	has(&x, "\"function\":{\"name\":\"f0\",\"arguments\":\"\"}}]}");
	strbuf_reset(&x.out);
	write_call(&x, 0, "{\"a", false);
	assert_false(reply_events(&x.reply, &x.out));
	has(&x,
		"\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{"
		"\"arguments\":\"{\\\"a\"}}]}");
	strbuf_reset(&x.out);
	finish(&x, TANDEM_STOP_LENGTH);
	assert_true(reply_events(&x.reply, &x.out));
	has(&x, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"");
	end(&x);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_choice_of_tool_is_taken),
	cmocka_unit_test(calls_and_results_are_turns_in_order),
	cmocka_unit_test(wrong_tools_are_refused),
	cmocka_unit_test(a_whole_answer_has_its_calls),
	cmocka_unit_test(events_bring_the_name_and_then_pieces),
};
TEST_FILE(tests)
