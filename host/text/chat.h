/*
 * Chat templates: the family is recognised from the template's text (the
 * program does not run Jinja) and written by this file's own code. What a
 * template does beside the roles (tools, dates, a built-in system prompt) is
 * not done.
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
	CHAT_UNKNOWN, /* it has one that is not recognised */
	CHAT_CHATML,
	CHAT_LLAMA2,
	CHAT_LLAMA3,
	CHAT_MISTRAL, /* no system's turn, no space before an answer */
	CHAT_GEMMA,
	CHAT_PHI3,
	CHAT_ZEPHYR,
	CHAT_DEEPSEEK,
	CHAT_MISTRAL_V1,        /* spaces on both sides of every marker */
	CHAT_MISTRAL_V3,        /* no space before [/INST] */
	CHAT_MISTRAL_TEKKEN,    /* nor after [INST] */
	CHAT_MISTRAL_V7,        /* a system role of its own */
	CHAT_MISTRAL_V7_TEKKEN, /* without spaces */
	CHAT_FAMILY_COUNT
};

enum chat_family chat_recognise(const char *template_text, size_t len);
enum chat_family chat_of(const struct gguf *);
const char *chat_name(enum chat_family); /* "chatml" */

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES };

/* "system", "user", "assistant"; -1 for what is none of them. */
int chat_role_of(const char *name);

struct chat_turn {
	enum chat_role role;
	const char *text;
	size_t len;
	/*
	 * An answer that is put in by the tokens it was written in, less the
	 * one that ended it: the template's text stands around it and its own
	 * text is left out, with what the template puts before an answer in
	 * place of the model, which wrote that itself.
	 */
	bool written;
};

/*
 * A conversation as the model expects it, up to where its next answer begins.
 * part[i] says where in *out the text of turn i lies: *out is to be tokenized
 * with TOKENIZE_SPECIAL and these quoted, or what was said could end a turn.
 * Of a written answer it is empty, and where its tokens belong.
 *
 * The parts are in the order of the turns but in mistral-v3 and
 * mistral-tekken, whose templates put the system's turn into the last one.
 * But for these two, what is written of the turns before the last answer is
 * how the conversation began when that answer was asked for.
 *
 * -ENOTSUP with *e when the family is none or unknown; -EINVAL for an order of
 * turns that the family's template refuses, or that ends with an answer.
 */
int chat_format(enum chat_family, const struct chat_turn *turn, size_t n,
	struct strbuf *out, struct text_span *part, struct err *);

#endif
