/*
 * Tools in chats. Prompts that list tools, calls and results are compared with
 * the prompts of real templates (chat_tools_golden.py). Some tools are refused.
 * Calls that the form (grammar) of an output allows are drawn at random, found
 * in the output by the reader, and compared with their schemas by an
 * independent validator.
 */
#include "tests/harness.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/chat_tools.h"
#include "host/text/json_form.h"
#include "host/text/token_trie.h"
#include "tests/host/text/json_check.h"
#include "tests/host/text/tok_check.h"

#include <errno.h>
#include <stdlib.h>

#define END     2
#define CONTROL 3 /* type of a control token */

/* Templates reduced to the markers that distinguish the styles of tool
 * calls. */
static const char qwen[] = "<|im_start|> <tools> <tool_call>";
static const char llama[] =
	"<|start_header_id|> <|eot_id|> ipython \"parameters\": ";
static const char nemo[] =
	"'[INST]' '[/INST]' [AVAILABLE_TOOLS][ [TOOL_CALLS][";
static const char v3[] =
	"'[INST] ' '[/INST]' [AVAILABLE_TOOLS] [ [TOOL_CALLS] [";
static const char v7[] =
	"[SYSTEM_PROMPT]' '[INST]' '[/INST]' [AVAILABLE_TOOLS][ [TOOL_CALLS][ "
	"[TOOL_CONTENT]";
static const char gemma[] = "<start_of_turn>";

static const struct call_style *style_of(const char *text)
{
	return call_style_recognise(text, strlen(text));
}

static void test_recognise(void **state)
{
	const struct call_style *plain = style_of(gemma);

	assert_ptr_not_equal(style_of(qwen), plain);
	assert_ptr_not_equal(style_of(llama), plain);
	assert_ptr_not_equal(style_of(nemo), style_of(v3));
	assert_ptr_not_equal(style_of(nemo), style_of(v7));
	assert_ptr_equal(style_of("<|im_start|>"), plain);
	assert_ptr_equal(
		style_of("<|im_start|> <tools> <tool_call><function="), plain);
	assert_ptr_equal(style_of("<|start_header_id|> <|eot_id|>"), plain);
	assert_ptr_equal(style_of("'[INST]' '[/INST]' [AVAILABLE_TOOLS] "
				  "[TOOL_CALLS] [ARGS]"),
		plain);
	assert_ptr_equal(style_of(""), plain);
}

/* ---- prompts ------------------------------------------------------------- */

#define TURNS 12

static enum chat_role role_of(const char *name)
{
	if (!strcmp(name, "call"))
		return CHAT_CALL;
	if (!strcmp(name, "tool"))
		return CHAT_RESULT;
	return (enum chat_role)chat_role_of(name);
}

static struct chat_tools *tools_of(
	const char *template, const char *json, bool must)
{
	const struct chat_tools_opts o = { .json = json, .must = must };
	struct chat_tools *t;
	struct err e = { 0 };

	assert_ok(chat_tools_open(&t, style_of(template), &o, &e), &e);
	return t;
}

/* Write a conversation as chat_format does. Returns the text. */
static char *write_chat(const char *template, const struct chat_tools *tools,
	const struct chat_turn *turn, size_t n)
{
	enum chat_family family = chat_recognise(template, strlen(template));
	struct text_span part[2 * TURNS];
	struct strbuf out = STRBUF_INIT;
	struct chat_plan plan;
	struct err e = { 0 };

	assert_ok(chat_plan(&plan, style_of(template), tools, turn, n, &e), &e);
	assert_in_range(plan.n, n - 1, 2 * TURNS);
	assert_ok(chat_format(family, plan.turn, plan.n, &out, part, &e), &e);
	chat_plan_release(&plan);
	return out.data;
}

static void check_golden(
	json_t *golden, json_t *tools, const char *template, const char *model)
{
	char *json = json_dumps(tools, JSON_COMPACT);
	struct chat_tools *t = tools_of(template, json, true);
	unsigned texts = 0;
	json_t *one, *said;
	size_t i, k;

	json_array_foreach(golden, i, one)
	{
		const char *want =
			json_string_value(json_object_get(one, "text"));
		json_t *turns = json_object_get(one, "turns");
		struct chat_turn turn[TURNS];
		char *got;

		if (!want ||
			!strstr(json_string_value(
					json_object_get(one, "model")),
				model))
			continue;
		json_array_foreach(turns, k, said)
		{
			json_t *text = json_array_get(said, 1);

			turn[k] = (struct chat_turn){
				role_of(json_string_value(
					json_array_get(said, 0))),
				json_string_value(text),
				json_string_length(text)
			};
		}
		got = write_chat(template, t, turn, json_array_size(turns));
		/* QwQ's template also writes the beginning of the answer,
		 * <think>. */
		if (strncmp(got, want, strlen(got)) != 0 ||
			(strcmp(got, want) && !strstr(want, "<think>")))
			fail_msg("%s:\n%s\nnot\n%s", model, got, want);
		free(got);
		texts++;
	}
	assert_true(texts >= 4);
	chat_tools_close(t);
	free(json);
}

