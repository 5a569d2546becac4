/*
 * A JSON Schema, of the subset in docs/structured.md, as nodes: what a value
 * may be, each in the words of the automaton (json_machine.h). What is outside
 * of the subset is refused with the keyword and where it stands. Read-only once
 * open.
 */
#ifndef HOST_TEXT_JSON_NODES_H
#define HOST_TEXT_JSON_NODES_H

#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

struct err;

#define JSON_NONE       UINT32_MAX
#define JSON_LEVELS     32      /* of objects and arrays within each other */
#define JSON_PROPERTIES 64      /* of an object that a schema names */
#define JSON_MICRO      1000000 /* numbers with bounds are counted in this */

enum form_kind {
	FORM_ONE_OF, /* what its leaves are */
	FORM_TEXT,   /* one of some texts, to the byte */
	FORM_STRING,
	FORM_INTEGER,
	FORM_NUMBER,
	FORM_OBJECT,
	FORM_ARRAY,
};

struct json_node {
	enum form_kind kind;
	uint32_t first, n; /* names of TEXT and OBJECT; kids of ONE_OF, and of
			    * ARRAY those of its first items */
	uint32_t min, max; /* characters, items */
	uint32_t rest;     /* further properties or items; JSON_NONE: none */
	uint64_t required; /* names, by their place */
	int bounded;
	int64_t lo, hi;          /* in units, or in millionths of a NUMBER */
	uint32_t leaf, n_leaves; /* of ONE_OF all below it, else itself */
	uint32_t height;         /* levels that the least value opens */
};

/* A text as it is written: of a property's name with the quote behind it and
 * without the one before it. */
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

/* -EINVAL with what is wrong and where; -ENOMEM. */
int json_nodes_open(struct json_nodes **out, const char *schema, struct err *);
void json_nodes_close(struct json_nodes *);

static inline const char *json_name_text(
	const struct json_nodes *j, uint32_t name)
{
	return j->text.data + j->name[name].at;
}

#endif
