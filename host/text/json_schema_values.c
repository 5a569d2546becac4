/* Reading enum, const and anyOf: lists of values, and choices among schemas. */
#include "host/text/json_schema_reader.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

int schema_add_parent(struct schema_reader *r, enum form_kind kind,
	const uint32_t *node, uint32_t n, uint32_t *out)
{
	uint32_t first = r->j->n_kids;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++)
		ret = schema_add_kid(r, node[i]);
	if (!ret)
		ret = schema_add_node(r, kind, out);
	if (ret)
		return ret;
	r->j->node[*out].first = first;
	r->j->node[*out].n = n;
	return 0;
}

int schema_add_text(struct schema_reader *r, uint32_t first, uint32_t *out)
{
	struct json_nodes *j = r->j;
	int ret = schema_add_node(r, FORM_TEXT, out);

	if (ret)
		return ret;
	qsort_r(j->name + first, j->n_names - first, sizeof(*j->name),
		schema_in_order, j);
	j->node[*out].first = first;
	j->node[*out].n = j->n_names - first;
	return 0;
}

int schema_add_words(
	struct schema_reader *r, json_t *const *value, size_t n, uint32_t *out)
{
	uint32_t first = r->j->n_names;
	int ret = 0;

	if (n > UINT16_MAX)
		return schema_refuse(
			r, "enum has more than %d strings", UINT16_MAX);
	for (size_t i = 0; i < n && !ret; i++)
		ret = schema_add_name(r, value[i], 0, JSON_NONE);
	return ret ? ret : schema_add_text(r, first, out);
}

/* Make a node that allows exactly this value. */
static int add_value(struct schema_reader *r, json_t *value, uint32_t *out)
{
	uint32_t n = (uint32_t)json_array_size(value), *kid;
	struct schema_named *d;
	const char *key;
	json_t *member;
	unsigned at;
	int ret;

	if (!json_is_array(value) && !json_is_object(value))
		return schema_add_words(r, &value, 1, out);
	kid = calloc(n + 1, sizeof(*kid));
	d = calloc(1, sizeof(*d));
	ret = kid && d ? 0 : -ENOMEM;
	if (!ret && json_is_object(value)) {
		json_object_foreach(value, key, member)
		{
			ret = add_value(r, member, kid);
			if (!ret)
				ret = schema_name_property(
					r, d, key, *kid, &at);
			if (ret)
				break;
			d->required[at] = true;
		}
		if (!ret)
			ret = schema_add_object(r, d, JSON_NONE, out);
	} else if (!ret) {
		for (uint32_t i = 0; i < n && !ret; i++)
			ret = add_value(r, json_array_get(value, i), &kid[i]);
		if (!ret)
			ret = schema_add_parent(r, FORM_ARRAY, kid, n, out);
		if (!ret)
			r->j->node[*out].min = r->j->node[*out].max = n;
	}
	free(kid);
	free(d);
	return ret;
}

static bool is_of(json_t *v, unsigned type)
{
	double x = json_number_value(v);

	switch (json_typeof(v)) {
	case JSON_NULL:
		return type & OF_NULL;
	case JSON_TRUE:
	case JSON_FALSE:
		return type & OF_BOOLEAN;
	case JSON_INTEGER:
		return type & (OF_INTEGER | OF_NUMBER);
	case JSON_REAL:
		return type & OF_NUMBER || (type & OF_INTEGER && x == floor(x));
	case JSON_STRING:
		return type & OF_STRING;
	case JSON_ARRAY:
		return type & OF_ARRAY;
	default:
		return type & OF_OBJECT;
	}
}

/* Read enum or const. All strings are put into one node, so that they are
 * matched at the same time. */
int schema_read_values(
	struct schema_reader *r, json_t *list, unsigned type, uint32_t *out)
{
	size_t n = json_array_size(list), strings = 0;
	json_t **string = calloc(n + 1, sizeof(*string));
	uint32_t *node = calloc(n + 1, sizeof(*node)), n_nodes = 0;
	int ret = string && node ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !ret; i++) {
		json_t *v = json_array_get(list, i);

		if (!is_of(v, type))
			continue;
		if (json_is_string(v))
			string[strings++] = v;
		else
			ret = add_value(r, v, &node[n_nodes++]);
	}
	if (!ret && strings)
		ret = schema_add_words(r, string, strings, &node[n_nodes++]);
	if (!ret && !n_nodes)
		ret = schema_refuse(r,
			"no value of enum or const has a type that the "
			"schema allows");
	if (!ret)
		ret = schema_add_parent(r, FORM_ONE_OF, node, n_nodes, out);
	free(string);
	free(node);
	return ret;
}

int schema_read_any_of(struct schema_reader *r, json_t *list, uint32_t *out)
{
	size_t n = json_array_size(list), was = schema_enter(r, "anyOf");
	uint32_t *node = calloc(n + 1, sizeof(*node));
	int ret = node ? 0 : -ENOMEM;

	if (!ret && !n)
		ret = schema_refuse(r, "anyOf is not a list of schemas");
	for (size_t i = 0; i < n && !ret; i++) {
		char step[24];

		snprintf(step, sizeof(step), "%zu", i);
		ret = schema_read_below(
			r, step, json_array_get(list, i), &node[i]);
	}
	if (!ret)
		ret = schema_add_parent(r, FORM_ONE_OF, node, (uint32_t)n, out);
	schema_leave(r, was);
	free(node);
	return ret;
}
