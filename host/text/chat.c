#include "host/text/chat.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "tensor/gguf.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* markers of DeepSeek's templates, with U+FF5C as vertical bars */
#define DS_USER "<\xef\xbd\x9cUser\xef\xbd\x9c>"
#define DS_ASSISTANT    \
	"<\xef\xbd\x9c" \
	"Assistant\xef\xbd\x9c>"

#define DS_END                          \
	"<\xef\xbd\x9c"                 \
	"end\xe2\x96\x81of\xe2\x96\x81" \
	"sentence\xef\xbd\x9c>"

enum trim { TRIM_HEAD = 1, TRIM_TAIL = 2, TRIM = 3 };

/* Place where a template writes the system turn. */
enum system_place {
	SYSTEM_TURN, /* the system turn is a separate turn */
	/* the system turn is written at the beginning of the first user turn */
	SYSTEM_IN_FIRST,
	/* the system turn is written at the beginning of the last user turn */
	SYSTEM_IN_LAST,
};

/* Order of turns that a template requires. */
enum order {
	ORDER_ANY,
	ORDER_SYSTEM_FIRST,
	/* after an optional system turn, user and assistant turns alternate */
	ORDER_ALTERNATE,
};

/* The strings that a family's templates write around turns. */
struct family {
	const char *name;
	const char *system_open, *system_close;
	const char *user_open, *user_close;
	/* the end of the prompt, after which the model generates its answer */
	const char *answer_open;
	/* text at the beginning of an answer; the model itself generates this
	 * text */
	const char *answer_lead;
	const char *answer_close;
	/* user_open of the second and later user turns; NULL if equal to
	 * user_open */
	const char *user_again;
	enum system_place place;
	enum order order;
	/* White space that the template removes from turns: bits of enum
	 * trim. */
	unsigned trim_system, trim_user, trim_answer;
	/* White space that is removed from the text of a user turn if this turn
	 * also contains the system turn. */
	unsigned trim_after_system;
};

static const struct family families[CHAT_FAMILY_COUNT] = {
	[CHAT_NONE] = { "none" },
	[CHAT_UNKNOWN] = { "unknown" },
	[CHAT_CHATML] = { "chatml", "<|im_start|>system\n", "<|im_end|>\n",
		"<|im_start|>user\n", "<|im_end|>\n", "<|im_start|>assistant\n",
		"", "<|im_end|>\n" },
	[CHAT_LLAMA2] = { "llama-2", "<<SYS>>\n", "\n<</SYS>>\n\n", "[INST] ",
		" [/INST]", "", " ", " </s>", .user_again = "<s>[INST] ",
		.place = SYSTEM_IN_FIRST, .order = ORDER_ALTERNATE,
		.trim_user = TRIM, .trim_answer = TRIM,
		.trim_after_system = TRIM_TAIL },
	[CHAT_LLAMA3] = { "llama-3",
		"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>",
		"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>",
		"<|start_header_id|>assistant<|end_header_id|>\n\n", "",
		"<|eot_id|>", .trim_system = TRIM, .trim_user = TRIM,
		.trim_answer = TRIM, .trim_after_system = TRIM },
	[CHAT_MISTRAL] = { "mistral", "", "\n\n", "[INST] ", " [/INST]", "", "",
		"</s>", .place = SYSTEM_IN_FIRST, .order = ORDER_ALTERNATE },
	[CHAT_MISTRAL_V1] = { "mistral-v1", "", "\n\n", " [INST] ", " [/INST]",
		"", " ", "</s>", .place = SYSTEM_IN_FIRST,
		.order = ORDER_ALTERNATE },
	[CHAT_MISTRAL_V3] = { "mistral-v3", "", "\n\n", "[INST] ", "[/INST]",
		"", " ", "</s>", .place = SYSTEM_IN_LAST,
		.order = ORDER_ALTERNATE, .trim_answer = TRIM },
	[CHAT_MISTRAL_TEKKEN] = { "mistral-tekken", "", "\n\n", "[INST]",
		"[/INST]", "", "", "</s>", .place = SYSTEM_IN_LAST,
		.order = ORDER_ALTERNATE },
	[CHAT_MISTRAL_V7] = { "mistral-v7", "[SYSTEM_PROMPT] ",
		"[/SYSTEM_PROMPT]", "[INST] ", "[/INST]", "", " ", "</s>" },
	[CHAT_MISTRAL_V7_TEKKEN] = { "mistral-v7-tekken", "[SYSTEM_PROMPT]",
		"[/SYSTEM_PROMPT]", "[INST]", "[/INST]", "", "", "</s>" },
	[CHAT_GEMMA] = { "gemma", "", "\n\n", "<start_of_turn>user\n",
		"<end_of_turn>\n", "<start_of_turn>model\n", "",
		"<end_of_turn>\n", .place = SYSTEM_IN_FIRST,
		.order = ORDER_ALTERNATE, .trim_user = TRIM,
		.trim_answer = TRIM, .trim_after_system = TRIM },
	[CHAT_PHI3] = { "phi-3", "<|system|>\n", "<|end|>\n", "<|user|>\n",
		"<|end|>\n", "<|assistant|>\n", "", "<|end|>\n" },
	[CHAT_ZEPHYR] = { "zephyr", "<|system|>\n", "</s>\n", "<|user|>\n",
		"</s>\n", "<|assistant|>\n", "", "</s>\n" },
	[CHAT_DEEPSEEK] = { "deepseek", "", "", DS_USER, "", DS_ASSISTANT, "",
		DS_END, .order = ORDER_SYSTEM_FIRST },
};

