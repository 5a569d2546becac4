/* The table of styles of tool calls, and the function that reads the tools of a
 * request. */
#include "host/text/chat_tools.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/call_style.h"
#include "host/text/json_nodes.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 64

/* ---- styles -------------------------------------------------------------- */

static const struct call_style plain = {
	.marker = "",
	.open = "{\"name\": \"",
	.middle = "\", \"arguments\": ",
	.close = "}",
	.tools_open = "These functions can be called:\n",
	.tools_between = "\n",
	.tools_close =
		"\nTo call one, answer with JSON and nothing else: {\"name\": "
		"its name, \"arguments\": its arguments}",
	.first = "",
	.next = "\n",
	.last = "",
	.result_open = "",
	.result_again = "\n",
	.result_close = "",
};

/* Style of Qwen2.5 and Hermes. */
static const struct call_style chatml = {
	.marker = "<tool_call>",
	.tags = { "<tool_call>", "</tool_call>" },
	.open = "{\"name\": \"",
	.middle = "\", \"arguments\": ",
	.close = "}\n</tool_call>",
	.again = "\n<tool_call>",
	.tools_open =
		"# Tools\n\nYou may call one or more functions to assist with "
		"the user query.\n\nYou are provided with function signatures "
		"within <tools></tools> XML tags:\n<tools>\n",
	.tools_between = "\n",
	.tools_close =
		"\n</tools>\n\nFor each function call, return a json object "
		"with function name and arguments within "
		"<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": "
		"<function-name>, \"arguments\": <args-json-object>}\n"
		"</tool_call>",
	.first = "<tool_call>\n",
	.next = "\n<tool_call>\n",
	.last = "",
	.result_open = "<tool_response>\n",
	.result_again = "\n<tool_response>\n",
	.result_close = "\n</tool_response>",
};

/* Style of Llama 3.1 and later. */
static const struct call_style llama3 = {
	.marker = "{\"name\": ",
	.open = "\"",
	.middle = "\", \"parameters\": ",
	.close = "}",
	.at_start = true,
	.place = TOOLS_IN_FIRST_USER,
	.indent = 4,
	.tools_open =
		"Given the following functions, please respond with a JSON for "
		"a function call with its proper arguments that best answers "
		"the given prompt.\n\nRespond in the format {\"name\": "
		"function name, \"parameters\": dictionary of argument name "
		"and its value}.Do not use variables.\n\n",
	.tools_between = "\n\n",
	.tools_close = "\n\n",
	.first = "",
	.next = "\n",
	.last = "",
	.bare_results = true,
	.result_quoted = true,
	.result_open = "<|start_header_id|>ipython<|end_header_id|>\n\n",
	.result_close = "<|eot_id|>",
};

/* Style of Mistral's templates. In some versions a space follows the markers,
 * and in some versions [TOOL_CONTENT] separates the id of a call from its
 * result. */
#define MISTRAL(space)                                                       \
	.marker = "[TOOL_CALLS]", .tags = { "[TOOL_CALLS]" }, .array = true, \
	.open = "{\"name\": \"",                                             \
	.middle = "\", \"arguments\": ", .close = "}",                       \
	.place = TOOLS_BEFORE_LAST_USER,                                     \
	.tools_open = "[AVAILABLE_TOOLS]" space "[", .tools_between = ", ",  \
	.tools_close = "][/AVAILABLE_TOOLS]", .bare_calls = true,            \
	.bare_results = true, .answer_lead = space, .answer_end = "</s>",    \
	.first = "[TOOL_CALLS]" space "[", .next = ", ", .last = "]</s>",    \
	.ids = true, .result_close = "[/TOOL_RESULTS]"

static const struct call_style mistral[2][2] = {
	{ { MISTRAL(""), .result_open = "[TOOL_RESULTS]" },
		{ MISTRAL(""), .result_open = "[TOOL_RESULTS]",
			.result_id = "[TOOL_CONTENT]" } },
	{ { MISTRAL(" "), .result_open = "[TOOL_RESULTS] " },
		{ MISTRAL(" "), .result_open = "[TOOL_RESULTS] ",
			.result_id = "[TOOL_CONTENT] " } },
};

static bool has(const char *text, size_t len, const char *what)
{
	return memmem(text, len, what, strlen(what)) != NULL;
}

/* A template of a known family may support no tools, or write calls in a format
 * that none of the styles above has: Qwen3-Coder's template writes calls as
 * XML, and templates of later Mistral versions mark the arguments with [ARGS].
 * Such templates get the plain style. */
