/* Reading the schemas of numbers, strings, arrays and objects. */
#include "host/text/json_schema_reader.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers, strings, arrays -------------------------------------------- */

/* Read the keywords for the minimum and the maximum number of characters or
 * items. */
static int read_limits(struct schema_reader *r, json_t *s,
	const char *const keyword[2], uint32_t limit[2])
{
	for (unsigned i = 0; i < 2; i++) {
		json_t *v = json_object_get(s, keyword[i]);
		double n = json_number_value(v);

		if (!v)
			continue;
		if (!json_is_number(v) || n < 0 || n > 1e9 || n != floor(n))
			return schema_refuse(r,
				"%s is not an integer from 0 to 1e9",
				keyword[i]);
		limit[i] = (uint32_t)n;
	}
	if (limit[0] <= limit[1])
		return 0;
	return schema_refuse(r, "%s is more than %s", keyword[0], keyword[1]);
}

/* Read a bound, in units of 1 / `unit`. A bound that is not a multiple of this
 * unit is refused. `by` is added to the bound; an exclusive bound is thereby
 * moved inwards by one unit. If *n already has this bound, the narrower of the
 * two bounds is kept. */
static int read_bound(struct schema_reader *r, json_t *s, const char *keyword,
	int64_t unit, int by, struct json_node *n)
{
	json_t *v = json_object_get(s, keyword);
	double x = json_number_value(v), most = unit == 1 ? 1e15 : 1e9;
	double scaled = nearbyint(x * (double)unit);
	bool low = strcasestr(keyword, "minimum");
	int64_t at;

	if (!v)
		return 0;
	if (!json_is_number(v))
		return schema_refuse(r, "%s is not a number", keyword);
	if (!(fabs(x) <= most) || scaled / (double)unit != x)
		return schema_refuse(r,
			"%s of %s is %.17g; it must be %s, with an absolute "
			"value of at most %g",
			keyword, unit == 1 ? "an integer" : "a number", x,
			unit == 1 ? "whole" : "a multiple of 0.000001", most);
	at = (int64_t)scaled + by;
	if (low && at > n->lo)
		n->lo = at;
	if (!low && at < n->hi)
		n->hi = at;
	n->bounded = 1;
	return 0;
}

#define UNITS_MAX 999999999999999999ll /* 18 digits */

int schema_read_number(
	struct schema_reader *r, json_t *s, bool integer, uint32_t *out)
{
	int64_t unit = integer ? 1 : JSON_MICRO;
	struct json_node n = { .lo = -UNITS_MAX, .hi = UNITS_MAX };
	int ret = read_bound(r, s, "minimum", unit, 0, &n);

	if (!ret)
		ret = read_bound(r, s, "maximum", unit, 0, &n);
	if (!ret)
		ret = read_bound(r, s, "exclusiveMinimum", unit, 1, &n);
	if (!ret)
		ret = read_bound(r, s, "exclusiveMaximum", unit, -1, &n);
	if (!ret && n.bounded && n.hi < n.lo)
		ret = schema_refuse(r, "no %s satisfies minimum and maximum",
			integer ? "integer" : "number");
	if (!ret)
		ret = schema_add_node(
			r, integer ? FORM_INTEGER : FORM_NUMBER, out);
	if (ret)
		return ret;
	r->j->node[*out].lo = n.lo;
	r->j->node[*out].hi = n.hi;
	r->j->node[*out].bounded = n.bounded;
	return 0;
}

int schema_read_string(struct schema_reader *r, json_t *s, uint32_t *out)
{
	static const char *const keyword[] = { "minLength", "maxLength" };
	uint32_t limit[2] = { 0, UINT32_MAX };
	int ret = read_limits(r, s, keyword, limit);

	if (!ret)
		ret = schema_add_node(r, FORM_STRING, out);
	if (ret)
		return ret;
	r->j->node[*out].min = limit[0];
	r->j->node[*out].max = limit[1];
	return 0;
}

int schema_read_array(struct schema_reader *r, json_t *s, uint32_t *out)
{
	static const char *const keyword[] = { "minItems", "maxItems" };
	json_t *items = json_object_get(s, "items");
	uint32_t limit[2] = { 0, UINT32_MAX }, item = JSON_NONE;
	int ret = read_limits(r, s, keyword, limit);

	if (!ret && !json_is_false(items))
		ret = schema_read_below(r, "items", items, &item);
	if (!ret && item == JSON_NONE && limit[0])
		ret = schema_refuse(
			r, "minItems is more than 0 and items is false");
	if (!ret)
		ret = schema_add_node(r, FORM_ARRAY, out);
	if (ret)
		return ret;
	r->j->node[*out].min = limit[0];
	r->j->node[*out].max = item == JSON_NONE ? 0 : limit[1];
	r->j->node[*out].rest = item;
	return 0;
}