/* ---- recognising the family of a template ---------------------------- */

static bool has(struct gguf_str t, const char *what)
{
	return memmem(t.data, t.len, what, strlen(what)) != NULL;
}

/* Mistral's releases differ in the spaces before and after [INST] and [/INST].
 * A template has these markers in plain text, or in a string with single or
 * double quotes. */
static enum chat_family which_mistral(struct gguf_str t)
{
	if (has(t, "[SYSTEM_PROMPT]"))
		return has(t, "[INST] ") ? CHAT_MISTRAL_V7
					 : CHAT_MISTRAL_V7_TEKKEN;
	if (has(t, " [/INST]"))
		return has(t, "' [INST] ") || has(t, "\" [INST] ")
			? CHAT_MISTRAL_V1
			: CHAT_MISTRAL;
	return has(t, "[INST] ") ? CHAT_MISTRAL_V3 : CHAT_MISTRAL_TEKKEN;
}

/*
 * A family is recognised by a marker. If several families share a marker, such
 * as [INST], a second string distinguishes them. Templates that resemble
 * a family but end turns differently (phi-4's <|im_sep|>, a <|user|> closed by
 * <|endoftext|>) are not recognised.
 */
enum chat_family chat_recognise(const char *template_text, size_t len)
{
	const struct gguf_str t = { template_text, len };

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
	return families[family].name;
}

