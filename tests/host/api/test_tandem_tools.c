/* Tools through tandem.h: every method makes the calls of plain decoding. */
#include "tests/host/api/opened_tandem.h"

#define TOOLS                                                     \
	"[{\"type\":\"function\",\"function\":{\"name\":\"f\","   \
	"\"parameters\":{\"properties\":{\"a\":{\"enum\":[\"x\"," \
	"\"yz\"]}},\"required\":[\"a\"]}}}]"

struct made {
	struct strbuf text, arguments;
	unsigned calls;
	bool ended;
};

static int take_call(void *arg, const struct tandem_call *call)
{
	struct made *m = arg;

	assert_string_equal(call->name, "f");
	m->calls = call->index + 1;
	strbuf_add(&m->arguments, call->arguments, call->bytes);
	m->ended = call->ended;
	return 0;
}

static struct tandem_request calling(
	const struct tandem_turn *turn, size_t n, struct made *m)
{
	struct tandem_request r = asking(NULL, 200);

	r.flags = TANDEM_CHAT | TANDEM_MUST_CALL;
	r.turns = turn;
	r.n_turns = n;
	r.tools = TOOLS;
	r.temperature = 0;
	r.sink = keep;
	r.sink_arg = &m->text;
	r.call = take_call;
	r.call_arg = m;
	return r;
}

static void call_with(const char *method, const char *draft, struct made *m)
{
	static const struct tandem_turn turn[] = {
		{ .role = "user", .text = "Hi" },
		{ .role = "call", .text = "f {}" },
		{ .role = "tool", .text = "12" },
	};
	struct tandem_result got = { .size = sizeof(got) };
	struct tandem *t = opened(method, draft);
	struct tandem_request r = calling(turn, 3, m);

	if (tandem_generate(t, &r, &got))
		fail_msg("%s: %s", method, tandem_error(t));
	assert_int_equal(got.stop, TANDEM_STOP_EOS);
	assert_int_equal(m->calls, 1);
	assert_int_equal(m->text.len, 0);
	assert_true(m->ended);
	assert_int_equal(tandem_close(t), 0);
}

static void release(struct made *m)
{
	strbuf_release(&m->text);
	strbuf_release(&m->arguments);
}

static void every_method_makes_the_same_call(void **state)
{
	static const char *const with[][2] = { { "method=chain", "draft=pld" },
		{ "method=opt-tree", "draft=sam" },
		{ "method=lever", "draft=pld" }, { "method=sdnpu", NULL } };
	struct made plain = { 0 };

	call_with(NULL, NULL, &plain);
	for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
		struct made m = { 0 };

		call_with(with[i][0], with[i][1], &m);
		if (m.arguments.len != plain.arguments.len ||
			memcmp(m.arguments.data, plain.arguments.data,
				m.arguments.len))
			fail_msg("%s: %.*s, not %.*s", with[i][0],
				(int)m.arguments.len, m.arguments.data,
				(int)plain.arguments.len, plain.arguments.data);
		release(&m);
	}
	release(&plain);
}

static void wrong_tools_are_refused(void **state)
{
	static const struct tandem_turn turn = { .role = "user", .text = "Hi" };
	struct tandem *t = opened(NULL, NULL);
	struct made m = { 0 };
	struct tandem_request r = calling(&turn, 1, &m);

	r.flags = TANDEM_CHAT;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "tool_choice is 'auto'");
	r = calling(&turn, 1, &m);
	r.json_schema = "{}";
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "tools cannot be used with json_schema");
	r = calling(&turn, 1, &m);
	r.tool = "g";
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_says(t, "'g', which is not among the tools");
	/* If the token limit ends the text before the tool's name is complete,
	 * there is no call. */
	r = calling(&turn, 1, &m);
	r.max_tokens = 3;
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(m.calls, 0);
	assert_int_equal(m.text.len, 0);
	release(&m);
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(every_method_makes_the_same_call, setup),
	cmocka_unit_test_setup(wrong_tools_are_refused, setup),
};
TEST_FILE(tests)
