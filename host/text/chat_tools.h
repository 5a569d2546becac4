/*
 * Tools in a chat. Each family of chat templates (chat.h) has its own way to
 * list tools in the prompt, and to write calls and their results. Here each of
 * these ways is a table of strings, called a style. Templates and families
 * without tools get the plain style, in which a call is JSON without a marker,
 * so it cannot be distinguished from other text.
 *
 * Pointers that are passed to a function must stay valid as long as the object
 * that the function makes. An object may be used by one thread at a time.
 */
#ifndef HOST_TEXT_CHAT_TOOLS_H
#define HOST_TEXT_CHAT_TOOLS_H

#include "host/text/chat.h"
#include "host/text/json_form.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call_style;
struct err;
struct gguf;
struct strbuf;
struct tokenizer;

/* Returns the style of the model's chat template. The result is static. */
const struct call_style *call_style_of(const struct gguf *);
/* Returns the style for the text of a chat template. */
const struct call_style *call_style_recognise(const char *text, size_t len);

/* ---- the tools of a request ---------------------------------------------- */

struct chat_tools {
	const struct call_style *style;
	char *text; /* text of the prompt that lists the tools */
	/* the required form of the output; NULL if a struct json_form now owns
	 * the nodes */
	struct json_nodes *nodes;
};

struct chat_tools_opts {
	/* JSON: a list of {"type": "function", "function": {"name", ...}} */
	const char *json;
	/* name of the tool that must be called; NULL: any tool */
	const char *only;
	bool must; /* whether the output must call a tool; implied by `only` */
	bool one;  /* whether to allow at most one call */
};

/*
 * Read tools. Returns 0, -ENOMEM, or -EINVAL for tools that are malformed or
 * have a schema that is not supported, with a message that names the place,
 * such as tools[0].function.name. Also returns -EINVAL if the style is the
 * plain style and no call is required.
 */
int chat_tools_open(struct chat_tools **out, const struct call_style *,
	const struct chat_tools_opts *, struct err *);
void chat_tools_close(struct chat_tools *);

/* Collect the strings of the style that are control tokens in this
 * vocabulary. */
void call_style_tags(const struct call_style *, const struct tokenizer *,
	struct json_tags *out);

/* Whether a tool may have this name: only letters, digits, _ and - are allowed.
 * Such a name needs no escapes in JSON, is not a control token, and cannot
 * contain the space that follows the name in the text of a CHAT_CALL turn. */
bool chat_tool_is_name(const char *name, size_t len);

/* ---- conversations ------------------------------------------------------- */

/* The turns of a conversation, in the form that chat_format takes. */
struct chat_plan {
	struct chat_turn *turn; /* [n] */
	/* [n] index of the caller's turn from which each turn was made;
	 * undefined for a turn that lists tools */
	size_t *given;
	size_t n, cap, cap_given;
	char **text; /* [n_text] strings that turns refer to */
	size_t n_text, cap_text;
	bool failed; /* whether memory ran out */
};

/*
 * Plan a conversation, which may have turns with role CHAT_CALL (the text is
 * the tool's name, a space and the arguments) and CHAT_RESULT. The results must
 * be in the order of the calls. `tools` may be NULL. Returns 0, -ENOMEM, or
 * -EINVAL for an invalid order of turns. The caller must release the plan, even
 * after a failure.
 */
int chat_plan(struct chat_plan *out, const struct call_style *,
	const struct chat_tools *, const struct chat_turn *turn, size_t n,
	struct err *);
void chat_plan_release(struct chat_plan *);

/* ---- output -------------------------------------------------------------- */

/* Divides an output that has the form chat_tools.nodes into text and tool
 * calls. Zero-initialise the struct, then set the members up to `arg`. */
struct call_reader {
	const struct call_style *style;
	struct json_tags tags; /* result of call_style_tags */
	bool must;             /* whether the output must begin with a call */
	/* Called with each piece of the arguments of call number `index`; the
	 * piece may be empty. `name` is a C string. `ended` is true for the
	 * last piece. */
	int (*call)(void *arg, unsigned index, const char *name,
		const char *piece, size_t len, bool ended);
	void *arg;

	int state;
	/* outside of calls, number of bytes of the marker that are matched;
	 * within a call, number of quotation marks that were read */
	uint32_t matched;
	unsigned n; /* number of calls that have begun */
	char name[65];
	size_t name_len;
	unsigned depth; /* number of open objects and arrays in the arguments */
	bool in_string, escaped;
};

/* Read the next piece of the output: the text that became complete with token
 * `id`, or, if `id` is -1, text that belongs to no token. Appends the text
 * outside of calls to *out. If the callback returns a nonzero value, returns
 * this value. */
int call_reader_add(struct call_reader *, int32_t id, const char *text,
	size_t len, struct strbuf *out);
/* Append the text that was held back because a call might have begun in it.
 * Call this function at the end of the output. */
void call_reader_end(struct call_reader *, struct strbuf *out);

#endif
