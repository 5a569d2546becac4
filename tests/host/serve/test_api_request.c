/* Bodies of requests: the members that are parsed, and the members that are
 * refused. */
#include "host/serve/api_request.h"

#include "base/strbuf.h"
#include "tests/harness.h"

#include <math.h>
#include <string.h>

/* Parse a body; the caller releases *a also after a failure. */
static int read_request(struct api_request *a, enum api_kind kind,
	const char *body, struct fault *f)
{
	memset(f, 0, sizeof(*f));
	return api_request_read(a, kind, body, strlen(body), f);
}

static void taken(struct api_request *a, enum api_kind kind, const char *body)
{
	struct fault f;

	if (read_request(a, kind, body, &f))
		fail_msg("%s: %s", body, f.text);
}

static void refused(enum api_kind kind, const char *body, int status,
	const char *code, const char *param)
{
	struct fault f;
	struct api_request a;

	assert_int_not_equal(read_request(&a, kind, body, &f), 0);
	assert_int_equal(f.status, status);
	assert_string_equal(f.code, code);
	assert_string_equal(f.param, param);
	assert_true(strlen(f.text) > 10);
	api_request_release(&a);
}

static void a_prompt_alone_has_the_defaults_of_run(void **state)
{
	struct api_request a;

	taken(&a, API_COMPLETION, "{\"prompt\":\"a\\u00e9\"}");
	assert_int_equal(a.n_prompts, 1);
	assert_string_equal(a.prompt[0].text, "a\xc3\xa9");
	assert_int_equal(a.prompt[0].bytes, 3);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.max_tokens, -1);
	assert_int_equal(a.seed, -1);
	assert_true(isnan(a.temperature));
	assert_true(a.top_p == 1 && a.min_p == 0 && a.repeat_penalty == 1);
	assert_int_equal(a.repeat_last, 64);
	assert_false(a.stream);
	assert_null(a.stop[0]);
	api_request_release(&a);
}

static void streams_may_report_passes(void **state)
{
	struct api_request a;

	taken(&a, API_COMPLETION,
		"{\"prompt\":\"a\",\"timings_per_token\":true,"
		"\"stream_options\":{\"include_draft\":true}}");
	assert_true(a.timings_per_token && a.include_draft);
	assert_false(a.include_provisional || a.include_usage);
	api_request_release(&a);
	refused(API_COMPLETION, "{\"prompt\":\"a\",\"timings_per_token\":1}",
		400, "invalid_type", "timings_per_token");
	refused(API_COMPLETION,
		"{\"prompt\":\"a\",\"stream_options\":{\"include_draft\":1}}",
		400, "unsupported_parameter", "stream_options");
}

static void prompts_are_texts_or_tokens(void **state)
{
	struct api_request a;

	taken(&a, API_COMPLETION, "{\"prompt\":[\"a\",\"b\"],\"n\":3}");
	assert_int_equal(a.n_prompts, 2);
	assert_string_equal(a.prompt[1].text, "b");
	api_request_release(&a);
	taken(&a, API_COMPLETION, "{\"prompt\":[5,6,7]}");
	assert_int_equal(a.n_prompts, 1);
	assert_int_equal(a.prompt[0].n_tokens, 3);
	assert_int_equal(a.prompt[0].tokens[2], 7);
	api_request_release(&a);
	taken(&a, API_COMPLETION, "{\"prompt\":[[5],[6,7]]}");
	assert_int_equal(a.n_prompts, 2);
	assert_int_equal(a.prompt[1].tokens[1], 7);
	api_request_release(&a);
	refused(API_COMPLETION, "{\"prompt\":[5,\"a\"]}", 400, "invalid_type",
		"prompt");
	refused(API_COMPLETION, "{\"prompt\":[-5]}", 400, "invalid_type",
		"prompt");
	refused(API_COMPLETION, "{\"prompt\":[]}", 400, "invalid_type",
		"prompt");
	refused(API_COMPLETION, "{\"prompt\":{}}", 400, "invalid_type",
		"prompt");
}

