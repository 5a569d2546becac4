/*
 * Recognizing and applying chat templates. The templates here are those of
 * model files, reduced to the loop over the messages with the markers of the
 * family. The expected output comes from chat_golden.py, which rendered whole
 * templates with another engine.
 */
#include "tests/harness.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/chat.h"
#include "host/text/tokenizer.h"
#include "tests/host/text/vocab_file.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#define LOOP   "{% for message in messages %}"
#define END    "{% endfor %}"
#define PROMPT "{% if add_generation_prompt %}"

static const struct {
	enum chat_family family;
	const char *template;
} recognised[] = {
	{ CHAT_CHATML,
		LOOP "{{'<|im_start|>' + message['role'] + '\n' + "
		     "message['content'] + '<|im_end|>' + '\n'}}" END PROMPT
		     "{{ '<|im_start|>assistant\n' }}{% endif %}" },
	/* Code for tools and for thinking does not prevent recognition. */
	{ CHAT_CHATML,
		"{%- if tools %}{{- '<|im_start|>system\\n' }}"
		"{{- '<tools>' }}{% endif %}" LOOP
		"{{- '<|im_start|>' + message.role }}" END PROMPT
		"{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}"
		"{% endif %}" },
	{ CHAT_LLAMA2,
		"{% if messages[0]['role'] == 'system' %}"
		"{% set content = '<<SYS>>\\n' + system_message + "
		"'\\n<</SYS>>\\n\\n' + message['content'] %}{% endif %}"
		"{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}" },
	{ CHAT_LLAMA3,
		LOOP "{% set content = '<|start_header_id|>' + "
		     "message['role'] + '<|end_header_id|>\\n\\n' + "
		     "message['content'] | trim + '<|eot_id|>' %}" END },
	{ CHAT_MISTRAL,
		"{{ bos_token }}" LOOP "{% if message['role'] == 'user' %}"
		"{{ '[INST] ' + message['content'] + ' [/INST]' }}"
		"{% endif %}" END },
	{ CHAT_MISTRAL_V3,
		"{{- bos_token }}" LOOP
		"{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}" END },
	{ CHAT_MISTRAL_TEKKEN,
		"{{- bos_token }}" LOOP
		"{{- \"[INST]\" + message[\"content\"] + \"[/INST]\" }}" END },
	{ CHAT_MISTRAL_V1,
		"{{ bos_token }}" LOOP
		"{{- ' [INST] ' + message['content'] + ' [/INST]' }}" END },
	{ CHAT_MISTRAL_V7,
		"{{- '[SYSTEM_PROMPT] ' + system + '[/SYSTEM_PROMPT]' }}" LOOP
		"{{- '[INST] ' + message['content'] + '[/INST]' }}" END },
	{ CHAT_MISTRAL_V7_TEKKEN,
		"{{- '[SYSTEM_PROMPT]' + system + '[/SYSTEM_PROMPT]' }}" LOOP
		"{{- '[INST]' + message['content'] + '[/INST]' }}" END },
	{ CHAT_GEMMA,
		LOOP "{{ '<start_of_turn>' + role + '\n' + "
		     "message['content'] | trim + '<end_of_turn>\n' }}" END },
	{ CHAT_PHI3,
		LOOP "{% if message['role'] == 'user' %}"
		     "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
		     "{% endif %}" END PROMPT "{{ '<|assistant|>\n' }}" },
	{ CHAT_ZEPHYR,
		LOOP "{% if message['role'] == 'user' %}"
		     "{{ '<|user|>\\n' + message['content'] + eos_token }}"
		     "{% endif %}" END PROMPT "{{ '<|assistant|>' }}" },
	{ CHAT_DEEPSEEK,
		LOOP "{{'<\xef\xbd\x9cUser\xef\xbd\x9c>' + "
		     "message['content']}}{{'<\xef\xbd\x9c"
		     "Assistant\xef\xbd\x9c>' + message['content']}}" END },
	/* These templates are similar to those above, but other markers end the
	 * messages. */
	{ CHAT_UNKNOWN,
		LOOP "{{'<|im_start|>user<|im_sep|>' + message['content'] + "
		     "'<|im_end|>'}}" END },
	{ CHAT_UNKNOWN,
		LOOP "{{'<|user|>\\n' + message['content'] + "
		     "'<|endoftext|>'}}" END },
	{ CHAT_UNKNOWN, "### Instruction:\n{{ message['content'] }}\n" },
	{ CHAT_NONE, "" },
};

static void test_recognise(void **state)
{
	for (size_t i = 0; i < sizeof(recognised) / sizeof(recognised[0]);
		i++) {
		const char *text = recognised[i].template;
		enum chat_family got = chat_recognise(text, strlen(text));

		if (got != recognised[i].family)
			fail_msg("taken for %s, not %s: %s", chat_name(got),
				chat_name(recognised[i].family), text);
	}
}