static void test_golden(void **state)
{
	json_error_t error;
	json_t *golden = json_load_file(
		"tests/host/text/chat_tools_golden.json", 0, &error);
	json_t *texts = json_object_get(golden, "texts");
	json_t *tools = json_object_get(golden, "tools");

	if (!golden)
		fail_msg("line %d: %s", error.line, error.text);
	check_golden(texts, tools, qwen, "Qwen2.5");
	check_golden(texts, tools, qwen, "QwQ");
	check_golden(texts, tools, llama, "Llama-3.1");
	check_golden(texts, tools, llama, "Llama-3.3");
	check_golden(texts, tools, nemo, "Mistral-Nemo");
	json_decref(golden);
}

#define TOOL(name) \
	"{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static void test_written(void **state)
{
	struct chat_tools *t = tools_of(gemma, "[" TOOL("f") "]", true);
	struct chat_turn turn[] = { { CHAT_USER, "Hi", 2 },
		{ CHAT_CALL, "f {}", 4 }, { CHAT_RESULT, "one", 3 },
		{ CHAT_ASSISTANT, "", 0, .written = true },
		{ CHAT_RESULT, "two", 3 } };
	char *text = write_chat(gemma, t, turn, 3);

	/* If a template has no format of its own for tools, the tools are
	 * listed in the system turn, and results are user turns. In gemma the
	 * first user turn contains the system turn. */
	assert_non_null(strstr(text,
		"<start_of_turn>user\nThese functions can be called:\n{\"type\""
		": \"function\", \"function\": {\"name\": \"f\"}}\nTo call"));
	assert_non_null(strstr(text,
		"\n\nHi<end_of_turn>\n<start_of_turn>model\n{\"name\": \"f\", "
		"\"arguments\": {}}<end_of_turn>\n<start_of_turn>user\none"));
	free(text);
	/* An answer that is given as tokens also counts as a call, so the
	 * second result has the next call id. */
	text = write_chat(nemo, NULL, turn, 5);
	assert_string_equal(text,
		"[INST]Hi[/INST][TOOL_CALLS][{\"name\": \"f\", \"arguments\": "
		"{}, \"id\": \"call00000\"}]</s>[TOOL_RESULTS]{\"content\": "
		"\"one\", \"call_id\": \"call00000\"}[/TOOL_RESULTS]</s>"
		"[TOOL_RESULTS]{\"content\": \"two\", \"call_id\": "
		"\"call00001\"}[/TOOL_RESULTS]");
	free(text);
	text = write_chat(v7, NULL, turn, 3);
	assert_non_null(strstr(text,
		"[TOOL_RESULTS]call00000[TOOL_CONTENT]one[/TOOL_RESULTS]"));
	free(text);
	chat_tools_close(t);
}

