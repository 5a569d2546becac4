/*
 * Chat templates: the family is recognised from the template's text (the
 * program does not run Jinja) and written by this file's own code. What a
 * template does beside the roles (tools, dates, a built-in system prompt) is
 * not done.
 */
#ifndef HOST_TEXT_CHAT_H
#define HOST_TEXT_CHAT_H

#include "host/text/tokenizer.h"

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
	CHAT_MISTRAL,
	CHAT_GEMMA,
	CHAT_PHI3,
	CHAT_ZEPHYR,
	CHAT_DEEPSEEK,
	CHAT_MISTRAL_V3,     /* no space before [/INST] */
	CHAT_MISTRAL_TEKKEN, /* nor after [INST] */
	CHAT_MISTRAL_V7,     /* a system role of its own */
	CHAT_FAMILY_COUNT
};

enum chat_family chat_recognise(const char *template_text, size_t len);
enum chat_family chat_of(const struct gguf *);
const char *chat_name(enum chat_family); /* "chatml" */

/* The parts of a turn that are not the template's. */
enum chat_part { CHAT_SYSTEM, CHAT_USER, CHAT_PARTS };

/*
 * One turn as the model expects it, up to where its answer begins; `system`
 * may be NULL. part[] says where in *out the parts lie: it is to be tokenized
 * with TOKENIZE_SPECIAL and these quoted, or what a user says could end the
 * user's turn. -ENOTSUP with *e when the family is none or unknown.
 */
int chat_format(enum chat_family, const char *system, const char *user,
	size_t user_len, struct strbuf *out, struct text_span part[CHAT_PARTS],
	struct err *);

#endif
