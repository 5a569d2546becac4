/*
 * Chat templates. The program does not run Jinja: it recognises the family from
 * the template's text, and writes the conversation by its own code for this
 * family. How families write tools and calls is in chat_tools.h. Other features
 * of templates (dates, a built-in system prompt) are not supported.
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
	CHAT_MISTRAL, /* no system turn, no space before an answer */
	CHAT_GEMMA,
	CHAT_PHI3,
	CHAT_ZEPHYR,
	CHAT_DEEPSEEK,
	CHAT_MISTRAL_V1,        /* spaces before and after every marker */
	CHAT_MISTRAL_V3,        /* no space before [/INST] */
	CHAT_MISTRAL_TEKKEN,    /* no space before [/INST] nor after [INST] */
	CHAT_MISTRAL_V7,        /* system turns have their own marker */
	CHAT_MISTRAL_V7_TEKKEN, /* like v7, but without spaces */
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
	/* for chat_format: a turn without the template's text around it */
	CHAT_BARE = CHAT_ROLES,
	/* for chat_plan (chat_tools.h), which turns them into other roles */
	CHAT_CALL,
	CHAT_RESULT
};

/* Role by name: "system", "user" or "assistant"; -1 for any other name. */
int chat_role_of(const char *name);

struct chat_turn {
	enum chat_role role;
	const char *text;
	size_t len;
	/*
	 * The turn is an answer whose generated tokens are inserted into the
	 * prompt unchanged, without the token that ended it. chat_format then
	 * writes only the template's text around the answer, without
	 * answer_lead, which the model generated itself.
	 */
	bool written;
	/* The turn continues the previous one, which has the same role: the
	 * template's text around turns is written once for both. */
	bool joins;
	/* Text directly before and after the turn's text, in which control
	 * tokens are recognised; NULL for none. */
	const char *before, *after;
};

/*
 * Write a conversation as the model expects it, up to the start of its next
 * answer. part[i] receives the place of turn i's text in *out. *out must be
 * tokenized with TOKENIZE_SPECIAL and with these parts quoted; otherwise a
 * turn's text could contain the token that ends the turn. The part of a turn
 * with `written` is empty and marks the place for its tokens.
 *
 * The parts are in the order of the turns, except in mistral-v3 and
 * mistral-tekken, whose templates put the system turn into the last user turn.
 * Except for these two, the output up to the start of an answer is the same as
 * the output of the call that requested this answer.
 *
 * Returns 0, -ENOMEM, -ENOTSUP if the family is none or unknown, or -EINVAL for
 * an order of turns that the family's template refuses or that ends with an
 * answer.
 */
int chat_format(enum chat_family, const struct chat_turn *turn, size_t n,
	struct strbuf *out, struct text_span *part, struct err *);

#endif