static void test_refused_turns(void **state)
{
	static const struct {
		struct chat_turn turn[2];
		const char *reason;
	} cases[] = {
		{ { { CHAT_USER, "a", 1 }, { CHAT_CALL, "f {}", 4 } },
			"turn 2 is a tool call, but the next turn is not its "
			"result" },
		{ { { CHAT_USER, "a", 1 }, { CHAT_RESULT, "b", 1 } },
			"turn 2 is the result of a tool call, but the turn "
			"before" },
		{ { { CHAT_CALL, "f", 1 }, { CHAT_RESULT, "b", 1 } },
			"turn 1 is a tool call, but does not consist of" },
		{ { { CHAT_CALL, "<eos> {}", 8 }, { CHAT_RESULT, "b", 1 } },
			"turn 1 is a tool call, but does not consist of" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct chat_plan plan;
		struct err e = { 0 };

		assert_int_equal(chat_plan(&plan, style_of(qwen), NULL,
					 cases[i].turn, 2, &e),
			-EINVAL);
		assert_non_null(strstr(e.text, cases[i].reason));
		chat_plan_release(&plan);
	}
}

/* ---- tools --------------------------------------------------------------- */

#define PARAMETERS(schema)                                                    \
	"[" TOOL("a") ",{\"type\":\"function\",\"function\":{\"name\":\"f\"," \
		      "\"parameters\":" schema "}}]"

static const struct {
	const char *json, *only, *reason;
	bool free;
} refused[] = {
	{ "{", NULL, "tools must be a JSON list" },
	{ "[]", NULL, "tools must be a JSON list of at least one" },
	{ "[{\"type\":\"web_search\"}]", NULL, "tools[0].type must be" },
	{ "[{\"type\":\"function\"}]", NULL, "tools[0].function must be" },
	{ "[{\"type\":\"function\",\"function\":{}}]", NULL,
		"tools[0].function.name must be" },
	{ "[" TOOL("a b") "]", NULL, "tools[0].function.name must be" },
	{ "[" TOOL("a") "," TOOL("a") "]", NULL,
		"tools[1].function.name is the name of an earlier" },
	{ "[" TOOL("a") "]", "b", "tool_choice is the function 'b'" },
	{ "[{\"type\":\"function\",\"x\":1,\"function\":{\"name\":\"f\"}}]",
		NULL, "tools[0].x is not supported" },
	{ "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"y\":1}}]",
		NULL, "tools[0].function.y is not supported" },
	{ "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
	  "\"strict\":1}}]",
		NULL, "tools[0].function.strict must be" },
	{ "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
	  "\"description\":1}}]",
		NULL, "tools[0].function.description must be" },
	{ PARAMETERS("1"), NULL, "tools[1].function.parameters must be" },
	{ PARAMETERS("{\"type\":\"array\"}"), NULL,
		"tools[1].function.parameters must have the type 'object'" },
	{ PARAMETERS("{\"$ref\":\"#\"}"), NULL,
		"tools[1].function.parameters must have the type 'object'" },
	{ PARAMETERS("{\"properties\":{\"x\":{\"pattern\":\"a\"}}}"), NULL,
		"tools[1].function.parameters#/properties/x: the keyword "
		"'pattern' is not supported" },
	{ PARAMETERS("{\"properties\":{\"x\":{\"$ref\":\"#\"}},\"required\":["
		     "\"x\"]}"),
		NULL, "tools[1].function.parameters: no arguments" },
	{ "[" TOOL("a") "]", NULL, "tool_choice is 'auto'", true },
};

static void test_refused_tools(void **state)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const struct chat_tools_opts o = { .json = refused[i].json,
			.only = refused[i].only,
			.must = !refused[i].free };
		struct chat_tools *t;
		struct err e = { 0 };
		int ret = chat_tools_open(&t, style_of(gemma), &o, &e);

		if (ret != -EINVAL || !strstr(e.text, refused[i].reason))
			fail_msg("%s gives %d: %s", refused[i].json, ret,
				e.text);
	}
}

/* ---- output -------------------------------------------------------------- */

static struct tokenizer *tokenizer;
static struct token_trie *trie;

static int setup(void **state)
{
	static const char *const words[] = { "<tool_call>", "<tool",
		"_call>\n{", "{\"", "\":", "\", \"", "\"}", "}}", "name",
		"{\"name\": \"", "arguments", "\"parameters\": {", "}\n</",
		"call>\n<tool", "[{\"", "true", "}]", "f0", "f1\"" };
	struct err e = { 0 };
	struct vocab v;

	vocab_spm(&v);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		vocab_add(&v, words[i], 1, -1.0f);
	vocab_add(&v, "[TOOL_CALLS]", CONTROL, 0);
	vocab_add(&v, "</tool_call>", CONTROL, 0);
	vocab_add(&v, "<pad>", CONTROL, 0);
	tokenizer = open_vocab(&v);
	assert_ok(token_trie_open(&trie, tokenizer, &e), &e);
	return 0;
}

static int teardown(void **state)
{
	token_trie_close(trie);
	tokenizer_close(tokenizer);
	return 0;
}

#define CALLS 40

/* What the reader found in an output. */
struct found {
	struct strbuf text, arguments[CALLS];
	char name[CALLS][65];
	bool ended[CALLS];
	unsigned n;
};

static int take_call(void *arg, unsigned index, const char *name,
	const char *piece, size_t len, bool ended)
{
	struct found *f = arg;

	assert_in_range(index, f->n ? f->n - 1 : 0, f->n);
	assert_in_range(index, 0, CALLS - 1);
	if (index == f->n) {
		assert_true(!f->n || f->ended[f->n - 1]);
		f->n++;
	}
	snprintf(f->name[index], sizeof(f->name[index]), "%s", name);
	strbuf_add(&f->arguments[index], piece, len);
	f->ended[index] = ended;
	return 0;
}

