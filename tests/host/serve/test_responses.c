/* Requests of the Responses API, their events, and the responses that the
 * server keeps. */
#include "host/serve/responses.h"

#include "base/strbuf.h"
#include "host/serve/engine.h"
#include "host/serve/reply.h"
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct engine_offer offer = {
	.model = "m", .method = "chain", .clock = "wall", .precision = "int8"
};

static int read_response(struct api_request *a, struct response_store *store,
	const char *body, struct fault *f)
{
	int ret;

	memset(f, 0, sizeof(*f));
	ret = response_read(a, store, 0, body, strlen(body), f);
	if (ret)
		response_rename(f);
	return ret;
}

static void items_are_turns_of_a_chat(void **state)
{
	struct response_store *store;
	struct api_request a;
	struct fault f;

	assert_int_equal(response_store_open(&store), 0);
	if (read_response(&a, store,
		    "{\"instructions\":\"i\",\"input\":[{\"role\":\"user\","
		    "\"content\":[{\"type\":\"input_text\",\"text\":\"u\"}]},"
		    "{\"type\":\"message\",\"role\":\"assistant\",\"id\":\"x\","
		    "\"content\":[{\"type\":\"output_text\",\"text\":\"a\","
		    "\"annotations\":[]}],\"status\":\"completed\"},"
		    "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":"
		    "\"f\",\"arguments\":\"{}\"},{\"type\":"
		    "\"function_call_output\",\"call_id\":\"c\",\"output\":"
		    "\"o\"}],\"max_output_tokens\":7,\"store\":false,\"text\":"
		    "{\"format\":{\"type\":\"json_schema\",\"name\":\"n\","
		    "\"schema\":{\"type\":\"null\"}}}}",
		    &f))
		fail_msg("%s", f.text);
	assert_int_equal(a.n_turns, 5);
	assert_string_equal(a.turn[0].role, "system");
	assert_string_equal(a.turn[1].text, "u");
	assert_string_equal(a.turn[2].text, "a");
	assert_string_equal(a.turn[3].text, "f {}");
	assert_string_equal(a.turn[4].text, "o");
	assert_int_equal(a.max_tokens, 7);
	assert_string_equal(a.json_schema, "{\"type\":\"null\"}");
	assert_null(a.response->store);
	api_request_release(&a);
	response_store_close(store);
}

static void wrong_requests_are_refused(void **state)
{
	static const struct {
		const char *body, *param;
		int status;
	} cases[] = {
		{ "{}", "input", 400 },
		{ "{\"input\":[]}", "input", 400 },
		{ "{\"input\":[1]}", "input[0]", 400 },
		{ "{\"input\":[{\"type\":\"reasoning\"}]}", "input[0]", 400 },
		{ "{\"input\":[{\"role\":\"boss\"}]}", "input[0]", 400 },
		{ "{\"input\":[{\"role\":\"user\",\"content\":1}]}",
			"input[0].content", 400 },
		{ "{\"input\":[{\"role\":\"user\",\"x\":1}]}", "input[0]",
			400 },
		{ "{\"input\":[{\"type\":\"function_call\"}]}", "input[0]",
			400 },
		{ "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\","
		  "\"name\":\"f\",\"arguments\":\"{}\"}]}",
			"input", 400 },
		{ "{\"input\":[{\"type\":\"function_call_output\",\"call_id\":"
		  "\"c\",\"output\":\"\"}]}",
			"input[0].call_id", 400 },
		{ "{\"input\":\"\",\"instructions\":1}", "instructions", 400 },
		{ "{\"input\":\"\",\"metadata\":1}", "metadata", 400 },
		{ "{\"input\":\"\",\"store\":1}", "store", 400 },
		{ "{\"input\":\"\",\"text\":1}", "text", 400 },
		{ "{\"input\":\"\",\"text\":{\"verbosity\":\"low\"}}",
			"text.verbosity", 400 },
		{ "{\"input\":\"\",\"text\":{\"format\":{}}}", "text.format",
			400 },
		{ "{\"input\":\"\",\"include\":[\"x\"]}", "include", 400 },
		{ "{\"input\":\"\",\"reasoning\":{\"effort\":\"low\"}}",
			"reasoning", 400 },
		{ "{\"input\":\"\",\"max_output_tokens\":\"x\"}",
			"max_output_tokens", 400 },
		{ "{\"input\":\"\",\"messages\":[]}", "messages", 400 },
		{ "{\"input\":\"\",\"tools\":1}", "tools", 400 },
		{ "{\"input\":\"\",\"tool_choice\":\"any\"}", "tool_choice",
			400 },
		{ "{\"input\":\"\",\"previous_response_id\":1}",
			"previous_response_id", 400 },
		{ "{\"input\":\"\",\"previous_response_id\":\"resp_1\"}",
			"previous_response_id", 404 },
	};
	struct response_store *store;

	assert_int_equal(response_store_open(&store), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct api_request a;
		struct fault f;

		if (!read_response(&a, store, cases[i].body, &f))
			fail_msg("taken: %s", cases[i].body);
		if (strcmp(f.param, cases[i].param) ||
			f.status != cases[i].status)
			fail_msg("%s: %d, param %s (%s)", cases[i].body,
				f.status, f.param, f.text);
		api_request_release(&a);
	}
	response_store_close(store);
}

