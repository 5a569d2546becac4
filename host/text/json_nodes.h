/*
 * A JSON Schema, of the subset in docs/structured.md, as a table of nodes that
 * describe the possible values, in the form that the automaton uses
 * (json_machine.h). Other schemas are refused with the keyword and its place in
 * the schema. Read-only once open.
 */
#ifndef HOST_TEXT_JSON_NODES_H
#define HOST_TEXT_JSON_NODES_H

#include "base/strbuf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define JSON_NONE       UINT32_MAX
#define JSON_LEVELS     32 /* most nested objects and arrays */
#define JSON_PROPERTIES 64 /* most properties named by an object's schema */
/* A number with bounds is counted in millionths. */
#define JSON_MICRO 1000000

enum form_kind {
	FORM_ONE_OF, /* any of several nodes */
	FORM_TEXT,   /* one of several literal texts */
	FORM_STRING,
	FORM_INTEGER,
	FORM_NUMBER,
	FORM_OBJECT,
	FORM_ARRAY,
	/* several nodes, one directly after another; follows a literal */
	FORM_SEQUENCE,
};

struct json_node {
	enum form_kind kind;
	/* Range in json_nodes.name (TEXT, OBJECT) or in json_nodes.kid (child
	 * nodes of ONE_OF and SEQUENCE, or of the first items of an ARRAY). */
	uint32_t first, n;
	uint32_t min, max; /* characters of a STRING, or items of an ARRAY */
	/* node of further properties or items; JSON_NONE if none are allowed */
	uint32_t rest;
	uint64_t required; /* a bit for each required name */
	int bounded;
	int64_t lo, hi; /* bounds of a number; in millionths for a NUMBER */
	/* Range in json_nodes.leaf: for ONE_OF all nodes below it that are not
	 * ONE_OF, for other kinds the node itself. */
	uint32_t leaf, n_leaves;
	uint32_t height; /* nesting levels that the smallest value needs */
};

/* A literal as it appears in the text. A property's name has its closing quote,
 * but not the opening one. */
struct json_name {
	uint32_t at, len; /* range in json_nodes.text */
	/* node of the property's value; for other literals the SEQUENCE that
	 * follows, or JSON_NONE */
	uint32_t node;
};

/* What comes before the first value. */
enum json_start {
	JSON_START_VALUE,  /* nothing */
	JSON_START_MARKED, /* the marker */
	JSON_START_FREE,   /* any text, which ends with the marker or the end */
	/* the marker, or any text that does not begin with it */
	JSON_START_EITHER,
};

struct json_nodes {
	struct json_node *node;
	uint32_t n, cap;
	struct json_name *name;
	uint32_t n_names, cap_names;
	uint32_t *kid;
	uint32_t n_kids, cap_kids;
	uint32_t *leaf;
	uint32_t n_leaves, cap_leaves;
	struct strbuf text;
	uint32_t root;
	/* For tool calls (json_calls.h): the start of the output, its marker,
	 * and the text between two values, NULL if there is only one value. The
	 * strings are static. */
	enum json_start start;
	const char *marker, *again;
};

/*
 * The calls of tools in an output. A call is `open`, the tool's name, `middle`,
 * arguments that fit the tool's schema, and `close`. `marker` comes before the
 * first call and `again` between two calls (NULL: one call at most), or with
 * `array` the calls are the elements of a JSON array after the marker.
 */
struct json_calls {
	enum json_start start;
	const char *marker, *open, *middle, *close, *again;
	bool array;
	bool one;                 /* at most one call */
	const char *const *name;  /* [n] */
	json_t *const *schema;    /* [n] schemas of the arguments */
	const char *const *where; /* [n] place of a schema, for errors */
	size_t n;
};

/* Make the nodes of tool calls. The strings that are not in arrays must outlive
 * the nodes. Returns as json_nodes_open does. */
int json_nodes_open_calls(
	struct json_nodes **out, const struct json_calls *, struct err *);

/* Read a JSON Schema. Returns 0, -ENOMEM, or -EINVAL with a description of the
 * error and its place in the schema. */
int json_nodes_open(struct json_nodes **out, const char *schema, struct err *);
void json_nodes_close(struct json_nodes *);

static inline const char *json_name_text(
	const struct json_nodes *j, uint32_t name)
{
	return j->text.data + j->name[name].at;
}

#endif