static void release(struct found *f)
{
	strbuf_release(&f->text);
	for (unsigned i = 0; i < CALLS; i++)
		strbuf_release(&f->arguments[i]);
}

/* Draw an output of at most `most` tokens. Returns whether it is complete. */
static bool draw_output(struct draw *d, struct chat_tools *t, bool must,
	unsigned most, struct found *found)
{
	struct call_reader reader = {
		.style = t->style, .must = must, .call = take_call, .arg = found
	};
	struct detokenizer detok = { .tok = tokenizer, .started = true };
	struct strbuf piece = STRBUF_INIT;
	float logits[VOCAB_MAX];
	struct json_front place;
	struct json_form *form;
	struct err e = { 0 };
	bool over = false;

	call_style_tags(t->style, tokenizer, &reader.tags);
	assert_ok(json_form_open_nodes(&form, t->nodes, &reader.tags, trie, &e),
		&e);
	t->nodes = NULL;
	json_begin(json_form_machine(form), &place);
	for (unsigned i = 0; i < most && !over; i++) {
		const float *row;
		int32_t best = -1;

		for (uint32_t k = 0; k < trie->n_vocab; k++) {
			const char *bytes = trie->bytes + trie->at[k];

			logits[k] = (float)draw_below(d, 1000);
			if (trie->at[k + 1] - trie->at[k] == 1 &&
				strchr("}]\"", *bytes))
				logits[k] += 500;
		}
		for (unsigned k = 0; k < reader.tags.n; k++)
			logits[reader.tags.id[k]] += 300;
		row = json_form_mask(form, &place, logits, trie->n_vocab);
		assert_non_null(row);
		for (uint32_t k = 0; k < trie->n_vocab; k++)
			if (isfinite(row[k]) &&
				(best < 0 || row[k] > row[best]))
				best = (int32_t)k;
		assert_true(best >= 0);
		if (best == END)
			break;
		assert_true(json_form_take(form, &place, best));
		strbuf_reset(&piece);
		detokenize(&detok, best, &piece);
		assert_int_equal(call_reader_add(&reader, best, piece.data,
					 piece.len, &found->text),
			0);
		over = json_is_over(json_form_machine(form), &place);
	}
	over |= json_form_mask(form, &place, logits, trie->n_vocab)[END] ==
		logits[END];
	call_reader_end(&reader, &found->text);
	strbuf_release(&piece);
	json_form_close(form);
	return over;
}

/* Two tools, named f0 and f1, of random schemas; parameters[i] receives the
 * schema of tool i. */
static char *draw_tools(struct draw *d, json_t **parameters)
{
	json_t *list = json_array();
	char *text;

	for (int i = 0; i < 2; i++) {
		parameters[i] = json_object();
		json_object_set_new(
			parameters[i], "type", json_string("object"));
		draw_object(d, parameters[i], 2);
		json_object_set_new(parameters[i], "$defs",
			json_pack("{soso}", "one", draw_typed(d, 1), "two",
				draw_typed(d, 1)));
		json_array_append_new(list,
			json_pack("{s:s, s:{s:o, s:O}}", "type", "function",
				"function", "name", json_sprintf("f%d", i),
				"parameters", parameters[i]));
	}
	text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	return text;
}

/* Check the arguments of all complete calls. Returns the number of calls. */
static unsigned check_calls(
	const struct found *f, json_t **parameters, const char *tools)
{
	for (unsigned i = 0; i < f->n; i++) {
		const struct strbuf *a = &f->arguments[i];
		bool first = !strcmp(f->name[i], "f0");
		json_t *s = parameters[!first], *v;

		assert_true(first || !strcmp(f->name[i], "f1"));
		if (!f->ended[i])
			continue;
		v = json_loadb(a->data, a->len, 0, NULL);
		if (!v || !check_fits(s, s, v))
			fail_msg("%s of %s: %.*s", f->name[i], tools,
				(int)a->len, a->data);
		json_decref(v);
	}
	return f->n;
}