/* ---- objects ------------------------------------------------------------- */

int schema_name_property(struct schema_reader *r, struct schema_named *d,
	const char *key, uint32_t node, unsigned *at)
{
	for (const char *p = key; *p; p++)
		if ((unsigned char)*p < ' ' && !strchr("\b\f\n\r\t", *p))
			return schema_refuse(
				r, "a property's name has a control character");
	if (d->n == JSON_PROPERTIES)
		return schema_refuse(r,
			"the schema names more than %d "
			"properties",
			JSON_PROPERTIES);
	*at = d->n;
	d->key[d->n] = key;
	d->node[d->n] = node;
	d->required[d->n++] = false;
	return 0;
}

static int read_required(struct schema_reader *r, json_t *s, uint32_t rest,
	struct schema_named *d)
{
	json_t *required = json_object_get(s, "required");
	json_t *item;
	size_t i;

	if (required && !json_is_array(required))
		return schema_refuse(r, "required is not a list");
	json_array_foreach(required, i, item)
	{
		const char *key = json_string_value(item);
		unsigned at = 0;
		int ret = 0;

		if (!key)
			return schema_refuse(r,
				"required has an element other than a string");
		while (at < d->n && strcmp(d->key[at], key))
			at++;
		if (at == d->n)
			ret = schema_name_property(r, d, key, rest, &at);
		if (ret)
			return ret;
		if (d->node[at] == JSON_NONE)
			return schema_refuse(r,
				"'%.60s' is required, but the schema forbids "
				"it",
				key);
		d->required[at] = true;
	}
	return 0;
}

int schema_in_order(const void *a, const void *b, void *arg)
{
	const struct json_nodes *j = arg;
	const struct json_name *x = a, *y = b;
	int c = memcmp(j->text.data + x->at, j->text.data + y->at,
		x->len < y->len ? x->len : y->len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* Make an object node with the named properties, sorted by their texts. */
int schema_add_object(struct schema_reader *r, const struct schema_named *d,
	uint32_t rest, uint32_t *out)
{
	struct json_nodes *j = r->j;
	uint32_t first = j->n_names;
	int ret = schema_add_node(r, FORM_OBJECT, out);

	/* Leave out the opening quote, which is read before the name is
	 * matched. */
	for (unsigned i = 0; i < d->n && !ret; i++) {
		json_t *key = json_string(d->key[i]);

		/* Until the names are sorted, the `node` of each name is its
		 * index in d->key; after sorting, this index finds the entry of
		 * d->required. */
		ret = key ? schema_add_name(r, key, 1, i) : -ENOMEM;
		json_decref(key);
	}
	if (ret)
		return ret;
	if (d->n)
		qsort_r(j->name + first, d->n, sizeof(*j->name),
			schema_in_order, j);
	for (unsigned i = 0; i < d->n; i++) {
		uint32_t from = j->name[first + i].node;

		if (d->required[from])
			j->node[*out].required |= 1ull << i;
		j->name[first + i].node = d->node[from];
	}
	j->node[*out].first = first;
	j->node[*out].n = d->n;
	j->node[*out].rest = rest;
	return 0;
}

int schema_read_object(struct schema_reader *r, json_t *s, uint32_t *out)
{
	json_t *more = json_object_get(s, "additionalProperties");
	json_t *properties = json_object_get(s, "properties"), *value;
	struct schema_named *d = calloc(1, sizeof(*d));
	uint32_t rest = JSON_NONE;
	const char *key;
	unsigned at;
	size_t was;
	int ret;

	if (!d)
		return -ENOMEM;
	was = schema_enter(r, "properties");
	ret = properties && !json_is_object(properties)
		? schema_refuse(r, "properties is not an object")
		: 0;
	json_object_foreach(properties, key, value)
	{
		uint32_t node = JSON_NONE;

		/* The schema `false` means that the property must not occur. */
		if (!json_is_false(value))
			ret = schema_read_below(r, key, value, &node);
		if (!ret)
			ret = schema_name_property(r, d, key, node, &at);
		if (ret)
			break;
	}
	schema_leave(r, was);
	if (!ret && !json_is_false(more))
		ret = schema_read_below(r, "additionalProperties", more, &rest);
	if (!ret)
		ret = read_required(r, s, rest, d);
	if (!ret)
		ret = schema_add_object(r, d, rest, out);
	free(d);
	return ret;
}