const struct call_style *call_style_recognise(const char *text, size_t len)
{
	switch (chat_recognise(text, len)) {
	case CHAT_CHATML:
		return has(text, len, "<tools>") &&
				has(text, len, "<tool_call>") &&
				!has(text, len, "<function=")
			? &chatml
			: &plain;
	case CHAT_LLAMA3:
		return has(text, len, "ipython") &&
				has(text, len, "\"parameters\": ")
			? &llama3
			: &plain;
	case CHAT_MISTRAL_V3:
	case CHAT_MISTRAL_TEKKEN:
	case CHAT_MISTRAL_V7:
	case CHAT_MISTRAL_V7_TEKKEN:
		if (!has(text, len, "[AVAILABLE_TOOLS]") ||
			!has(text, len, "[TOOL_CALLS]") ||
			has(text, len, "[ARGS]"))
			return &plain;
		return &mistral[has(text, len, "[AVAILABLE_TOOLS] [")]
			       [has(text, len, "[TOOL_CONTENT]")];
	default:
		return &plain;
	}
}

const struct call_style *call_style_of(const struct gguf *g)
{
	struct gguf_str s;

	if (gguf_str(g, "tokenizer.chat_template", &s, NULL) != 1)
		return &plain;
	return call_style_recognise(s.data, s.len);
}

void call_style_tags(const struct call_style *style,
	const struct tokenizer *tok, struct json_tags *out)
{
	out->n = 0;
	for (unsigned i = 0; i < JSON_TAGS && style->tags[i]; i++) {
		const char *tag = style->tags[i];
		struct detokenizer d = {
			.tok = tok, .raw = true, .started = true
		};
		struct strbuf text = STRBUF_INIT;
		struct token_list list = { 0 };

		/* Collect only tokens without bytes. A token with bytes is
		 * found in the output by its bytes. */
		if (!tokenize(tok, tag, strlen(tag),
			    TOKENIZE_SPECIAL | TOKENIZE_GOES_ON, NULL, 0, &list,
			    NULL) &&
			list.n == 1 && !detokenize(&d, list.id[0], &text) &&
			!text.len) {
			out->id[out->n] = list.id[0];
			out->text[out->n++] = tag;
		}
		strbuf_release(&text);
		free(list.id);
	}
}

/* ---- tools --------------------------------------------------------------- */

/* State while the tools of a request are read. */
struct reading {
	json_t *list;
	size_t n;
	const char **name; /* [n] */
	json_t **schema;   /* [n] owned */
	const char **where;
	struct err *e;
};

static int refuse(
	struct reading *r, size_t i, const char *member, const char *what)
{
	return err_set(r->e, EINVAL, "tools[%zu]%s %s", i, member, what);
}

static int check_members(struct reading *r, size_t i, json_t *object,
	const char *where, const char *const *known)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value)
	{
		size_t k = 0;

		while (known[k] && strcmp(known[k], key))
			k++;
		if (!known[k])
			return err_set(r->e, EINVAL,
				"tools[%zu]%s.%.40s is not supported", i, where,
				key);
	}
	return 0;
}