static void turns_have_roles_and_parts(void **state)
{
	struct api_request a;

	taken(&a, API_CHAT,
		"{\"messages\":[{\"role\":\"developer\",\"content\":\"s\"},"
		"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
		"\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]}");
	assert_int_equal(a.n_turns, 2);
	assert_string_equal(a.turn[0].role, "system");
	assert_string_equal(a.turn[1].text, "ab");
	api_request_release(&a);
	refused(API_CHAT,
		"{\"messages\":[{\"role\":\"boss\",\"content\":\"\"}]}", 400,
		"invalid_value", "messages[0].role");
	refused(API_CHAT,
		"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
		"\"image_url\"}]}]}",
		400, "unsupported_content", "messages[0].content[0]");
	refused(API_CHAT,
		"{\"messages\":[{\"role\":\"user\",\"content\":\"\","
		"\"tool_calls\":[{}]}]}",
		400, "unsupported_parameter", "messages[0]");
	refused(API_CHAT,
		"{\"messages\":[{\"role\":\"assistant\",\"content\":\"\"}]}",
		400, "invalid_value", "messages");
	refused(API_CHAT, "{\"messages\":[]}", 400, "invalid_type", "messages");
	refused(API_CHAT, "{}", 400, "missing_required_parameter", "messages");
}

static void requests_may_have_a_priority_and_a_deadline(void **state)
{
	struct api_request a;

	taken(&a, API_COMPLETION, "{\"prompt\":\"\"}");
	assert_int_equal(a.priority, 0);
	assert_true(a.timeout == 0);
	api_request_release(&a);
	taken(&a, API_COMPLETION,
		"{\"prompt\":\"\",\"priority\":-3,\"timeout\":0.5}");
	assert_int_equal(a.priority, -3);
	assert_true(a.timeout == 0.5);
	api_request_release(&a);
	refused(API_COMPLETION, "{\"prompt\":\"\",\"priority\":101}", 400,
		"invalid_value", "priority");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"priority\":\"high\"}", 400,
		"invalid_type", "priority");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"timeout\":0}", 400,
		"invalid_value", "timeout");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"timeout\":\"1s\"}", 400,
		"invalid_type", "timeout");
	refused(API_TOKENIZE, "{\"prompt\":\"\",\"timeout\":1}", 400,
		"unsupported_parameter", "timeout");
}

static void numbers_have_bounds(void **state)
{
	struct api_request a;

	taken(&a, API_COMPLETION,
		"{\"prompt\":\"\",\"temperature\":0.5,\"top_p\":1,\"seed\":9,"
		"\"max_tokens\":0,\"top_k\":null}");
	assert_true(a.temperature == 0.5);
	assert_int_equal(a.seed, 9);
	assert_int_equal(a.max_tokens, 0);
	api_request_release(&a);
	refused(API_COMPLETION, "{\"prompt\":\"\",\"temperature\":-0.1}", 400,
		"invalid_value", "temperature");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"top_p\":0}", 400,
		"invalid_value", "top_p");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"n\":1.5}", 400,
		"invalid_type", "n");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"n\":0}", 400,
		"invalid_value", "n");
	refused(API_COMPLETION, "{\"prompt\":[\"\",\"\"],\"n\":65}", 400,
		"invalid_value", "n");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"logprobs\":21}", 400,
		"invalid_value", "logprobs");
}

static void best_of_is_not_less_than_n(void **state)
{
	struct api_request a;

	taken(&a, API_COMPLETION, "{\"prompt\":\"\",\"n\":2}");
	assert_int_equal(a.best_of, 2);
	api_request_release(&a);
	taken(&a, API_COMPLETION, "{\"prompt\":\"\",\"n\":2,\"best_of\":3}");
	assert_int_equal(a.n, 2);
	assert_int_equal(a.best_of, 3);
	api_request_release(&a);
	taken(&a, API_COMPLETION,
		"{\"prompt\":\"\",\"n\":2,\"best_of\":2,\"stream\":true}");
	api_request_release(&a);
	refused(API_COMPLETION, "{\"prompt\":\"\",\"n\":2,\"best_of\":1}", 400,
		"invalid_value", "best_of");
	refused(API_COMPLETION,
		"{\"prompt\":\"\",\"best_of\":2,\"stream\":true}", 400,
		"invalid_value", "best_of");
	refused(API_COMPLETION, "{\"prompt\":[\"\",\"\"],\"best_of\":65}", 400,
		"invalid_value", "best_of");
	refused(API_CHAT,
		"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
		"\"best_of\":1}",
		400, "unsupported_parameter", "best_of");
}