static void test_output(void **state)
{
	static const char *const templates[] = { qwen, llama, nemo, v3, gemma };
	struct draw d = { harness_seed() };
	unsigned calls[5] = { 0 }, cut = 0, texts = 0, several = 0;

	for (unsigned i = 0; i < 800; i++) {
		const char *template = templates[i % 5];
		bool must = template == gemma || draw_below(&d, 2);
		struct found f = { 0 };
		json_t *parameters[2];
		char *json = draw_tools(&d, parameters);
		const struct chat_tools_opts o = { .json = json,
			.must = must,
			.one = draw_below(&d, 2),
			.only = must && draw_below(&d, 2) ? "f1" : NULL };
		struct chat_tools *t;
		struct err e = { 0 };
		int ret = chat_tools_open(&t, style_of(template), &o, &e);

		if (!ret) {
			bool over = draw_output(&d, t, must, 300, &f);
			unsigned n = check_calls(&f, parameters, json);

			calls[i % 5] += n;
			cut += !over;
			several += n > 1;
			texts += f.text.len > 0;
			assert_true(!must || !f.text.len);
			assert_true(!must || !over || n);
			assert_true(!o.one || n <= 1);
			if (o.only && n)
				assert_string_equal(f.name[0], "f1");
			if (over && n)
				assert_true(f.ended[n - 1]);
		} else if (!strstr(e.text, "no arguments with at most") &&
			!strstr(e.text, "satisfies minimum and maximum")) {
			fail_msg("%s: %s", json, e.text);
		}
		chat_tools_close(t);
		release(&f);
		free(json);
		json_decref(parameters[0]);
		json_decref(parameters[1]);
	}
	print_message(
		"calls %u %u %u %u %u, %u cut, %u with text, %u several\n",
		calls[0], calls[1], calls[2], calls[3], calls[4], cut, texts,
		several);
	for (int i = 0; i < 5; i++)
		assert_true(calls[i] > 20);
	assert_true(texts > 100 && several > 20);
}

/* The bytes of an output go through the reader one by one, so that each part
 * arrives in pieces of one byte. */
static void read_bytes(
	const char *template, bool must, const char *text, struct found *f)
{
	struct call_reader reader = { .style = style_of(template),
		.must = must,
		.call = take_call,
		.arg = f };

	for (const char *p = text; *p; p++)
		call_reader_add(&reader, 5, p, 1, &f->text);
	call_reader_end(&reader, &f->text);
}

static void test_reader(void **state)
{
	static const struct {
		const char *template, *out, *text, *arguments[2];
		bool must;
	} cases[] = {
		{ qwen,
			"a <tool<tool_call>\n{\"name\": \"f\", \"arguments\": "
			"{\"x\": \"}\\\"{\"}}\n</tool_call>\n<tool_call>\n{\"na"
			"me\": \"g\", \"arguments\": {}}\n</tool_call>",
			"a <tool", { "{\"x\": \"}\\\"{\"}", "{}" } },
		{ qwen, "<tool_cal", "<tool_cal" },
		{ qwen, "<<tool_calx", "<<tool_calx" },
		{ llama, "{\"name\": \"f\", \"parameters\": {\"a\": [{}]}}", "",
			{ "{\"a\": [{}]}" } },
		{ llama, "{\"nam\": 1} {\"name\": \"f\"",
			"{\"nam\": 1} {\"name\": \"f\"" },
		{ nemo,
			"x[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}, "
			"{\"name\": \"g\", \"arguments\": {\"a\"",
			"x", { "{}", "{\"a\"" } },
		{ gemma, "{\"name\": \"f\", \"arguments\": {}}", "", { "{}" },
			true },
		{ gemma, "{\"name\": \"f", "", { NULL }, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct found f = { 0 };

		strbuf_add(&f.text, "", 0);
		read_bytes(cases[i].template, cases[i].must, cases[i].out, &f);
		assert_int_equal(f.text.len, strlen(cases[i].text));
		assert_memory_equal(f.text.data ? f.text.data : "",
			cases[i].text, f.text.len);
		for (unsigned k = 0; k < 2 && cases[i].arguments[k]; k++) {
			assert_true(f.n > k);
			assert_string_equal(f.name[k], k ? "g" : "f");
			assert_int_equal(f.arguments[k].len,
				strlen(cases[i].arguments[k]));
			assert_memory_equal(f.arguments[k].data,
				cases[i].arguments[k], f.arguments[k].len);
		}
		if (!cases[i].arguments[0])
			assert_int_equal(f.n, 0);
		release(&f);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_recognise),
	cmocka_unit_test(test_golden),
	cmocka_unit_test(test_written),
	cmocka_unit_test(test_refused_turns),
	cmocka_unit_test(test_refused_tools),
	cmocka_unit_test(test_reader),
	cmocka_unit_test_setup_teardown(test_output, setup, teardown),
};
TEST_FILE(tests)