/* ---- output of real templates -------------------------------------------- */

#define TURNS 8

/* A conversation of the golden file. The texts belong to the file's JSON. */
struct conversation {
	struct chat_turn turn[TURNS];
	size_t n;
};

static void read_turns(json_t *turns, struct conversation *c)
{
	c->n = json_array_size(turns);
	assert_in_range(c->n, 1, TURNS);
	for (size_t i = 0; i < c->n; i++) {
		json_t *turn = json_array_get(turns, i);
		json_t *text = json_array_get(turn, 1);
		int role = chat_role_of(
			json_string_value(json_array_get(turn, 0)));

		assert_in_range(role, 0, CHAT_ROLES - 1);
		c->turn[i] = (struct chat_turn){ (enum chat_role)role,
			json_string_value(text), json_string_length(text) };
	}
}

static enum chat_family family_named(const char *name)
{
	enum chat_family f = CHAT_CHATML;

	while (f < CHAT_FAMILY_COUNT && strcmp(chat_name(f), name))
		f++;
	assert_in_range(f, CHAT_CHATML, CHAT_FAMILY_COUNT - 1);
	return f;
}

/* Some templates refuse a system message. The program then places the message
 * as the other templates of the family do. */
static void check_refused(enum chat_family family, const struct conversation *c)
{
	struct text_span part[TURNS];
	struct strbuf out = STRBUF_INIT;
	struct err e = { 0 };
	int ret = chat_format(family, c->turn, c->n, &out, part, &e);

	if (c->turn[0].role == CHAT_SYSTEM && c->turn[1].role == CHAT_USER)
		assert_ok(ret, &e);
	else if (ret != -EINVAL || !strstr(e.text, chat_name(family)))
		fail_msg("%s: returned %d: %s", chat_name(family), ret, e.text);
	strbuf_release(&out);
}

static void check_text(
	enum chat_family family, const struct conversation *c, const char *want)
{
	struct text_span part[TURNS];
	struct strbuf out = STRBUF_INIT;
	struct err e = { 0 };

	assert_ok(chat_format(family, c->turn, c->n, &out, part, &e), &e);
	if (strcmp(out.data, want))
		fail_msg("%s gives\n%s\nnot\n%s", chat_name(family), out.data,
			want);
	for (size_t i = 0; i < c->n; i++) {
		const char *p = memmem(c->turn[i].text, c->turn[i].len,
			out.data + part[i].at, part[i].len);

		assert_true(part[i].len && part[i].at + part[i].len <= out.len);
		assert_non_null(p);
	}
	strbuf_release(&out);
}

/* Whether a template accepts an order of messages that the program refuses. No
 * template does, except that of deepseek, which moves a system message to the
 * front. */
static bool moves_system(enum chat_family family, const struct conversation *c)
{
	for (size_t i = 1; i < c->n; i++)
		if (c->turn[i].role == CHAT_SYSTEM)
			return family == CHAT_DEEPSEEK;
	return false;
}

/* Check every family with every order of messages; see chat_golden.py. */
static void test_golden(void **state)
{
	json_error_t error;
	json_t *golden =
		json_load_file("tests/host/text/chat_golden.json", 0, &error);
	unsigned texts[CHAT_FAMILY_COUNT] = { 0 };
	size_t i;
	json_t *g;

	if (!golden)
		fail_msg("line %d: %s", error.line, error.text);
	json_array_foreach(golden, i, g)
	{
		enum chat_family family = family_named(
			json_string_value(json_object_get(g, "family")));
		json_t *text = json_object_get(g, "text");
		struct conversation c;

		read_turns(json_object_get(g, "turns"), &c);
		if (json_is_null(text) || moves_system(family, &c)) {
			check_refused(family, &c);
			continue;
		}
		check_text(family, &c, json_string_value(text));
		texts[family]++;
	}
	for (enum chat_family f = CHAT_CHATML; f < CHAT_FAMILY_COUNT; f++)
		if (texts[f] < 3)
			fail_msg("%u texts of %s", texts[f], chat_name(f));
	json_decref(golden);
}

/* ---- parts --------------------------------------------------------------- */

static void part_is(
	const struct strbuf *out, struct text_span s, const char *want)
{
	assert_true(s.at + s.len <= out->len);
	assert_int_equal(s.len, strlen(want));
	assert_memory_equal(out->data + s.at, want, s.len);
}

/* chat_format reports where each part of the text begins and ends, and a NUL
 * byte does not end the user's text. */