/* ---- kept responses ------------------------------------------------------ */

static bool has(struct response_store *s, unsigned i)
{
	char id[RESPONSE_ID], *text;

	snprintf(id, sizeof(id), "resp_%u", i);
	text = response_store_get(s, 0, id, false);
	free(text);
	return text;
}

static void the_oldest_responses_are_dropped(void **state)
{
	struct response_store *s;
	json_t *messages = json_array();
	char id[RESPONSE_ID];
	char *large = calloc(1, RESPONSES_BYTES / 4);

	assert_int_equal(response_store_open(&s), 0);
	for (unsigned i = 0; i < RESPONSES_KEPT + 3; i++) {
		snprintf(id, sizeof(id), "resp_%u", i);
		response_store_put(s, 0, id, "{}", 2, messages);
	}
	assert_false(has(s, 0) || has(s, 2));
	assert_true(has(s, 3) && has(s, RESPONSES_KEPT + 2));
	assert_true(response_store_drop(s, 0, id));
	assert_false(response_store_drop(s, 0, id));
	memset(large, 'x', RESPONSES_BYTES / 4 - 1);
	for (unsigned i = 1000; i < 1005; i++) {
		snprintf(id, sizeof(id), "resp_%u", i);
		response_store_put(
			s, 0, id, large, RESPONSES_BYTES / 4 - 1, messages);
	}
	assert_false(has(s, 3) || has(s, 1000));
	assert_true(has(s, 1004));
	response_store_close(s);
	free(large);
	json_decref(messages);
}

static void a_response_belongs_to_the_key_that_made_it(void **state)
{
	struct response_store *s;
	json_t *messages = json_array();
	struct api_request a;
	struct fault f = { 0 };
	const char *body = "{\"input\":\"x\",\"previous_response_id\":\"r\"}";
	char *text;

	assert_int_equal(response_store_open(&s), 0);
	response_store_put(s, 7, "r", "{}", 2, messages);
	assert_null(response_store_get(s, 8, "r", false));
	assert_false(response_store_drop(s, 8, "r"));
	assert_int_not_equal(
		response_read(&a, s, 8, body, strlen(body), &f), 0);
	assert_int_equal(f.status, 404);
	assert_string_equal(f.code, "not_found");
	f = (struct fault){ 0 };
	assert_int_equal(response_read(&a, s, 7, body, strlen(body), &f), 0);
	assert_int_equal(a.response->owner, 7);
	api_request_release(&a);
	text = response_store_get(s, 7, "r", false);
	assert_string_equal(text, "{}");
	free(text);
	response_store_close(s);
	json_decref(messages);
}

