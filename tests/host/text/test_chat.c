/*
 * Templates as model files carry them, cut down to what matters here: the
 * loop over the messages with the family's own markers.
 */
#include "tests/harness.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/chat.h"
#include "host/text/tokenizer.h"
#include "tests/host/text/vocab_file.h"

#include <errno.h>
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
	/* Tools and thinking do not hide the family. */
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
	{ CHAT_MISTRAL_V7,
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
	/* Alike, but with other ends to the parts. */
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

static const struct {
	enum chat_family family;
	const char *with, *without; /* system S, user U */
} formats[] = {
	{ CHAT_CHATML,
		"<|im_start|>system\nS<|im_end|>\n"
		"<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n",
		"<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n" },
	{ CHAT_LLAMA2, "[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST]",
		"[INST] U [/INST]" },
	{ CHAT_LLAMA3,
		"<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
		"<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>"
		"<|start_header_id|>assistant<|end_header_id|>\n\n",
		"<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>"
		"<|start_header_id|>assistant<|end_header_id|>\n\n" },
	{ CHAT_MISTRAL, "[INST] S\n\nU [/INST]", "[INST] U [/INST]" },
	{ CHAT_MISTRAL_V3, "[INST] S\n\nU[/INST]", "[INST] U[/INST]" },
	{ CHAT_MISTRAL_TEKKEN, "[INST]S\n\nU[/INST]", "[INST]U[/INST]" },
	{ CHAT_MISTRAL_V7, "[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]U[/INST]",
		"[INST]U[/INST]" },
	{ CHAT_GEMMA,
		"<start_of_turn>user\nS\n\nU<end_of_turn>\n"
		"<start_of_turn>model\n",
		"<start_of_turn>user\nU<end_of_turn>\n"
		"<start_of_turn>model\n" },
	{ CHAT_PHI3,
		"<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\n",
		"<|user|>\nU<|end|>\n<|assistant|>\n" },
	{ CHAT_ZEPHYR, "<|system|>\nS</s>\n<|user|>\nU</s>\n<|assistant|>\n",
		"<|user|>\nU</s>\n<|assistant|>\n" },
	{ CHAT_DEEPSEEK,
		"S<\xef\xbd\x9cUser\xef\xbd\x9c>U<\xef\xbd\x9c"
		"Assistant\xef\xbd\x9c>",
		"<\xef\xbd\x9cUser\xef\xbd\x9c>U<\xef\xbd\x9c"
		"Assistant\xef\xbd\x9c>" },
};

static void check(enum chat_family family, const char *system, const char *user,
	const char *want)
{
	struct text_span part[CHAT_PARTS];
	struct strbuf out = STRBUF_INIT;
	struct err e = { 0 };

	assert_ok(
		chat_format(family, system, user, strlen(user), &out, part, &e),
		&e);
	if (strcmp(out.data, want))
		fail_msg("%s gives\n%s\nnot\n%s", chat_name(family), out.data,
			want);
	strbuf_release(&out);
}

static void test_format(void **state)
{
	/* Every family there is, but none and unknown. */
	assert_int_equal(
		sizeof(formats) / sizeof(formats[0]), CHAT_FAMILY_COUNT - 2);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		check(formats[i].family, "S", "U", formats[i].with);
		check(formats[i].family, NULL, "U", formats[i].without);
	}
	/* Some templates cut white space off, some keep it. */
	check(CHAT_GEMMA, NULL, " U \n", formats[7].without);
	check(CHAT_CHATML, NULL, " U\n",
		"<|im_start|>user\n U\n<|im_end|>\n<|im_start|>assistant\n");
}

static void part_is(
	const struct strbuf *out, struct text_span s, const char *want)
{
	assert_true(s.at + s.len <= out->len);
	assert_int_equal(s.len, strlen(want));
	assert_memory_equal(out->data + s.at, want, s.len);
}

/* Where the parts lie is told, and a NUL does not end the user's. */
static void test_parts(void **state)
{
	struct text_span part[CHAT_PARTS];
	struct err e = { 0 };

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct strbuf out = STRBUF_INIT;

		assert_ok(chat_format(formats[i].family, "Sys", "Us\0r", 4,
				  &out, part, &e),
			&e);
		part_is(&out, part[CHAT_SYSTEM], "Sys");
		assert_int_equal(part[CHAT_USER].len, 4);
		assert_memory_equal(out.data + part[CHAT_USER].at, "Us\0r", 4);
		strbuf_reset(&out);
		assert_ok(chat_format(formats[i].family, NULL, "User", 4, &out,
				  part, &e),
			&e);
		assert_int_equal(part[CHAT_SYSTEM].len, 0);
		part_is(&out, part[CHAT_USER], "User");
		strbuf_release(&out);
	}
}

static void test_refuses(void **state)
{
	struct text_span part[CHAT_PARTS];
	struct strbuf out = STRBUF_INIT;
	struct err e = { 0 };

	assert_int_equal(
		chat_format(CHAT_NONE, NULL, "U", 1, &out, part, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "has no chat template"));
	assert_int_equal(
		chat_format(CHAT_UNKNOWN, NULL, "U", 1, &out, part, &e),
		-ENOTSUP);
	assert_non_null(strstr(e.text, "not one of those"));
	assert_int_equal(out.len, 0);
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
	cmocka_unit_test(test_format),
	cmocka_unit_test(test_parts),
	cmocka_unit_test(test_refuses),
	cmocka_unit_test(test_of_file),
};
TEST_MAIN(tests)