static void test_parts(void **state)
{
	const struct chat_turn turn[] = { { CHAT_SYSTEM, "Sys", 3 },
		{ CHAT_USER, "User", 4 }, { CHAT_ASSISTANT, "Answer", 6 },
		{ CHAT_USER, "Us\0r", 4 } };

	for (enum chat_family f = CHAT_CHATML; f < CHAT_FAMILY_COUNT; f++) {
		struct text_span part[4];
		struct strbuf out = STRBUF_INIT;
		struct err e = { 0 };

		assert_ok(chat_format(f, turn, 4, &out, part, &e), &e);
		part_is(&out, part[0], "Sys");
		part_is(&out, part[1], "User");
		part_is(&out, part[2], "Answer");
		assert_int_equal(part[3].len, 4);
		assert_memory_equal(out.data + part[3].at, "Us\0r", 4);
		strbuf_release(&out);
	}
}

/* After an answer that the model wrote itself (`written`), the formatted
 * conversation continues the text with which the answer was requested, unless
 * the template moves the system message to the last turn. */
static void test_written(void **state)
{
	const struct chat_turn turn[] = { { CHAT_SYSTEM, "Sys", 3 },
		{ CHAT_USER, " User ", 6 },
		{ CHAT_ASSISTANT, NULL, 0, .written = true },
		{ CHAT_USER, "More", 4 } };

	for (enum chat_family f = CHAT_CHATML; f < CHAT_FAMILY_COUNT; f++) {
		bool moves = f == CHAT_MISTRAL_V3 || f == CHAT_MISTRAL_TEKKEN;
		struct text_span part[4];
		struct strbuf first = STRBUF_INIT, later = STRBUF_INIT;
		struct err e = { 0 };

		assert_ok(chat_format(f, turn, 2, &first, part, &e), &e);
		assert_ok(chat_format(f, turn, 4, &later, part, &e), &e);
		assert_int_equal(part[2].len, 0);
		if (moves)
			assert_true(part[0].at > part[2].at);
		else if (part[2].at != first.len ||
			memcmp(first.data, later.data, first.len))
			fail_msg("%s: '%s' does not begin '%s'", chat_name(f),
				first.data, later.data);
		strbuf_release(&first);
		strbuf_release(&later);
	}
}

static void test_refuses(void **state)
{
	const struct chat_turn turn[] = { { CHAT_USER, "U", 1 },
		{ CHAT_ASSISTANT, "A", 1 } };
	const struct chat_turn system = { CHAT_SYSTEM, "S", 1 };
	struct text_span part[2];
	struct strbuf out = STRBUF_INIT;
	struct err e = { 0 };

	assert_int_equal(
		chat_format(CHAT_NONE, turn, 1, &out, part, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "has no chat template"));
	assert_int_equal(
		chat_format(CHAT_UNKNOWN, turn, 1, &out, part, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "is not supported"));
	assert_int_equal(
		chat_format(CHAT_CHATML, turn, 2, &out, part, &e), -EINVAL);
	assert_non_null(strstr(e.text, "ends with an assistant turn"));
	assert_int_equal(
		chat_format(CHAT_CHATML, turn, 0, &out, part, &e), -EINVAL);
	assert_int_equal(
		chat_format(CHAT_LLAMA2, &system, 1, &out, part, &e), -EINVAL);
	assert_non_null(strstr(e.text,
		"has no user turn, but the model's chat template (llama-2)"));
	assert_int_equal(out.len, 0);
	assert_int_equal(chat_role_of("tool"), -1);
}

static enum chat_family family_in(struct vocab_file *f)
{
	struct strbuf file = STRBUF_INIT;
	enum chat_family family;
	struct err e = { 0 };
	struct gguf *g;

	vocab_finish(f, &file);
	assert_ok(gguf_parse(&g, file.data, file.len, &e), &e);
	family = chat_of(g);
	gguf_close(g);
	strbuf_release(&file);
	return family;
}

static void test_of_file(void **state)
{
	struct vocab_file f = { 0 };

	assert_int_equal(family_in(&f), CHAT_NONE);
	vocab_u32(&f, "tokenizer.chat_template", 1);
	assert_int_equal(family_in(&f), CHAT_NONE);
	vocab_str(&f, "tokenizer.chat_template", recognised[0].template);
	assert_int_equal(family_in(&f), CHAT_CHATML);
	assert_string_equal(chat_name(CHAT_CHATML), "chatml");
	assert_string_equal(chat_name(CHAT_FAMILY_COUNT), "unknown");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_recognise),
	cmocka_unit_test(test_golden),
	cmocka_unit_test(test_parts),
	cmocka_unit_test(test_written),
	cmocka_unit_test(test_refuses),
	cmocka_unit_test(test_of_file),
};
TEST_FILE(tests)