/* ---- events -------------------------------------------------------------- */

static size_t count(const struct strbuf *out, const char *what)
{
	size_t n = 0;

	for (const char *at = out->data; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static void a_stream_has_an_item_for_each_part(void **state)
{
	struct choice_call calls[1] = { { .name = "f" } };
	struct choice choice = { .calls = calls };
	struct answer answer = { .choice = &choice, .n_choices = 1 };
	struct strbuf out = STRBUF_INIT;
	struct response_store *store;
	struct reply reply;
	struct fault f;
	char *kept;

	assert_int_equal(response_store_open(&store), 0);
	assert_int_equal(
		read_response(&answer.request, store,
			"{\"input\":\"x\",\"stream\":true,\"tools\":[{\"type\":"
			"\"function\",\"name\":\"f\"}]}",
			&f),
		0);
	assert_int_equal(reply_init(&reply, &offer, &answer, 1), 0);
	strbuf_add(&choice.text, "so", 2);
	assert_false(reply_events(&reply, &out));
	choice.n_calls = 1;
	strbuf_add(&calls[0].arguments, "{\"a", 3);
	assert_false(reply_events(&reply, &out));
	strbuf_add(&calls[0].arguments, "\":1}", 4);
	calls[0].ended = choice.ended = true;
	choice.result.stop = TANDEM_STOP_EOS;
	answer.state = ANSWER_ENDED;
	assert_true(reply_events(&reply, &out));
	assert_int_equal(count(&out, "event: response.created\n"), 1);
	assert_int_equal(count(&out, "event: response.output_item.added\n"), 2);
	assert_int_equal(count(&out, "event: response.output_item.done\n"), 2);
	assert_int_equal(
		count(&out, "event: response.function_call_arguments.delta\n"),
		2);
	assert_int_equal(count(&out, "event: response.completed\n"), 1);
	assert_non_null(strstr(out.data, "\"arguments\":\"{\\\"a\\\":1}\""));
	kept = response_store_get(store, 0, answer.request.response->id, true);
	assert_non_null(kept);
	assert_non_null(strstr(kept,
		"{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\","
		"\"content\":\"so\",\"tool_calls\":[{\"id\":\"call_"));
	free(kept);
	reply_release(&reply);
	api_request_release(&answer.request);
	strbuf_release(&choice.text);
	strbuf_release(&calls[0].arguments);
	strbuf_release(&out);
	response_store_close(store);
}

static void a_failed_response_says_why(void **state)
{
	struct choice choice = { 0 };
	struct answer answer = { .choice = &choice, .n_choices = 1 };
	struct strbuf out = STRBUF_INIT;
	struct response_store *store;
	struct reply reply;
	struct fault f;

	assert_int_equal(response_store_open(&store), 0);
	assert_int_equal(read_response(&answer.request, store,
				 "{\"input\":\"x\",\"stream\":true}", &f),
		0);
	assert_int_equal(reply_init(&reply, &offer, &answer, 1), 0);
	fault_set(&answer.fault, 500, "device_lost", NULL, "lost the device");
	answer.state = ANSWER_ENDED;
	assert_true(reply_events(&reply, &out));
	assert_non_null(strstr(out.data, "event: response.failed\n"));
	assert_non_null(strstr(out.data, "\"message\":\"lost the device\""));
	reply_release(&reply);
	api_request_release(&answer.request);
	strbuf_release(&out);
	response_store_close(store);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(items_are_turns_of_a_chat),
	cmocka_unit_test(wrong_requests_are_refused),
	cmocka_unit_test(the_oldest_responses_are_dropped),
	cmocka_unit_test(a_response_belongs_to_the_key_that_made_it),
	cmocka_unit_test(a_stream_has_an_item_for_each_part),
	cmocka_unit_test(a_failed_response_says_why),
};
TEST_FILE(tests)