static void members_without_effect_are_accepted(void **state)
{
	struct api_request a;

	taken(&a, API_CHAT,
		"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
		"\"user\":7,\"metadata\":{},\"logit_bias\":{},\"tools\":[],"
		"\"tool_choice\":\"auto\",\"echo\":null}");
	api_request_release(&a);
	refused(API_COMPLETION, "{\"prompt\":\"\",\"echo\":true}", 400,
		"unsupported_parameter", "echo");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"messages\":[]}", 400,
		"unsupported_parameter", "messages");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"prmpt\":1}", 400,
		"unsupported_parameter", "prmpt");
}

static void names_of_an_engine_are_kept_until_the_prompt_is_tokenized(
	void **state)
{
	struct api_request a;

	taken(&a, API_COMPLETION,
		"{\"prompt\":\"\",\"model\":\"m\",\"method\":\"chain\","
		"\"draft\":\"pld\",\"clock\":\"wall\",\"precision\":\"int8\"}");
	assert_string_equal(a.model, "m");
	assert_string_equal(a.method, "chain");
	assert_string_equal(a.draft, "pld");
	assert_string_equal(a.clock, "wall");
	assert_string_equal(a.precision, "int8");
	api_request_trim(&a);
	assert_null(a.model);
	assert_null(a.precision);
	api_request_release(&a);
	refused(API_COMPLETION, "{\"prompt\":\"\",\"method\":1}", 400,
		"invalid_type", "method");
}

static void stops_are_strings(void **state)
{
	struct api_request a;
	char body[4200];

	taken(&a, API_COMPLETION, "{\"prompt\":\"\",\"stop\":\"x\"}");
	assert_string_equal(a.stop[0], "x");
	assert_null(a.stop[1]);
	api_request_release(&a);
	taken(&a, API_COMPLETION, "{\"prompt\":\"\",\"stop\":[\"x\",\"yy\"]}");
	assert_string_equal(a.stop[1], "yy");
	api_request_release(&a);
	refused(API_COMPLETION, "{\"prompt\":\"\",\"stop\":[\"\"]}", 400,
		"invalid_type", "stop");
	snprintf(body, sizeof(body), "{\"prompt\":\"\",\"stop\":\"%04096d\"}",
		0);
	taken(&a, API_COMPLETION, body);
	api_request_release(&a);
	snprintf(body, sizeof(body), "{\"prompt\":\"\",\"stop\":\"%04097d\"}",
		0);
	refused(API_COMPLETION, body, 400, "invalid_value", "stop");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"stop\":[1]}", 400,
		"invalid_type", "stop");
}

static void log_probabilities_can_be_requested(void **state)
{
	struct api_request a;

	taken(&a, API_COMPLETION, "{\"prompt\":\"\",\"logprobs\":0}");
	assert_true(a.wants_logprobs);
	assert_int_equal(a.top_logprobs, 0);
	api_request_release(&a);
	taken(&a, API_CHAT,
		"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
		"\"logprobs\":true,\"top_logprobs\":5}");
	assert_true(a.wants_logprobs);
	assert_int_equal(a.top_logprobs, 5);
	api_request_release(&a);
	refused(API_CHAT,
		"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
		"\"top_logprobs\":5}",
		400, "invalid_value", "top_logprobs");
}

