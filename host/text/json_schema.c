/* Reading a schema: its keywords, and the nodes made from them. */
#include "host/text/json_schema_reader.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/text/list_grow.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	unsigned type;
} types[] = { { "null", OF_NULL }, { "boolean", OF_BOOLEAN },
	{ "integer", OF_INTEGER }, { "number", OF_NUMBER },
	{ "string", OF_STRING }, { "array", OF_ARRAY },
	{ "object", OF_OBJECT } };

/* Groups of keywords. NOTE: a keyword that does not restrict values. SHAPE: a
 * keyword that restricts the values of one type. TYPE: type. VALUES: enum and
 * const. CHOICE: anyOf. POINTER: $ref. read_object_schema refuses a schema with
 * keywords of groups that cannot be combined. */
enum group { NOTE, SHAPE, TYPE, VALUES, CHOICE, POINTER };

static const struct {
	const char *name;
	enum group group;
} keywords[] = {
	{ "$schema", NOTE },
	{ "$id", NOTE },
	{ "$comment", NOTE },
	{ "$defs", NOTE },
	{ "definitions", NOTE },
	{ "title", NOTE },
	{ "description", NOTE },
	{ "default", NOTE },
	{ "examples", NOTE },
	{ "deprecated", NOTE },
	{ "readOnly", NOTE },
	{ "writeOnly", NOTE },
	{ "type", TYPE },
	{ "enum", VALUES },
	{ "const", VALUES },
	{ "anyOf", CHOICE },
	{ "$ref", POINTER },
	{ "properties", SHAPE },
	{ "required", SHAPE },
	{ "additionalProperties", SHAPE },
	{ "items", SHAPE },
	{ "minItems", SHAPE },
	{ "maxItems", SHAPE },
	{ "minLength", SHAPE },
	{ "maxLength", SHAPE },
	{ "minimum", SHAPE },
	{ "maximum", SHAPE },
	{ "exclusiveMinimum", SHAPE },
	{ "exclusiveMaximum", SHAPE },
};

/* ---- the path of the part that is being read ----------------------------- */

