/*
 * Tools in a chat. Each family of chat templates (chat.h) has its own way of
 * listing tools in the prompt, of writing a call of a tool, and of giving the
 * call's result to the model. Here each way is a table of strings, a style.
 * Templates and families without tools get the plain style, in which a call is
 * JSON without a marker, so it cannot be distinguished from other text.
 *
 * The pointers that a function receives must stay valid as long as its result.
 * Not thread-safe, but objects share nothing.
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

/* Returns the style of the model's chat template; static. */
const struct call_style *call_style_of(const struct gguf *);
/* The same from a template's text. */
const struct call_style *call_style_recognise(const char *text, size_t len);

/* ---- the tools of a request ---------------------------------------------- */

struct chat_tools {
	const struct call_style *style;
	char *text; /* the tools in the form for the prompt */
	/* the required form of the output, or NULL if it was taken */
	struct json_nodes *nodes;
};

struct chat_tools_opts {
	/* JSON: a list of {"type": "function", "function": {"name", ...}} */
	const char *json;
	const char *only; /* the tool that must be called; NULL if none must */
	bool must;        /* a tool must be called; implied by `only` */
	bool one;         /* at most one call */
};

/*
 * Read tools. Returns 0, -ENOMEM, or -EINVAL for tools that are malformed or
 * have a schema that is not supported, with a message that has the place, such
 * as tools[0].function.name; or for tools that the model may but need not call
 * if the style is the plain one.
 */
int chat_tools_open(struct chat_tools **out, const struct call_style *,
	const struct chat_tools_opts *, struct err *);
void chat_tools_close(struct chat_tools *);

/* The texts of the style that are control tokens in this vocabulary. */
void call_style_tags(const struct call_style *, const struct tokenizer *,
	struct json_tags *out);

/* Whether a tool may have this name: letters, digits, _ and -. Such a name
 * needs no escapes in JSON and is no control token, and a space ends it. */
bool chat_tool_is_name(const char *name, size_t len);

/* ---- conversations ------------------------------------------------------- */

/* The turns of a conversation as chat_format takes them. */
struct chat_plan {
	struct chat_turn *turn; /* [n] */
	/* [n] index of the given turn; undefined for a turn with tools */
	size_t *given;
	size_t n, cap;
	char **text; /* [n_text] strings that turns refer to */
	size_t n_text, cap_text;
	bool failed; /* memory ran out */
};

/*
 * Plan a conversation, which may have turns of CHAT_CALL (the text is the
 * tool's name, a space and the arguments) and CHAT_RESULT. The results must be
 * in the order of the calls. `tools` may be NULL. Returns 0, -ENOMEM, or
 * -EINVAL for an invalid order of turns. Release the plan also after a failure.
 */
int chat_plan(struct chat_plan *out, const struct call_style *,
	const struct chat_tools *, const struct chat_turn *turn, size_t n,
	struct err *);
void chat_plan_release(struct chat_plan *);

/* ---- output -------------------------------------------------------------- */

/*
 * Divides an output whose form is chat_tools.nodes into text and calls.
 * Zero-initialise it and set the first group of members.
 */
struct call_reader {
	const struct call_style *style;
	struct json_tags tags; /* of call_style_tags */
	bool must;             /* the output begins with a call */
	/* Receives a piece of the arguments of call number `index`, which may
	 * be empty; `name` is a C string, `ended` that the call has ended. */
	int (*call)(void *arg, unsigned index, const char *name,
		const char *piece, size_t len, bool ended);
	void *arg;

	int state;
	uint32_t matched; /* bytes of the marker; or quotes of a call's head */
	unsigned n;       /* calls that have begun */
	char name[65];
	size_t name_len;
	unsigned depth; /* open objects and arrays of the arguments */
	bool in_string, escaped;
};

/* Read the text of a token, or with id -1 text without a token. Appends the
 * text outside of calls to *out. Returns what the callback returned if that is
 * not 0. */
int call_reader_add(struct call_reader *, int32_t id, const char *text,
	size_t len, struct strbuf *out);
/* Append the text that was held back because it might have begun a call. Call
 * it at the end of the output. */
void call_reader_end(struct call_reader *, struct strbuf *out);

#endif
