#include "host/text/chat.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "tensor/gguf.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define DS_USER "<\xef\xbd\x9cUser\xef\xbd\x9c>" /* U+FF5C for the bars */
#define DS_ASSISTANT    \
	"<\xef\xbd\x9c" \
	"Assistant\xef\xbd\x9c>"

/*
 * A turn as strings around its parts. Where the family has no system role,
 * the instructions stand at the head of the user's part.
 */
struct turn {
	const char *name;
	const char *system_open, *system_close;
	const char *user_open, *user_close;
	const char *answer_open;
	bool system_in_user; /* user_open comes before the system's part */
	bool trim;           /* the template cuts white space at both ends */
};

static const struct turn turns[CHAT_FAMILY_COUNT] = {
	[CHAT_NONE] = { "none" },
	[CHAT_UNKNOWN] = { "unknown" },
	[CHAT_CHATML] = { "chatml", "<|im_start|>system\n", "<|im_end|>\n",
		"<|im_start|>user\n", "<|im_end|>\n",
		"<|im_start|>assistant\n" },
	[CHAT_LLAMA2] = { "llama-2", "<<SYS>>\n", "\n<</SYS>>\n\n", "[INST] ",
		" [/INST]", "", .system_in_user = true, .trim = true },
	[CHAT_LLAMA3] = { "llama-3",
		"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>",
		"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>",
		"<|start_header_id|>assistant<|end_header_id|>\n\n",
		.trim = true },
	[CHAT_MISTRAL] = { "mistral", "", "\n\n", "[INST] ", " [/INST]", "",
		.system_in_user = true },
	[CHAT_MISTRAL_V3] = { "mistral-v3", "", "\n\n", "[INST] ", "[/INST]",
		"", .system_in_user = true },
	[CHAT_MISTRAL_TEKKEN] = { "mistral-tekken", "", "\n\n", "[INST]",
		"[/INST]", "", .system_in_user = true },
	[CHAT_MISTRAL_V7] = { "mistral-v7", "[SYSTEM_PROMPT]",
		"[/SYSTEM_PROMPT]", "[INST]", "[/INST]", "" },
	[CHAT_GEMMA] = { "gemma", "", "\n\n", "<start_of_turn>user\n",
		"<end_of_turn>\n", "<start_of_turn>model\n",
		.system_in_user = true, .trim = true },
	[CHAT_PHI3] = { "phi-3", "<|system|>\n", "<|end|>\n", "<|user|>\n",
		"<|end|>\n", "<|assistant|>\n" },
	[CHAT_ZEPHYR] = { "zephyr", "<|system|>\n", "</s>\n", "<|user|>\n",
		"</s>\n", "<|assistant|>\n" },
	[CHAT_DEEPSEEK] = { "deepseek", "", "", DS_USER, "", DS_ASSISTANT },
};

/* ---- recognising ----------------------------------------------------- */

struct text {
	const char *data;
	size_t len;
};

static bool has(struct text t, const char *what)
{
	return memmem(t.data, t.len, what, strlen(what)) != NULL;
}

/*
 * The releases of Mistral differ in the spaces around what the user said.
 * Templates write them within quotes of either kind, or as plain text.
 */
static enum chat_family which_mistral(struct text t)
{
	if (has(t, "[SYSTEM_PROMPT]"))
		return CHAT_MISTRAL_V7;
	if (has(t, " [/INST]"))
		return CHAT_MISTRAL;
	return has(t, "[INST] ") ? CHAT_MISTRAL_V3 : CHAT_MISTRAL_TEKKEN;
}

/*
 * Each family by a marker of its own; a marker that several share comes
 * after those that tell them apart. What looks like a family but ends its
 * parts otherwise (phi-4's <|im_sep|>, a <|user|> closed by
 * <|endoftext|>) is not taken for it.
 */
enum chat_family chat_recognise(const char *template_text, size_t len)
{
	const struct text t = { template_text, len };

	if (!len)
		return CHAT_NONE;
	if (has(t, "<|im_start|>"))
		return has(t, "<|im_sep|>") ? CHAT_UNKNOWN : CHAT_CHATML;
	if (has(t, "<|start_header_id|>") && has(t, "<|eot_id|>"))
		return CHAT_LLAMA3;
	if (has(t, DS_USER) && has(t, DS_ASSISTANT))
		return CHAT_DEEPSEEK;
	if (has(t, "<start_of_turn>"))
		return CHAT_GEMMA;
	if (has(t, "[INST]"))
		return has(t, "<<SYS>>") ? CHAT_LLAMA2 : which_mistral(t);
	if (has(t, "<|user|>") && has(t, "<|end|>"))
		return CHAT_PHI3;
	if (has(t, "<|user|>\\n") || has(t, "<|user|>\n"))
		return has(t, "<|endoftext|>") || !has(t, "eos_token")
			? CHAT_UNKNOWN
			: CHAT_ZEPHYR;
	return CHAT_UNKNOWN;
}

enum chat_family chat_of(const struct gguf *g)
{
	struct gguf_str s;

	if (gguf_str(g, "tokenizer.chat_template", &s, NULL) != 1)
		return CHAT_NONE;
	return chat_recognise(s.data, s.len);
}

const char *chat_name(enum chat_family family)
{
	if ((unsigned)family >= CHAT_FAMILY_COUNT)
		return "unknown";
	return turns[family].name;
}

/* ---- writing --------------------------------------------------------- */

static void put(struct strbuf *out, const char *s)
{
	strbuf_add(out, s, strlen(s));
}

static struct text_span put_part(
	struct strbuf *out, const char *s, size_t len, bool trim)
{
	size_t at = out->len;

	while (trim && len && isspace((unsigned char)s[len - 1]))
		len--;
	while (trim && len && isspace((unsigned char)s[0])) {
		s++;
		len--;
	}
	strbuf_add(out, s, len);
	return (struct text_span){ at, len };
}

int chat_format(enum chat_family family, const char *system, const char *user,
	size_t user_len, struct strbuf *out, struct text_span part[CHAT_PARTS],
	struct err *e)
{
	const struct turn *t;

	part[CHAT_SYSTEM] = part[CHAT_USER] = (struct text_span){ 0, 0 };
	if (family == CHAT_NONE)
		return err_set(e, ENOTSUP,
			"the model file has no chat template; give the prompt "
			"as the model expects it");
	if (family == CHAT_UNKNOWN || (unsigned)family >= CHAT_FAMILY_COUNT)
		return err_set(e, ENOTSUP,
			"the model's chat template is not one of those that "
			"are recognised; give the prompt as the model expects "
			"it");
	t = &turns[family];
	if (t->system_in_user)
		put(out, t->user_open);
	if (system) {
		put(out, t->system_open);
		part[CHAT_SYSTEM] =
			put_part(out, system, strlen(system), t->trim);
		put(out, t->system_close);
	}
	if (!t->system_in_user)
		put(out, t->user_open);
	part[CHAT_USER] = put_part(out, user, user_len, t->trim);
	put(out, t->user_close);
	put(out, t->answer_open);
	if (out->failed)
		return err_sys(e, ENOMEM, "cannot write the prompt");
	return 0;
}