static void biases_and_penalties_have_bounds(void **state)
{
	struct api_request a;
	struct strbuf many = STRBUF_INIT;

	taken(&a, API_COMPLETION,
		"{\"prompt\":\"\",\"logit_bias\":{\"5\":-100,\"17\":0.5},"
		"\"presence_penalty\":-2,\"frequency_penalty\":1.5}");
	assert_int_equal(a.n_bias, 2);
	assert_int_equal(a.bias[0].id, 5);
	assert_true(a.bias[0].bias == -100 && a.bias[1].bias == 0.5f);
	assert_true(a.presence_penalty == -2 && a.frequency_penalty == 1.5);
	api_request_release(&a);
	refused(API_COMPLETION, "{\"prompt\":\"\",\"presence_penalty\":2.1}",
		400, "invalid_value", "presence_penalty");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"logit_bias\":[5]}", 400,
		"invalid_type", "logit_bias");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"logit_bias\":{\"a\":1}}",
		400, "invalid_value", "logit_bias");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"logit_bias\":{\"-1\":1}}",
		400, "invalid_value", "logit_bias");
	refused(API_COMPLETION,
		"{\"prompt\":\"\",\"logit_bias\":{\"4294967297\":1}}", 400,
		"invalid_value", "logit_bias");
	refused(API_COMPLETION,
		"{\"prompt\":\"\",\"logit_bias\":{\"1\":\"x\"}}", 400,
		"invalid_type", "logit_bias");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"logit_bias\":{\"1\":-101}}",
		400, "invalid_value", "logit_bias");
	strbuf_addf(&many, "{\"prompt\":\"\",\"logit_bias\":{\"0\":1");
	for (int i = 1; i <= TANDEM_BIASES; i++)
		strbuf_addf(&many, ",\"%d\":1", i);
	strbuf_addf(&many, "}}");
	refused(API_COMPLETION, many.data, 400, "invalid_value", "logit_bias");
	strbuf_release(&many);
}

static void embeddings_have_inputs_and_a_format(void **state)
{
	struct api_request a;
	struct strbuf many = STRBUF_INIT;

	taken(&a, API_EMBEDDING, "{\"input\":\"a\",\"user\":\"u\"}");
	assert_int_equal(a.n_prompts, 1);
	assert_false(a.base64);
	assert_int_equal(a.dimensions, 0);
	api_request_release(&a);
	taken(&a, API_EMBEDDING,
		"{\"model\":\"m\",\"input\":[[1,2],[3]],\"encoding_format\":"
		"\"base64\",\"dimensions\":8}");
	assert_int_equal(a.n_prompts, 2);
	assert_int_equal(a.prompt[1].tokens[0], 3);
	assert_true(a.base64);
	assert_int_equal(a.dimensions, 8);
	api_request_release(&a);
	refused(API_EMBEDDING, "{}", 400, "missing_required_parameter",
		"input");
	refused(API_EMBEDDING, "{\"input\":[]}", 400, "invalid_type", "input");
	refused(API_EMBEDDING, "{\"input\":7}", 400, "invalid_type", "input");
	refused(API_EMBEDDING, "{\"input\":\"a\",\"encoding_format\":\"hex\"}",
		400, "invalid_type", "encoding_format");
	refused(API_EMBEDDING, "{\"input\":\"a\",\"encoding_format\":1}", 400,
		"invalid_type", "encoding_format");
	refused(API_EMBEDDING, "{\"input\":\"a\",\"dimensions\":0}", 400,
		"invalid_value", "dimensions");
	refused(API_EMBEDDING, "{\"input\":\"a\",\"temperature\":1}", 400,
		"unsupported_parameter", "temperature");
	refused(API_COMPLETION, "{\"prompt\":\"a\",\"dimensions\":8}", 400,
		"unsupported_parameter", "dimensions");
	/* A request may have up to 2048 texts. */
	strbuf_addf(&many, "{\"input\":[\"a\"");
	for (int i = 1; i < API_INPUTS; i++)
		strbuf_addf(&many, ",\"a\"");
	strbuf_addf(&many, "]}");
	taken(&a, API_EMBEDDING, many.data);
	assert_int_equal(a.n_prompts, API_INPUTS);
	api_request_release(&a);
	many.len -= 2;
	strbuf_addf(&many, ",\"a\"]}");
	refused(API_EMBEDDING, many.data, 400, "invalid_value", "input");
	strbuf_release(&many);
}