int chat_role_of(const char *name)
{
	static const char *const names[] = { "system", "user", "assistant" };

	for (int i = 0; i < CHAT_ROLES; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

/* Check that the family's template allows the order of the turns. With
 * ORDER_ALTERNATE, user and assistant must alternate after the system turn; the
 * original templates raise an exception if they do not. */
static int check_order(const struct family *f, const struct chat_turn *turn,
	size_t n, struct err *e)
{
	enum chat_role due = CHAT_USER;
	size_t number = 0;

	for (size_t i = 0; i < n && f->order != ORDER_ANY; i++) {
		number += !turn[i].joins;
		if (turn[i].joins || turn[i].role == CHAT_BARE ||
			(!i && turn[i].role == CHAT_SYSTEM))
			continue;
		if (turn[i].role == CHAT_SYSTEM)
			return err_set(e, EINVAL,
				"turn %zu is a system turn, but the model's "
				"chat template (%s) allows one only as the "
				"first turn",
				number, f->name);
		if (f->order == ORDER_ALTERNATE && turn[i].role != due)
			return err_set(e, EINVAL,
				"turn %zu must be the %s's: in the model's "
				"chat template (%s) user and assistant "
				"alternate",
				number, due == CHAT_USER ? "user" : "assistant",
				f->name);
		due = turn[i].role == CHAT_ASSISTANT ? CHAT_USER
						     : CHAT_ASSISTANT;
	}
	return 0;
}

/* ---- writing --------------------------------------------------------- */

static void put(struct strbuf *out, const char *s)
{
	if (s)
		strbuf_add(out, s, strlen(s));
}

static struct text_span put_part(
	struct strbuf *out, const struct chat_turn *t, unsigned trim)
{
	const char *s = t->text;
	size_t at, len = t->written ? 0 : t->len;

	put(out, t->before);
	at = out->len;
	while (trim & TRIM_TAIL && len && isspace((unsigned char)s[len - 1]))
		len--;
	while (trim & TRIM_HEAD && len && isspace((unsigned char)s[0])) {
		s++;
		len--;
	}
	if (len)
		strbuf_add(out, s, len);
	put(out, t->after);
	return (struct text_span){ at, len };
}

/* Write the system turns turn[0] ... turn[n - 1]. All turns after the first
 * have `joins` set, so they are written as one turn. */
static void put_system(const struct family *f, const struct chat_turn *turn,
	size_t n, struct strbuf *out, struct text_span *part)
{
	put(out, f->system_open);
	for (size_t i = 0; i < n; i++)
		part[i] = put_part(out, &turn[i], f->trim_system);
	put(out, f->system_close);
}

/* Number of turns that are written together as one turn: turn[0] and the
 * following turns with `joins` set. */
static size_t joined(const struct chat_turn *turn, size_t n)
{
	size_t i = 1;

	while (i < n && turn[i].joins)
		i++;
	return i;
}

int chat_format(enum chat_family family, const struct chat_turn *turn, size_t n,
	struct strbuf *out, struct text_span *part, struct err *e)
{
	const struct family *f;
	const char *user_open;
	size_t host = n, systems, some;
	int ret;

	if (family == CHAT_NONE)
		return err_set(e, ENOTSUP,
			"the model file has no chat template; give the prompt "
			"as the model expects it");
	if (family == CHAT_UNKNOWN || (unsigned)family >= CHAT_FAMILY_COUNT)
		return err_set(e, ENOTSUP,
			"the model's chat template is not supported; give the "
			"prompt as the model expects it");

	f = &families[family];
	if (!n || turn[n - 1].role == CHAT_ASSISTANT)
		return err_set(e, EINVAL,
			"the conversation is empty or ends with an assistant "
			"turn, so there is nothing to answer");
	if (f->order == ORDER_ALTERNATE && turn[n - 1].role == CHAT_SYSTEM)
		return err_set(e, EINVAL,
			"the conversation has no user turn, but the model's "
			"chat template (%s) begins with one",
			f->name);
	ret = check_order(f, turn, n, e);
	if (ret)
		return ret;

	/* systems: number of system turns at the start. host: index of the user
	 * turn into which they are written; n if they are a turn of their
	 * own. */
	systems = turn[0].role == CHAT_SYSTEM ? joined(turn, n) : 0;
	for (size_t i = 0; f->place != SYSTEM_TURN && systems && i < n; i++)
		if (turn[i].role == CHAT_USER && !turn[i].joins &&
			(host == n || f->place == SYSTEM_IN_LAST))
			host = i;
	user_open = f->user_open;
	for (size_t i = 0; i < n; i += some) {
		some = joined(turn + i, n - i);
		if (turn[i].role == CHAT_SYSTEM && host == n) {
			put_system(f, turn + i, some, out, part + i);
		} else if (turn[i].role == CHAT_USER) {
			put(out, user_open);
			if (i == host)
				put_system(f, turn, systems, out, part);
			for (size_t k = i; k < i + some; k++)
				part[k] = put_part(out, &turn[k],
					i == host ? f->trim_after_system
						  : f->trim_user);
			put(out, f->user_close);
			user_open = f->user_again ? f->user_again : user_open;
		} else if (turn[i].role == CHAT_ASSISTANT) {
			put(out, f->answer_open);
			if (!turn[i].written)
				put(out, f->answer_lead);
			for (size_t k = i; k < i + some; k++)
				part[k] =
					put_part(out, &turn[k], f->trim_answer);
			put(out, f->answer_close);
		} else if (turn[i].role == CHAT_BARE) {
			for (size_t k = i; k < i + some; k++)
				part[k] = put_part(out, &turn[k], 0);
		}
	}
	put(out, f->answer_open);
	return out->failed ? err_sys(e, ENOMEM, "cannot write the prompt") : 0;
}
