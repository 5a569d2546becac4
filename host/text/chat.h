/*
 * Chat templates: the family is recognised from the template's text (the
 * program does not run Jinja) and written by this file's own code. Other
 * features of templates (tools, dates, a built-in system prompt) are not
 * supported.
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
	CHAT_NONE,    /* the file has no template */
	CHAT_UNKNOWN, /* its template is not recognised */
	CHAT_CHATML,
	CHAT_LLAMA2,
	CHAT_LLAMA3,
	CHAT_MISTRAL, /* no system turn, no space before an answer */
	CHAT_GEMMA,
	CHAT_PHI3,
	CHAT_ZEPHYR,
	CHAT_DEEPSEEK,
	CHAT_MISTRAL_V1,        /* spaces on both sides of every marker */
	CHAT_MISTRAL_V3,        /* no space before [/INST] */
	CHAT_MISTRAL_TEKKEN,    /* also no space after [INST] */
	CHAT_MISTRAL_V7,        /* a system role of its own */
	CHAT_MISTRAL_V7_TEKKEN, /* without spaces */
	CHAT_FAMILY_COUNT
};

enum chat_family chat_recognise(const char *template_text, size_t len);
enum chat_family chat_of(const struct gguf *);
const char *chat_name(enum chat_family); /* "chatml" */

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES };

/* Role by name: "system", "user", "assistant"; -1 for others. */
int chat_role_of(const char *name);

struct chat_turn {
	enum chat_role role;
	const char *text;
	size_t len;
	/*
	 * An answer that is inserted as the tokens it was generated in, without
	 * the token that ended it. Only the template's text around it is
	 * written, without answer_lead, which the model generated itself.
	 */
	bool written;
};

/*
 * Write a conversation as the model expects it, up to the beginning of its next
 * answer. part[i] is the place of turn i's text in *out: *out must be tokenized
 * with TOKENIZE_SPECIAL and these parts quoted, or a turn's text could end the
 * turn. The part of a written answer is empty, at the place of its tokens.
 *
 * The parts are in the order of the turns, except in mistral-v3 and
 * mistral-tekken, whose templates put the system turn into the last one. Except
 * for these two, the output up to the last answer is the same as for the
 * conversation that requested that answer.
 *
 * -ENOTSUP with *e when the family is none or unknown; -EINVAL for an order of
 * turns that the family's template refuses, or that ends with an answer.
 */
int chat_format(enum chat_family, const struct chat_turn *turn, size_t n,
	struct strbuf *out, struct text_span *part, struct err *);

#endif
