/*
 * Chat templates. The program does not run Jinja: it recognises the family from
 * the template's text, and writes the conversation with C code for this family.
 * chat_tools.h does the same for tools and calls. Other features of templates
 * (dates, a built-in system prompt) are not supported.
 */
#ifndef HOST_TEXT_CHAT_H
#define HOST_TEXT_CHAT_H

#include "host/text/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct gguf;
struct strbuf;

enum chat_family {
	CHAT_NONE,    /* the model file has no template */
	CHAT_UNKNOWN, /* the template is not recognised */
	CHAT_CHATML,
	CHAT_LLAMA2,
	CHAT_LLAMA3,
	/* Mistral without spaces before [INST] and before an answer's text */
	CHAT_MISTRAL,
	CHAT_GEMMA,
	CHAT_PHI3,
	CHAT_ZEPHYR,
	CHAT_DEEPSEEK,
	CHAT_MISTRAL_V1, /* Mistral v1: spaces before and after every marker */
	CHAT_MISTRAL_V3, /* Mistral v3: no space before [/INST] */
	/* Mistral with the Tekken tokenizer: no space before [/INST] nor
	 * after [INST] */
	CHAT_MISTRAL_TEKKEN,
	CHAT_MISTRAL_V7, /* Mistral v7: system turns have a marker */
	/* like v7, but without a space after [SYSTEM_PROMPT], [INST] and
	 * [/INST] */
	CHAT_MISTRAL_V7_TEKKEN,
	CHAT_FAMILY_COUNT
};

enum chat_family chat_recognise(const char *template_text, size_t len);
enum chat_family chat_of(const struct gguf *);
const char *chat_name(enum chat_family); /* such as "chatml" */

enum chat_role {
	CHAT_SYSTEM,
	CHAT_USER,
	CHAT_ASSISTANT,
	CHAT_ROLES,
	/* a turn of which chat_format writes only the turn's own text, without
	 * the template's text around the turn */
	CHAT_BARE = CHAT_ROLES,
	/* A tool call and its result. These two roles are only for chat_plan
	 * (chat_tools.h), which replaces them by the roles above. */
	CHAT_CALL,
	CHAT_RESULT
};

/* Returns the role with this name ("system", "user" or "assistant"), or -1 for
 * any other name. */
int chat_role_of(const char *name);

struct chat_turn {
	enum chat_role role;
	const char *text;
	size_t len;
	/*
	 * Whether the turn is an answer that the model generated earlier. The
	 * caller inserts the answer's generated tokens into the prompt
	 * unchanged, without the token that ended the answer. So chat_format
	 * writes only the template's text around the answer. chat_format also
	 * leaves out the template's text at the beginning of an answer, which
	 * is among the generated tokens.
	 */
	bool written;
	/* Whether the turn continues the previous turn, which has the same
	 * role: the template's text around turns is then written once for both
	 * turns. */
	bool joins;
	/* Text to write directly before and after the turn's text. Control
	 * tokens in this text are recognised. NULL: none. */
	const char *before, *after;
};

/*
 * Write a conversation in the form that the model expects, up to the start of
 * the model's next answer. part[i] receives the position of turn i's text in
 * *out. Tokenize *out with TOKENIZE_SPECIAL, and give `part` to tokenize as the
 * quoted spans, in which no control tokens are recognised; otherwise a turn's
 * text could contain the token that ends the turn. For a turn with `written`
 * set, part[i] is empty and marks where to insert the turn's tokens.
 *
 * The parts are in the order of the turns, except in mistral-v3 and
 * mistral-tekken, whose templates put the system turn into the last user turn.
 * In all other families, the output for a conversation begins with the output
 * for the turns before the last answer (the prompt that produced this answer).
 *
 * Returns 0, -ENOMEM, -ENOTSUP if the family is none or unknown, or -EINVAL if
 * the family's template does not allow the order of turns or if the last turn
 * is an answer.
 */
int chat_format(enum chat_family, const struct chat_turn *turn, size_t n,
	struct strbuf *out, struct text_span *part, struct err *);

#endif
