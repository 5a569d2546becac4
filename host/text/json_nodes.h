/*
 * A JSON Schema, of the subset in docs/structured.md, as a table of nodes: the
 * possible values, in the form that the automaton uses (json_machine.h). Other
 * schemas are refused with the keyword and its place. Read-only once open.
 */
#ifndef HOST_TEXT_JSON_NODES_H
#define HOST_TEXT_JSON_NODES_H

#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

struct err;

#define JSON_NONE       UINT32_MAX
#define JSON_LEVELS     32      /* nesting of objects and arrays */
#define JSON_PROPERTIES 64      /* named by an object's schema */
#define JSON_MICRO      1000000 /* unit of numbers with bounds */

enum form_kind {
	FORM_ONE_OF, /* any of its leaves */
	FORM_TEXT,   /* one of some literal texts */
	FORM_STRING,
	FORM_INTEGER,
	FORM_NUMBER,
	FORM_OBJECT,
	FORM_ARRAY,
};

struct json_node {
	enum form_kind kind;
	/* names of TEXT and OBJECT; kids of ONE_OF, and of an ARRAY's first
	 * items */
	uint32_t first, n;
	uint32_t min, max; /* characters or items */
	/* node of further properties or items; JSON_NONE: none */
	uint32_t rest;
	uint64_t required; /* names, a bit each */
	int bounded;
	int64_t lo, hi;          /* in units, or in millionths for a NUMBER */
	uint32_t leaf, n_leaves; /* of ONE_OF all below it, else itself */
	uint32_t height;         /* levels that the smallest value needs */
};

/* A text as it is written: a property's name with its closing quote, without
 * the opening one. */
struct json_name {
	uint32_t at, len; /* in text */
	uint32_t node;    /* of a property */
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
};

/* -EINVAL with a description and its place; -ENOMEM. */
int json_nodes_open(struct json_nodes **out, const char *schema, struct err *);
void json_nodes_close(struct json_nodes *);

static inline const char *json_name_text(
	const struct json_nodes *j, uint32_t name)
{
	return j->text.data + j->name[name].at;
}

#endif