bool chat_tool_is_name(const char *s, size_t len)
{
	static const char known[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-";

	for (size_t i = 0; i < len; i++)
		if (!memchr(known, s[i], sizeof(known) - 1))
			return false;
	return len && len <= NAME_MAX_BYTES;
}

/* Set r->schema[i] to the schema `given` of a tool's arguments, with two
 * additions: the type is "object", and "additionalProperties" is false unless
 * the schema sets it. */
static int read_schema(struct reading *r, size_t i, json_t *given)
{
	const char *where = ".function.parameters";
	const char *type;
	json_t *s;

	if (given && !json_is_null(given) && !json_is_object(given))
		return refuse(r, i, where, "must be a JSON Schema object");
	s = json_is_object(given) ? json_copy(given) : json_object();
	r->schema[i] = s;
	if (!s)
		return err_set(r->e, ENOMEM, "no memory for the tools");
	type = json_string_value(json_object_get(s, "type"));
	if (json_object_get(s, "$ref") || json_object_get(s, "anyOf") ||
		(json_object_get(s, "type") &&
			(!type || strcmp(type, "object"))))
		return refuse(r, i, where,
			"must have the type 'object', without $ref and anyOf");
	json_object_set_new(s, "type", json_string("object"));
	if (!json_object_get(s, "additionalProperties"))
		json_object_set_new(s, "additionalProperties", json_false());
	return 0;
}

static int read_tool(struct reading *r, size_t i)
{
	static const char *const of_tool[] = { "type", "function", NULL };
	static const char *const of_function[] = { "name", "description",
		"parameters", "strict", NULL };
	json_t *tool = json_array_get(r->list, i);
	json_t *function = json_object_get(tool, "function"), *about, *strict;
	const char *type = json_string_value(json_object_get(tool, "type"));
	const char *name = json_string_value(json_object_get(function, "name"));
	int ret;

	if (!type || strcmp(type, "function"))
		return refuse(r, i, ".type",
			"must be 'function', the only supported type");
	if (!json_is_object(function))
		return refuse(r, i, ".function", "must be an object");
	ret = check_members(r, i, tool, "", of_tool);
	if (!ret)
		ret = check_members(r, i, function, ".function", of_function);
	if (ret)
		return ret;
	about = json_object_get(function, "description");
	strict = json_object_get(function, "strict");
	if (!name || !chat_tool_is_name(name, strlen(name)))
		return refuse(r, i, ".function.name",
			"must be 1 to 64 letters, digits, _ and -");
	if (about && !json_is_null(about) && !json_is_string(about))
		return refuse(
			r, i, ".function.description", "must be a string");
	if (strict && !json_is_null(strict) && !json_is_boolean(strict))
		return refuse(
			r, i, ".function.strict", "must be true or false");
	for (size_t k = 0; k < i; k++)
		if (!strcmp(r->name[k], name))
			return refuse(r, i, ".function.name",
				"is the name of an earlier tool, too");
	r->name[i] = name;
	return read_schema(r, i, json_object_get(function, "parameters"));
}

/* Append a tool, formatted for the prompt: with the schema as the caller gave
 * it, and without `strict`, which has no meaning for the model. */
static void put_tool(
	const struct reading *r, size_t i, size_t indent, struct strbuf *out)
{
	json_t *function = json_deep_copy(
		json_object_get(json_array_get(r->list, i), "function"));
	json_t *tool = json_pack(
		"{s:s, s:o*}", "type", "function", "function", function);
	char *text;

	json_object_del(function, "strict");
	text = json_dumps(tool, JSON_INDENT(indent));
	if (text)
		strbuf_add(out, text, strlen(text));
	else
		out->failed = true;
	free(text);
	json_decref(tool);
}

static int make_nodes(struct chat_tools *t, struct reading *r,
	const struct chat_tools_opts *o)
{
	const struct call_style *s = t->style;
	struct json_calls calls = { .marker = s->marker,
		.open = s->open,
		.middle = s->middle,
		.close = s->close,
		.again = s->again,
		.array = s->array,
		.one = o->one,
		.name = r->name,
		.schema = r->schema,
		.where = r->where,
		.n = r->n };
	size_t only = 0;

	if (!o->must && !o->only)
		calls.start = s->at_start ? JSON_START_EITHER : JSON_START_FREE;
	else if (*s->marker)
		calls.start = JSON_START_MARKED;
	if (o->only) {
		while (only < r->n && strcmp(r->name[only], o->only))
			only++;
		if (only == r->n)
			return err_set(r->e, EINVAL,
				"tool_choice is the function '%.64s', which is "
				"not among the tools",
				o->only);
		calls.name += only;
		calls.schema += only;
		calls.where += only;
		calls.n = 1;
	}
	return json_nodes_open_calls(&t->nodes, &calls, r->e);
}

int chat_tools_open(struct chat_tools **out, const struct call_style *style,
	const struct chat_tools_opts *o, struct err *e)
{
	struct chat_tools *t = calloc(1, sizeof(*t));
	struct strbuf text = STRBUF_INIT, where = STRBUF_INIT;
	struct reading r = { .e = e };
	json_error_t error;
	int ret = 0;

	*out = NULL;
	r.list = json_loads(o->json, JSON_REJECT_DUPLICATES, &error);
	r.n = json_array_size(r.list);
	r.name = calloc(r.n + 1, sizeof(*r.name));
	r.schema = calloc(r.n + 1, sizeof(*r.schema));
	r.where = calloc(r.n + 1, sizeof(*r.where));
	if (!t || !r.name || !r.schema || !r.where)
		ret = err_set(e, ENOMEM, "no memory for the tools");
	else if (!r.n)
		ret = err_set(e, EINVAL,
			"tools must be a JSON list of at least one tool");
	for (size_t i = 0; i < r.n && !ret; i++)
		ret = read_tool(&r, i);
	if (!ret && !*style->marker && !o->must && !o->only)
		ret = err_set(e, EINVAL,
			"tool_choice is 'auto', but in the model's chat "
			"template calls cannot be distinguished from text; use "
			"'required', a function, or 'none'");
	if (ret)
		goto out;

	for (size_t i = 0; i < r.n; i++) {
		strbuf_addf(&where, "tools[%zu].function.parameters", i);
		strbuf_add(&where, "", 1);
		if (i)
			strbuf_addf(&text, "%s", style->tools_between);
		put_tool(&r, i, style->indent, &text);
	}
	/* Set r.where[] only now, because where.data may have moved whenever
	 * the buffer grew. */
	for (size_t i = 0, at = 0; i < r.n && !where.failed; i++) {
		r.where[i] = where.data + at;
		at += strlen(where.data + at) + 1;
	}
	t->style = style;
	t->text = text.data;
	if (text.failed || where.failed)
		ret = err_set(e, ENOMEM, "no memory for the tools");
	else
		ret = make_nodes(t, &r, o);
out:
	strbuf_release(&where);
	for (size_t i = 0; r.schema && i < r.n; i++)
		json_decref(r.schema[i]);
	free(r.name);
	free(r.schema);
	free(r.where);
	json_decref(r.list);
	if (ret)
		chat_tools_close(t);
	else
		*out = t;
	return ret;
}

void chat_tools_close(struct chat_tools *t)
{
	if (!t)
		return;
	json_nodes_close(t->nodes);
	free(t->text);
	free(t);
}