int schema_refuse(struct schema_reader *r, const char *fmt, ...)
{
	char why[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return err_set(r->e, EINVAL, "JSON Schema, at %.200s: %s",
		r->path.data ? r->path.data : "#", why);
}

size_t schema_enter(struct schema_reader *r, const char *step)
{
	size_t was = r->path.len;

	strbuf_addf(&r->path, "/%s", step);
	return was;
}

void schema_leave(struct schema_reader *r, size_t was)
{
	r->path.len = was;
	if (r->path.data)
		r->path.data[was] = '\0';
}

int schema_read_below(
	struct schema_reader *r, const char *step, json_t *s, uint32_t *out)
{
	size_t was = schema_enter(r, step);
	int ret = schema_read(r, s, out);

	schema_leave(r, was);
	return ret;
}

/* ---- references ---------------------------------------------------------- */

/* Follow one step of a JSON Pointer (RFC 6901): returns the member or element
 * of `at` that the step names, or NULL if there is none. */
static json_t *step_into(json_t *at, char *step)
{
	char *to = step, *end;
	size_t i;

	/* In a step, ~1 means a slash and ~0 means a tilde. */
	for (const char *p = step; *p; p++) {
		if (p[0] == '~' && (p[1] == '0' || p[1] == '1'))
			*to++ = *++p == '1' ? '/' : '~';
		else
			*to++ = *p;
	}
	*to = '\0';
	if (!json_is_array(at))
		return json_object_get(at, step);
	i = strtoul(step, &end, 10);
	return *step && !*end ? json_array_get(at, i) : NULL;
}

static int read_ref(struct schema_reader *r, json_t *ref, uint32_t *out)
{
	const char *text = json_string_value(ref);
	char *copy = text ? strdup(text) : NULL, *save = NULL;
	json_t *at = r->root;
	uint32_t node;
	int ret;

	if (text && !copy)
		return -ENOMEM;
	if (!text || text[0] != '#' || (text[1] && text[1] != '/')) {
		free(copy);
		return schema_refuse(r,
			"$ref is '%.80s'; it can only refer to parts of the "
			"schema, like #/$defs/NAME",
			text ? text : "");
	}
	for (char *s = strtok_r(copy + 1, "/", &save); s && at;
		s = strtok_r(NULL, "/", &save))
		at = step_into(at, s);
	free(copy);
	if (!at)
		return schema_refuse(r,
			"$ref is '%.80s', but the schema has no such part",
			text);
	ret = schema_read(r, at, &node);
	return ret ? ret : schema_add_parent(r, FORM_ONE_OF, &node, 1, out);
}

/* ---- reading a schema and its keywords ----------------------------------- */

static int read_type(struct schema_reader *r, json_t *s, unsigned *type)
{
	json_t *v = json_object_get(s, "type");
	size_t n = json_is_array(v) ? json_array_size(v) : 1;

	*type = v ? 0 : OF_ANY;
	for (size_t i = 0; v && i < n; i++) {
		json_t *item = json_is_array(v) ? json_array_get(v, i) : v;
		const char *name = json_string_value(item);
		size_t k = 0;

		while (k < ARRAY_LEN(types) &&
			(!name || strcmp(types[k].name, name)))
			k++;
		if (k == ARRAY_LEN(types))
			return schema_refuse(r,
				"type is '%.40s'; the types are null, boolean, "
				"integer, number, string, array and object",
				name ? name : "(not a string)");
		*type |= types[k].type;
	}
	return *type ? 0 : schema_refuse(r, "type is an empty list");
}

/* Make the nodes for each allowed type, using the keywords for that type. */
static int read_shapes(
	struct schema_reader *r, json_t *s, unsigned type, uint32_t *out)
{
	json_t *word[] = { json_null(), json_true(), json_false() };
	uint32_t node[8], n = 0;
	int ret = 0;

	if (type & OF_NULL)
		ret = schema_add_words(r, &word[0], 1, &node[n++]);
	if (!ret && type & OF_BOOLEAN)
		ret = schema_add_words(r, &word[1], 1, &node[n++]);
	if (!ret && type & OF_BOOLEAN)
		ret = schema_add_words(r, &word[2], 1, &node[n++]);
	if (!ret && type & (OF_INTEGER | OF_NUMBER))
		ret = schema_read_number(r, s, !(type & OF_NUMBER), &node[n++]);
	if (!ret && type & OF_STRING)
		ret = schema_read_string(r, s, &node[n++]);
	if (!ret && type & OF_ARRAY)
		ret = schema_read_array(r, s, &node[n++]);
	if (!ret && type & OF_OBJECT)
		ret = schema_read_object(r, s, &node[n++]);
	return ret ? ret : schema_add_parent(r, FORM_ONE_OF, node, n, out);
}

static int read_object_schema(struct schema_reader *r, json_t *s, uint32_t *out)
{
	unsigned groups = 0, type;
	json_t *value, *list, *one;
	const char *key;
	int ret;

	json_object_foreach(s, key, value)
	{
		size_t k = 0;

		while (k < ARRAY_LEN(keywords) && strcmp(keywords[k].name, key))
			k++;
		if (k == ARRAY_LEN(keywords))
			return schema_refuse(r,
				"the keyword '%.60s' is not supported "
				"(docs/structured.md lists those that are)",
				key);
		groups |= 1u << keywords[k].group;
	}
	groups &= ~(1u << NOTE);
	ret = read_type(r, s, &type);
	if (ret)
		return ret;
	if (groups == 1u << POINTER)
		return read_ref(r, json_object_get(s, "$ref"), out);
	if (groups == 1u << CHOICE)
		return schema_read_any_of(r, json_object_get(s, "anyOf"), out);
	if (groups & (1u << POINTER | 1u << CHOICE))
		return schema_refuse(r,
			"$ref and anyOf cannot be combined with other "
			"keywords");
	if (groups & 1u << VALUES && groups & 1u << SHAPE)
		return schema_refuse(
			r, "enum and const can be combined with type only");
	if (!(groups & 1u << VALUES))
		return read_shapes(r, s, type, out);
	list = json_object_get(s, "enum");
	one = json_object_get(s, "const");
	if (list && one)
		return schema_refuse(r, "enum and const cannot be combined");
	if (list && !json_is_array(list))
		return schema_refuse(r, "enum is not a list");
	if (list)
		return schema_read_values(r, list, type, out);
	list = json_pack("[O]", one);
	ret = list ? schema_read_values(r, list, type, out) : -ENOMEM;
	json_decref(list);
	return ret;
}

/* Read a schema or a subschema; NULL and true allow any value. Each schema is
 * read only once. A schema is added to r->done before its contents are read,
 * because it may refer to itself. */
int schema_read(struct schema_reader *r, json_t *s, uint32_t *out)
{
	uint32_t node, inner;
	int ret;

	if (json_is_true(s))
		s = NULL;
	if (s && !json_is_object(s))
		return schema_refuse(r,
			json_is_false(s) ? "the schema is false, which allows "
					   "no value"
					 : "a schema must be an object or "
					   "true");
	for (uint32_t i = 0; i < r->n_done; i++)
		if (r->done[i].schema == s) {
			*out = r->done[i].node;
			return 0;
		}
	ret = schema_add_node(r, FORM_ONE_OF, &node);
	if (!ret)
		ret = list_grow(
			&r->done, r->n_done, &r->cap_done, sizeof(*r->done));
	if (ret)
		return ret;
	r->done[r->n_done++] = (struct schema_done){ s, node };
	ret = s ? read_object_schema(r, s, &inner)
		: read_shapes(r, NULL, OF_ANY, &inner);
	if (!ret)
		ret = schema_add_kid(r, inner);
	if (ret)
		return ret;
	r->j->node[node].first = r->j->n_kids - 1;
	r->j->node[node].n = 1;
	*out = node;
	return 0;
}
