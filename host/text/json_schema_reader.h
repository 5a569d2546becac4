/*
 * Reading a JSON Schema into nodes (json_nodes.h): functions shared by the
 * json_schema*.c files. These functions return 0, -ENOMEM, or -EINVAL with a
 * description of the error and its place in the schema. *out receives the
 * number of the node that was made. Not thread-safe.
 */
#ifndef HOST_TEXT_JSON_SCHEMA_READER_H
#define HOST_TEXT_JSON_SCHEMA_READER_H

#include "base/strbuf.h"
#include "host/text/json_nodes.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum type {
	OF_NULL = 1,
	OF_BOOLEAN = 2,
	OF_INTEGER = 4,
	OF_NUMBER = 8,
	OF_STRING = 16,
	OF_ARRAY = 32,
	OF_OBJECT = 64,
	OF_ANY = 127
};

/* A schema that is being read. `done` lists the parts of the schema whose
 * reading has begun or ended. */
struct schema_reader {
	struct json_nodes *j;
	json_t *root;
	struct strbuf path;
	struct schema_done {
		json_t *schema;
		uint32_t node;
	} * done;
	uint32_t n_done;
	size_t cap_done;
	struct err *e;
};

/* ---- adding nodes and literals: json_nodes.c ---- */

int schema_add_node(struct schema_reader *, enum form_kind, uint32_t *out);
int schema_add_kid(struct schema_reader *, uint32_t node);
/* Add a literal. schema_add_literal adds `text`. schema_add_name writes `value`
 * as JSON and adds this JSON text without its first `skip` bytes. */
int schema_add_literal(struct schema_reader *, const char *text, uint32_t node);
int schema_add_name(
	struct schema_reader *, json_t *value, size_t skip, uint32_t node);

/* After all nodes have been read, compute for each node the members that depend
 * on the nodes below it: leaf, n_leaves and height. */
int schema_finish(struct schema_reader *);

/* ---- the path, and reading a schema: json_schema.c ----------------------- */

__attribute__((format(printf, 2, 3))) int schema_refuse(
	struct schema_reader *, const char *fmt, ...);
/* schema_enter appends a step to `path`, the path of the part of the schema
 * that is being read. The value that schema_enter returns is passed to
 * schema_leave, which restores the previous path. */
size_t schema_enter(struct schema_reader *, const char *step);
void schema_leave(struct schema_reader *, size_t was);
int schema_read(struct schema_reader *, json_t *schema, uint32_t *out);
int schema_read_below(struct schema_reader *, const char *step, json_t *schema,
	uint32_t *out);

/* ---- values by type: json_schema_shapes.c -------------------------------- */

int schema_read_number(
	struct schema_reader *, json_t *schema, bool integer, uint32_t *out);
int schema_read_string(struct schema_reader *, json_t *schema, uint32_t *out);
int schema_read_array(struct schema_reader *, json_t *schema, uint32_t *out);
int schema_read_object(struct schema_reader *, json_t *schema, uint32_t *out);

/* The n named properties of an object, with their nodes. A property that is
 * required but not listed in `properties` has the node of
 * additionalProperties. */
struct schema_named {
	const char *key[JSON_PROPERTIES];
	uint32_t node[JSON_PROPERTIES];
	bool required[JSON_PROPERTIES];
	unsigned n;
};

int schema_name_property(struct schema_reader *, struct schema_named *,
	const char *key, uint32_t node, unsigned *at);
int schema_add_object(struct schema_reader *, const struct schema_named *,
	uint32_t rest, uint32_t *out);
/* qsort_r comparison of names by the bytes of their texts. */
int schema_in_order(const void *a, const void *b, void *nodes);

/* ---- choices and listed values: json_schema_values.c --------------------- */

/* Make a node of this kind with the child nodes node[n]. A FORM_ONE_OF allows
 * the values of any child node. */
int schema_add_parent(struct schema_reader *, enum form_kind,
	const uint32_t *node, uint32_t n, uint32_t *out);
/* Make a node that allows any of the literals from index `first` on. */
int schema_add_text(struct schema_reader *, uint32_t first, uint32_t *out);
/* Make a node that allows any of the literal values value[n]. The values must
 * not be arrays or objects. */
int schema_add_words(
	struct schema_reader *, json_t *const *value, size_t n, uint32_t *out);
int schema_read_values(
	struct schema_reader *, json_t *list, unsigned type, uint32_t *out);
int schema_read_any_of(struct schema_reader *, json_t *list, uint32_t *out);

#endif
