/*
 * Chat templates: the family is recognised from the template's text (the
 * program does not run Jinja) and written by this file's own code.
 */
#ifndef HOST_MODEL_CHAT_H
#define HOST_MODEL_CHAT_H

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
	CHAT_FAMILY_COUNT
};

enum chat_family chat_recognise(const char *template_text, size_t len);
enum chat_family chat_of(const struct gguf *);
const char *chat_name(enum chat_family); /* "chatml" */

/*
 * One turn as the model expects it, up to where its answer begins; `system`
 * may be NULL. To be tokenized with TOKENIZE_SPECIAL. -ENOTSUP with *e when
 * the family is none or unknown.
 */
int chat_format(enum chat_family, const char *system, const char *user,
	struct strbuf *out, struct err *);

#endif
