/*
 * A JSON Schema, of the subset in docs/structured.md, as a table of nodes that
 * describe the possible values, in the form that the automaton uses
 * (json_machine.h). Other schemas are refused; the error message names the
 * unsupported keyword and its place in the schema. Read-only once open.
 */
#ifndef HOST_TEXT_JSON_NODES_H
#define HOST_TEXT_JSON_NODES_H

#include "base/strbuf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define JSON_NONE   UINT32_MAX
#define JSON_LEVELS 32 /* maximum number of nested objects and arrays */
/* maximum number of properties that the schema of an object names */
#define JSON_PROPERTIES 64
/* The bounds of a FORM_NUMBER are stored in millionths. */
#define JSON_MICRO 1000000

enum form_kind {
	FORM_ONE_OF, /* any of several nodes */
	FORM_TEXT,   /* one of several literal texts */
	FORM_STRING,
	FORM_INTEGER,
	FORM_NUMBER,
	FORM_OBJECT,
	FORM_ARRAY,
	/* the values of several nodes, directly after one another; a SEQUENCE
	 * node is used only after a literal (json_name.node) */
	FORM_SEQUENCE,
};

struct json_node {
	enum form_kind kind;
	/* For TEXT and OBJECT, a range in json_nodes.name. For ONE_OF, SEQUENCE
	 * and ARRAY, a range in json_nodes.kid: the child nodes, which for an
	 * ARRAY are the nodes of its first items. */
	uint32_t first, n;
	/* minimum and maximum number of characters of a STRING or items of an
	 * ARRAY */
	uint32_t min, max;
	/* node for the properties or items that are not in the range of `first`
	 * and `n`; JSON_NONE if no such properties or items are allowed */
	uint32_t rest;
	/* one bit for each name in the range: whether the property is
	 * required */
	uint64_t required;
	int bounded;
	int64_t lo, hi; /* bounds of a number; for FORM_NUMBER in millionths */
	/* Range in json_nodes.leaf. For other kinds than ONE_OF: the node
	 * itself. For ONE_OF: the leaves of all its alternatives. */
	uint32_t leaf, n_leaves;
	/* nesting levels of the least nested value that the node allows;
	 * JSON_NONE if every value would be infinitely nested */
	uint32_t height;
};

/* A literal as it appears in the output. The literal of a property's name
 * includes the closing quote, but not the opening quote. */
struct json_name {
	uint32_t at, len; /* range in json_nodes.text */
	/* for a property's name, the node of its value; for other literals the
	 * SEQUENCE that follows, or JSON_NONE */
	uint32_t node;
};

/* The text that precedes the first value of an output. */
enum json_start {
	JSON_START_VALUE,  /* nothing */
	JSON_START_MARKED, /* the marker of a tool call */
	/* any text; the output may end within this text, or the marker of a
	 * tool call follows */
	JSON_START_FREE,
	/* either the marker of a tool call, or text that does not begin with
	 * the marker and has no tool call after it */
	JSON_START_EITHER,
};

struct json_nodes {
	struct json_node *node;
	struct json_name *name;
	uint32_t *kid, *leaf;
	uint32_t n, n_names, n_kids, n_leaves;
	size_t cap, cap_names, cap_kids, cap_leaves;
	struct strbuf text;
	uint32_t root;
	/* For tool calls (struct json_calls): how the output starts, the
	 * marker, and the text between two values (NULL if there is only one
	 * value). The strings are static. */
	enum json_start start;
	const char *marker, *again;
};

/*
 * Format of the tool calls in an output. A call is `open`, the tool's name,
 * `middle`, arguments that fit the tool's schema, and `close`. `marker`
 * precedes the first call. `again` is between two calls; NULL: at most one
 * call. With `array`, the calls are the elements of a JSON array that follows
 * the marker.
 */
struct json_calls {
	enum json_start start;
	const char *marker, *open, *middle, *close, *again;
	bool array;
	bool one;                /* whether to allow at most one call */
	const char *const *name; /* [n] names of the tools */
	json_t *const *schema;   /* [n] schemas of the arguments */
	/* [n] place of each schema in the request, for error messages */
	const char *const *where;
	size_t n;
};

/* Make the nodes for tool calls. The static strings of json_calls must outlive
 * the nodes; its arrays may be freed after this call. Returns the same values
 * as json_nodes_open. */
int json_nodes_open_calls(
	struct json_nodes **out, const struct json_calls *, struct err *);

/* Read a JSON Schema. Returns 0, -ENOMEM, or -EINVAL with a description of the
 * error and its place in the schema. */
int json_nodes_open(struct json_nodes **out, const char *schema, struct err *);
void json_nodes_close(struct json_nodes *);

#endif