static void json_can_be_requested_with_and_without_a_schema(void **state)
{
	struct api_request a;

	taken(&a, API_COMPLETION,
		"{\"prompt\":\"\",\"response_format\":{\"type\":\"text\"}}");
	assert_null(a.json_schema);
	api_request_release(&a);
	taken(&a, API_COMPLETION,
		"{\"prompt\":\"\",\"response_format\":{\"type\":"
		"\"json_object\"}}");
	assert_string_equal(a.json_schema, "{\"type\":\"object\"}");
	api_request_release(&a);
	taken(&a, API_COMPLETION,
		"{\"prompt\":\"\",\"response_format\":{\"type\":"
		"\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":"
		"{\"const\":1}}}}");
	assert_string_equal(a.json_schema, "{\"const\":1}");
	api_request_release(&a);
	refused(API_COMPLETION,
		"{\"prompt\":\"\",\"response_format\":{\"type\":\"xml\"}}", 400,
		"invalid_value", "response_format");
	refused(API_COMPLETION,
		"{\"prompt\":\"\",\"response_format\":{\"type\":"
		"\"json_schema\"}}",
		400, "invalid_type", "response_format.json_schema.schema");
}

static void invalid_json_is_refused_with_its_position(void **state)
{
	refused(API_COMPLETION, "", 400, "invalid_json", "");
	refused(API_COMPLETION, "{\"prompt\":\"a\"", 400, "invalid_json", "");
	refused(API_COMPLETION, "[]", 400, "invalid_json", "");
	refused(API_COMPLETION, "{\"prompt\":\"\",\"prompt\":\"\"}", 400,
		"invalid_json", "");
	refused(API_COMPLETION, "{\"prompt\":\"\xff\"}", 400, "invalid_json",
		"");
}

static void tokenize_takes_text_and_detokenize_takes_tokens(void **state)
{
	struct api_request a;

	taken(&a, API_TOKENIZE, "{\"prompt\":\"ab\",\"special\":true}");
	assert_true(a.special);
	api_request_release(&a);
	taken(&a, API_DETOKENIZE, "{\"tokens\":[1,2]}");
	assert_int_equal(a.prompt[0].n_tokens, 2);
	api_request_release(&a);
	refused(API_TOKENIZE, "{\"prompt\":[1]}", 400, "invalid_type",
		"prompt");
	refused(API_DETOKENIZE, "{\"tokens\":\"ab\"}", 400, "invalid_type",
		"tokens");
	refused(API_DETOKENIZE, "{}", 400, "missing_required_parameter",
		"tokens");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_prompt_alone_has_the_defaults_of_run),
	cmocka_unit_test(streams_may_report_passes),
	cmocka_unit_test(prompts_are_texts_or_tokens),
	cmocka_unit_test(turns_have_roles_and_parts),
	cmocka_unit_test(requests_may_have_a_priority_and_a_deadline),
	cmocka_unit_test(numbers_have_bounds),
	cmocka_unit_test(best_of_is_not_less_than_n),
	cmocka_unit_test(members_without_effect_are_accepted),
	cmocka_unit_test(
		names_of_an_engine_are_kept_until_the_prompt_is_tokenized),
	cmocka_unit_test(stops_are_strings),
	cmocka_unit_test(log_probabilities_can_be_requested),
	cmocka_unit_test(biases_and_penalties_have_bounds),
	cmocka_unit_test(embeddings_have_inputs_and_a_format),
	cmocka_unit_test(json_can_be_requested_with_and_without_a_schema),
	cmocka_unit_test(invalid_json_is_refused_with_its_position),
	cmocka_unit_test(tokenize_takes_text_and_detokenize_takes_tokens),
};
TEST_FILE(tests)
