#include "host/text/json_nodes.h"

#include "base/err.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 65536

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

static const struct {
	const char *name;
	unsigned type;
} types[] = { { "null", OF_NULL }, { "boolean", OF_BOOLEAN },
	{ "integer", OF_INTEGER }, { "number", OF_NUMBER },
	{ "string", OF_STRING }, { "array", OF_ARRAY },
	{ "object", OF_OBJECT } };

/* Keywords by what they go with. */
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

/* One schema being read. */
struct reader {
	struct json_nodes *j;
	json_t *root;
	struct strbuf path;
	struct done {
		json_t *schema;
		uint32_t node;
	} * done;
	uint32_t n_done, cap_done;
	struct err *e;
};

/* ---- growing ------------------------------------------------------------- */

static int grow(void *list, uint32_t n, uint32_t *cap, size_t size)
{
	uint32_t want = *cap ? *cap * 2 : 64;
	void *p;

	if (n < *cap)
		return 0;
	memcpy(&p, list, sizeof(p));
	p = reallocarray(p, want, size);
	if (!p)
		return -ENOMEM;
	memcpy(list, &p, sizeof(p));
	*cap = want;
	return 0;
}

static int no_memory(struct reader *r)
{
	return err_set(r->e, ENOMEM, "no memory for a JSON Schema");
}

static int add_node(struct reader *r, enum form_kind kind, uint32_t *out)
{
	struct json_nodes *j = r->j;

	if (j->n == NODES_MAX)
		return err_set(r->e, EINVAL,
			"the JSON Schema has more than %d parts", NODES_MAX);
	if (grow(&j->node, j->n, &j->cap, sizeof(*j->node)))
		return no_memory(r);
	j->node[j->n] = (struct json_node){
		.kind = kind, .rest = JSON_NONE, .max = UINT32_MAX
	};
	*out = j->n++;
	return 0;
}

static int add_kid(struct reader *r, uint32_t node)
{
	struct json_nodes *j = r->j;

	if (grow(&j->kid, j->n_kids, &j->cap_kids, sizeof(*j->kid)))
		return no_memory(r);
	j->kid[j->n_kids++] = node;
	return 0;
}

/* A value as jansson writes it, but for its first bytes. */
static int add_name(struct reader *r, json_t *value, size_t skip, uint32_t node)
{
	struct json_nodes *j = r->j;
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	size_t len;

	if (!text ||
		grow(&j->name, j->n_names, &j->cap_names, sizeof(*j->name))) {
		free(text);
		return no_memory(r);
	}
	len = strlen(text + skip);
	j->name[j->n_names++] = (struct json_name){ (uint32_t)j->text.len,
		(uint32_t)len, node };
	strbuf_add(&j->text, text + skip, len);
	free(text);
	return j->text.failed ? no_memory(r) : 0;
}

/* ---- saying where -------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static int refuse(
	struct reader *r, const char *fmt, ...)
{
	char why[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return err_set(r->e, EINVAL, "JSON Schema, at %.200s: %s",
		r->path.data ? r->path.data : "#", why);
}

static size_t enter(struct reader *r, const char *step)
{
	size_t was = r->path.len;

	strbuf_addf(&r->path, "/%s", step);
	return was;
}

static void leave(struct reader *r, size_t was)
{
	r->path.len = was;
	if (r->path.data)
		r->path.data[was] = '\0';
}

static int read_schema(struct reader *r, json_t *s, uint32_t *out);

static int read_below(
	struct reader *r, const char *step, json_t *s, uint32_t *out)
{
	size_t was = enter(r, step);
	int ret = read_schema(r, s, out);

	leave(r, was);
	return ret;
}

/* ---- parts of a schema --------------------------------------------------- */

/* A count of characters or items. */
static int read_count(
	struct reader *r, json_t *s, const char *keyword, uint32_t *out)
{
	json_t *v = json_object_get(s, keyword);
	double n = json_number_value(v);

	if (!v)
		return 0;
	if (!json_is_number(v) || n < 0 || n > 1e9 || n != floor(n))
		return refuse(
			r, "%s is no number from 0 to 1000000000", keyword);
	*out = (uint32_t)n;
	return 0;
}

/* A bound in `unit`ths, `by` of them further in; what is finer is refused. It
 * holds beside the one there was. */
static int read_bound(struct reader *r, json_t *s, const char *keyword,
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
		return refuse(r, "%s is no number", keyword);
	if (!(fabs(x) <= most) || scaled / (double)unit != x)
		return refuse(r,
			"%s of %s is %.17g; possible is what is %s and at most "
			"%g, whatever its sign",
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

static int read_number(struct reader *r, json_t *s, bool integer, uint32_t *out)
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
	if (!ret && n.bounded && !integer && n.hi < n.lo)
		ret = refuse(r, "no number is between its bounds");
	if (!ret && n.bounded && n.hi < n.lo)
		ret = refuse(r, "no integer is between its bounds");
	if (!ret)
		ret = add_node(r, integer ? FORM_INTEGER : FORM_NUMBER, out);
	if (ret)
		return ret;
	r->j->node[*out].lo = n.lo;
	r->j->node[*out].hi = n.hi;
	r->j->node[*out].bounded = n.bounded;
	return 0;
}

static int read_string(struct reader *r, json_t *s, uint32_t *out)
{
	uint32_t min = 0, max = UINT32_MAX;
	int ret = read_count(r, s, "minLength", &min);

	if (!ret)
		ret = read_count(r, s, "maxLength", &max);
	if (!ret && min > max)
		ret = refuse(r, "minLength is more than maxLength");
	if (!ret)
		ret = add_node(r, FORM_STRING, out);
	if (ret)
		return ret;
	r->j->node[*out].min = min;
	r->j->node[*out].max = max;
	return 0;
}

static int read_array(struct reader *r, json_t *s, uint32_t *out)
{
	json_t *items = json_object_get(s, "items");
	uint32_t min = 0, max = UINT32_MAX, item = JSON_NONE;
	int ret = read_count(r, s, "minItems", &min);

	if (!ret)
		ret = read_count(r, s, "maxItems", &max);
	if (!ret && min > max)
		ret = refuse(r, "minItems is more than maxItems");
	if (!ret && !json_is_false(items))
		ret = read_below(r, "items", items, &item);
	if (!ret && item == JSON_NONE && min)
		ret = refuse(r, "minItems is more than 0 and items is false");
	if (!ret)
		ret = add_node(r, FORM_ARRAY, out);
	if (ret)
		return ret;
	r->j->node[*out].min = min;
	r->j->node[*out].max = item == JSON_NONE ? 0 : max;
	r->j->node[*out].rest = item;
	return 0;
}

/* ---- objects ------------------------------------------------------------- */

/* The properties that are named: [n] of them, with what each is; required ones
 * that `properties` does not have are what further ones are. */
struct named {
	const char *key[JSON_PROPERTIES];
	uint32_t node[JSON_PROPERTIES];
	bool required[JSON_PROPERTIES];
	unsigned n;
};

static int name_property(struct reader *r, struct named *d, const char *key,
	uint32_t node, unsigned *at)
{
	for (const char *p = key; *p; p++)
		if ((unsigned char)*p < ' ' && !strchr("\b\f\n\r\t", *p))
			return refuse(
				r, "a property's name has a control character");
	if (d->n == JSON_PROPERTIES)
		return refuse(r, "more than %d properties are named",
			JSON_PROPERTIES);
	*at = d->n;
	d->key[d->n] = key;
	d->node[d->n] = node;
	d->required[d->n++] = false;
	return 0;
}

static int read_properties(struct reader *r, json_t *s, struct named *d)
{
	json_t *properties = json_object_get(s, "properties");
	size_t was = enter(r, "properties");
	const char *key;
	json_t *value;
	int ret = 0;
	unsigned at;

	if (properties && !json_is_object(properties))
		ret = refuse(r, "properties is no object");
	if (!ret)
		json_object_foreach(properties, key, value)
		{
			uint32_t node = JSON_NONE;

			/* false: it may not be there. */
			if (!json_is_false(value))
				ret = read_below(r, key, value, &node);
			if (!ret)
				ret = name_property(r, d, key, node, &at);
			if (ret)
				break;
		}
	leave(r, was);
	return ret;
}

static int read_required(
	struct reader *r, json_t *s, uint32_t rest, struct named *d)
{
	json_t *required = json_object_get(s, "required");
	json_t *item;
	size_t i;

	if (required && !json_is_array(required))
		return refuse(r, "required is no list");
	json_array_foreach(required, i, item)
	{
		const char *key = json_string_value(item);
		unsigned at = 0;
		int ret = 0;

		if (!key)
			return refuse(r, "required has what is no string");
		while (at < d->n && strcmp(d->key[at], key))
			at++;
		if (at == d->n)
			ret = name_property(r, d, key, rest, &at);
		if (ret)
			return ret;
		if (d->node[at] == JSON_NONE)
			return refuse(r,
				"'%.60s' is required, and may not be there",
				key);
		d->required[at] = true;
	}
	return 0;
}

static int in_text(const void *a, const void *b, void *arg)
{
	const struct json_nodes *j = arg;
	const struct json_name *x = a, *y = b;
	int c = memcmp(j->text.data + x->at, j->text.data + y->at,
		x->len < y->len ? x->len : y->len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* The named properties become the object's, in the order of their texts. */
static int add_object(
	struct reader *r, const struct named *d, uint32_t rest, uint32_t *out)
{
	struct json_nodes *j = r->j;
	uint32_t first = j->n_names;
	int ret = add_node(r, FORM_OBJECT, out);

	/* The first quote is not the name's: it comes before any is meant. */
	for (unsigned i = 0; i < d->n && !ret; i++) {
		json_t *key = json_string(d->key[i]);

		/* The order of `named` for now: its bit is found again. */
		ret = key ? add_name(r, key, 1, i) : no_memory(r);
		json_decref(key);
	}
	if (ret)
		return ret;
	if (d->n)
		qsort_r(j->name + first, d->n, sizeof(*j->name), in_text, j);
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

static int read_object(struct reader *r, json_t *s, uint32_t *out)
{
	json_t *more = json_object_get(s, "additionalProperties");
	struct named *d = calloc(1, sizeof(*d));
	uint32_t rest = JSON_NONE;
	int ret = d ? 0 : no_memory(r);

	if (!ret)
		ret = read_properties(r, s, d);
	if (!ret && !json_is_false(more))
		ret = read_below(r, "additionalProperties", more, &rest);
	if (!ret)
		ret = read_required(r, s, rest, d);
	if (!ret)
		ret = add_object(r, d, rest, out);
	free(d);
	return ret;
}

/* ---- choices ------------------------------------------------------------- */

/* Of nodes [n] one. */
static int add_choice(
	struct reader *r, const uint32_t *node, uint32_t n, uint32_t *out)
{
	uint32_t first = r->j->n_kids;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++)
		ret = add_kid(r, node[i]);
	if (!ret)
		ret = add_node(r, FORM_ONE_OF, out);
	if (ret)
		return ret;
	r->j->node[*out].first = first;
	r->j->node[*out].n = n;
	return 0;
}

/* One of these, which hold no others. */
static int add_words(
	struct reader *r, json_t *const *value, size_t n, uint32_t *out)
{
	struct json_nodes *j = r->j;
	uint32_t first = j->n_names;
	int ret = 0;

	if (n > UINT16_MAX)
		return refuse(
			r, "more than %d strings to choose among", UINT16_MAX);
	for (size_t i = 0; i < n && !ret; i++)
		ret = add_name(r, value[i], 0, JSON_NONE);
	if (!ret)
		ret = add_node(r, FORM_TEXT, out);
	if (ret)
		return ret;
	qsort_r(j->name + first, n, sizeof(*j->name), in_text, j);
	j->node[*out].first = first;
	j->node[*out].n = (uint32_t)n;
	return 0;
}

static int add_value(struct reader *r, json_t *value, uint32_t *out);

static int add_list(struct reader *r, json_t *value, uint32_t *out)
{
	uint32_t n = (uint32_t)json_array_size(value), first;
	uint32_t *kid = calloc(n + 1, sizeof(*kid));
	int ret = kid ? 0 : no_memory(r);

	for (uint32_t i = 0; i < n && !ret; i++)
		ret = add_value(r, json_array_get(value, i), &kid[i]);
	first = r->j->n_kids;
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = add_kid(r, kid[i]);
	free(kid);
	if (!ret)
		ret = add_node(r, FORM_ARRAY, out);
	if (ret)
		return ret;
	r->j->node[*out].first = first;
	r->j->node[*out].n = r->j->node[*out].min = r->j->node[*out].max = n;
	return 0;
}

static int add_record(struct reader *r, json_t *value, uint32_t *out)
{
	struct named *d = calloc(1, sizeof(*d));
	const char *key;
	json_t *member;
	int ret = d ? 0 : no_memory(r);
	unsigned at;

	if (!ret)
		json_object_foreach(value, key, member)
		{
			uint32_t node;

			ret = add_value(r, member, &node);
			if (!ret)
				ret = name_property(r, d, key, node, &at);
			if (ret)
				break;
			d->required[at] = true;
		}
	if (!ret)
		ret = add_object(r, d, JSON_NONE, out);
	free(d);
	return ret;
}

/* This value and no other. */
static int add_value(struct reader *r, json_t *value, uint32_t *out)
{
	if (json_is_array(value))
		return add_list(r, value, out);
	if (json_is_object(value))
		return add_record(r, value, out);
	return add_words(r, &value, 1, out);
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

/* All strings are one node, so that they are compared side by side. */
static int read_values(
	struct reader *r, json_t *list, unsigned type, uint32_t *out)
{
	size_t n = json_array_size(list), strings = 0;
	json_t **string = calloc(n + 1, sizeof(*string));
	uint32_t *node = calloc(n + 1, sizeof(*node)), n_nodes = 0;
	int ret = string && node ? 0 : no_memory(r);

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
		ret = add_words(r, string, strings, &node[n_nodes++]);
	if (!ret && !n_nodes)
		ret = refuse(
			r, "no value is in enum or const, and of the type");
	if (!ret)
		ret = add_choice(r, node, n_nodes, out);
	free(string);
	free(node);
	return ret;
}

static int read_any_of(struct reader *r, json_t *list, uint32_t *out)
{
	size_t n = json_array_size(list), was = enter(r, "anyOf");
	uint32_t *node = calloc(n + 1, sizeof(*node));
	int ret = node ? 0 : no_memory(r);

	if (!ret && !n)
		ret = refuse(r, "anyOf is no list of schemas");
	for (size_t i = 0; i < n && !ret; i++) {
		char step[24];

		snprintf(step, sizeof(step), "%zu", i);
		ret = read_below(r, step, json_array_get(list, i), &node[i]);
	}
	if (!ret)
		ret = add_choice(r, node, (uint32_t)n, out);
	leave(r, was);
	free(node);
	return ret;
}

/* ---- references ---------------------------------------------------------- */

/* A step of a JSON Pointer (RFC 6901): ~1 is a slash, ~0 a tilde. */
static void unescape(char *step)
{
	char *to = step;

	for (const char *p = step; *p; p++) {
		if (p[0] == '~' && (p[1] == '0' || p[1] == '1'))
			*to++ = *++p == '1' ? '/' : '~';
		else
			*to++ = *p;
	}
	*to = '\0';
}

static json_t *step_into(json_t *at, char *step)
{
	char *end;
	size_t i;

	unescape(step);
	if (!json_is_array(at))
		return json_object_get(at, step);
	i = strtoul(step, &end, 10);
	return *step && !*end ? json_array_get(at, i) : NULL;
}

static int read_ref(struct reader *r, json_t *ref, uint32_t *out)
{
	const char *text = json_string_value(ref);
	char *copy = text ? strdup(text) : NULL, *save = NULL;
	json_t *at = r->root;
	uint32_t node;
	int ret;

	if (text && !copy)
		return no_memory(r);
	if (!text || text[0] != '#' || (text[1] && text[1] != '/')) {
		free(copy);
		return refuse(r,
			"$ref is '%.80s'; only what is in the schema itself "
			"can be referred to, like #/$defs/NAME",
			text ? text : "");
	}
	for (char *s = strtok_r(copy + 1, "/", &save); s && at;
		s = strtok_r(NULL, "/", &save))
		at = step_into(at, s);
	free(copy);
	if (!at)
		return refuse(r, "$ref is '%.80s', and nothing is there", text);
	ret = read_schema(r, at, &node);
	return ret ? ret : add_choice(r, &node, 1, out);
}

/* ---- a schema ------------------------------------------------------------ */

static int read_type(struct reader *r, json_t *s, unsigned *type)
{
	json_t *v = json_object_get(s, "type");
	size_t n = json_is_array(v) ? json_array_size(v) : 1;

	*type = v ? 0 : OF_ANY;
	for (size_t i = 0; v && i < n; i++) {
		json_t *item = json_is_array(v) ? json_array_get(v, i) : v;
		const char *name = json_string_value(item);
		size_t k = 0;

		while (k < sizeof(types) / sizeof(types[0]) &&
			(!name || strcmp(types[k].name, name)))
			k++;
		if (k == sizeof(types) / sizeof(types[0]))
			return refuse(r,
				"type is '%.40s'; there are null, boolean, "
				"integer, number, string, array and object",
				name ? name : "no string");
		*type |= types[k].type;
	}
	return *type ? 0 : refuse(r, "type names none");
}

static int add_literal(struct reader *r, json_t *value, uint32_t *out)
{
	return add_words(r, &value, 1, out);
}

/* Each type that is allowed by what the keywords say of it. */
static int read_shapes(
	struct reader *r, json_t *s, unsigned type, uint32_t *out)
{
	uint32_t node[8], n = 0;
	int ret = 0;

	if (type & OF_NULL)
		ret = add_literal(r, json_null(), &node[n++]);
	if (!ret && type & OF_BOOLEAN)
		ret = add_literal(r, json_true(), &node[n++]);
	if (!ret && type & OF_BOOLEAN)
		ret = add_literal(r, json_false(), &node[n++]);
	if (!ret && type & (OF_INTEGER | OF_NUMBER))
		ret = read_number(r, s, !(type & OF_NUMBER), &node[n++]);
	if (!ret && type & OF_STRING)
		ret = read_string(r, s, &node[n++]);
	if (!ret && type & OF_ARRAY)
		ret = read_array(r, s, &node[n++]);
	if (!ret && type & OF_OBJECT)
		ret = read_object(r, s, &node[n++]);
	return ret ? ret : add_choice(r, node, n, out);
}

/* Which groups of keywords there are; those that are not known are refused. */
static int survey(struct reader *r, json_t *s, unsigned *groups)
{
	const char *key;
	json_t *value;

	*groups = 0;
	json_object_foreach(s, key, value)
	{
		size_t k = 0, n = sizeof(keywords) / sizeof(keywords[0]);

		while (k < n && strcmp(keywords[k].name, key))
			k++;
		if (k == n)
			return refuse(r,
				"the keyword '%.60s' is not one of those that "
				"are known (docs/structured.md)",
				key);
		*groups |= 1u << keywords[k].group;
	}
	*groups &= ~(1u << NOTE);
	return 0;
}

static int read_value_list(
	struct reader *r, json_t *s, unsigned type, uint32_t *out)
{
	json_t *list = json_object_get(s, "enum");
	json_t *one = json_object_get(s, "const");
	int ret;

	if (list && one)
		return refuse(r, "enum and const stand beside each other");
	if (list && !json_is_array(list))
		return refuse(r, "enum is no list");
	if (list)
		return read_values(r, list, type, out);
	list = json_pack("[O]", one);
	ret = list ? read_values(r, list, type, out) : no_memory(r);
	json_decref(list);
	return ret;
}

static int read_object_schema(struct reader *r, json_t *s, uint32_t *out)
{
	unsigned groups, type = OF_ANY;
	int ret = survey(r, s, &groups);

	if (!ret)
		ret = read_type(r, s, &type);
	if (ret)
		return ret;
	if (groups == 1u << POINTER)
		return read_ref(r, json_object_get(s, "$ref"), out);
	if (groups == 1u << CHOICE)
		return read_any_of(r, json_object_get(s, "anyOf"), out);
	if (groups & (1u << POINTER | 1u << CHOICE))
		return refuse(r, "$ref or anyOf with other keywords beside it");
	if (groups & 1u << VALUES && groups & 1u << SHAPE)
		return refuse(r,
			"enum or const with other keywords than type beside it");
	if (groups & 1u << VALUES)
		return read_value_list(r, s, type, out);
	return read_shapes(r, s, type, out);
}

/* Each is read once, and known before it has been: it may refer to itself. NULL
 * and true are any value. */
static int read_schema(struct reader *r, json_t *s, uint32_t *out)
{
	uint32_t node, inner;
	int ret;

	if (json_is_true(s))
		s = NULL;
	if (s && !json_is_object(s))
		return refuse(r,
			json_is_false(s) ? "false, which nothing fits"
					 : "this is no schema");
	for (uint32_t i = 0; i < r->n_done; i++)
		if (r->done[i].schema == s) {
			*out = r->done[i].node;
			return 0;
		}
	ret = add_node(r, FORM_ONE_OF, &node);
	if (!ret && grow(&r->done, r->n_done, &r->cap_done, sizeof(*r->done)))
		ret = no_memory(r);
	if (ret)
		return ret;
	r->done[r->n_done++] = (struct done){ s, node };
	ret = s ? read_object_schema(r, s, &inner)
		: read_shapes(r, NULL, OF_ANY, &inner);
	if (!ret)
		ret = add_kid(r, inner);
	if (ret)
		return ret;
	r->j->node[node].first = r->j->n_kids - 1;
	r->j->node[node].n = 1;
	*out = node;
	return 0;
}

/* ---- what follows from it ------------------------------------------------ */

/* Leaves of a choice, each once, whatever refers to whatever. */
static int add_leaves(struct json_nodes *j, uint32_t node, unsigned char *seen)
{
	const struct json_node *n = &j->node[node];
	int ret = 0;

	if (seen[node]++)
		return 0;
	if (n->kind == FORM_ONE_OF) {
		for (uint32_t i = 0; i < n->n && !ret; i++)
			ret = add_leaves(j, j->kid[n->first + i], seen);
		return ret;
	}
	if (grow(&j->leaf, j->n_leaves, &j->cap_leaves, sizeof(*j->leaf)))
		return -ENOMEM;
	j->leaf[j->n_leaves++] = node;
	return 0;
}

static int find_leaves(struct json_nodes *j)
{
	unsigned char *seen = malloc(j->n);
	int ret = seen ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < j->n && !ret; i++) {
		memset(seen, 0, j->n);
		j->node[i].leaf = j->n_leaves;
		ret = add_leaves(j, i, seen);
		j->node[i].n_leaves = j->n_leaves - j->node[i].leaf;
	}
	free(seen);
	return ret;
}

static uint32_t above(uint32_t height)
{
	return height == JSON_NONE ? JSON_NONE : height + 1;
}

static uint32_t higher(const struct json_nodes *j, uint32_t than, uint32_t node)
{
	uint32_t h = node == JSON_NONE ? JSON_NONE : j->node[node].height;

	return h > than ? h : than;
}

/* By what is known of those below it. */
static uint32_t height_of(const struct json_nodes *j, const struct json_node *n)
{
	uint32_t h = 0, least = JSON_NONE;

	switch (n->kind) {
	case FORM_ONE_OF:
		for (uint32_t i = 0; i < n->n; i++) {
			h = j->node[j->kid[n->first + i]].height;
			least = h < least ? h : least;
		}
		return least;
	case FORM_OBJECT:
		for (uint32_t i = 0; i < n->n; i++)
			if (n->required >> i & 1)
				h = higher(j, h, j->name[n->first + i].node);
		return above(h);
	case FORM_ARRAY:
		for (uint32_t i = 0; i < n->n; i++)
			h = higher(j, h, j->kid[n->first + i]);
		return above(n->min > n->n ? higher(j, h, n->rest) : h);
	default:
		return 0;
	}
}

/* From "never" down, until nothing changes. */
static void find_heights(struct json_nodes *j)
{
	bool changed = true;

	for (uint32_t i = 0; i < j->n; i++)
		j->node[i].height = JSON_NONE;
	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < j->n; i++) {
			uint32_t h = height_of(j, &j->node[i]);

			changed |= h != j->node[i].height;
			j->node[i].height = h;
		}
	}
}

static int finish(struct reader *r)
{
	struct json_nodes *j = r->j;

	if (find_leaves(j))
		return no_memory(r);
	find_heights(j);
	if (j->node[j->root].height > JSON_LEVELS)
		return refuse(r,
			"no value fits it that has at most %d levels of "
			"objects and arrays",
			JSON_LEVELS);
	return 0;
}

int json_nodes_open(struct json_nodes **out, const char *schema, struct err *e)
{
	struct json_nodes *j = calloc(1, sizeof(*j));
	struct reader r = { .j = j, .path = STRBUF_INIT, .e = e };
	json_error_t error;
	int ret = 0;

	strbuf_add(&r.path, "#", 1);
	/* Jansson takes some of its own failed allocations for bad JSON. */
	errno = 0;
	r.root = json_loads(
		schema, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
	if (!j || r.path.failed || (!r.root && errno == ENOMEM))
		ret = no_memory(&r);
	else if (!r.root)
		ret = err_set(e, EINVAL,
			"the JSON Schema is no JSON: line %d, column %d: %.120s",
			error.line, error.column, error.text);
	if (!ret)
		ret = read_schema(&r, r.root, &j->root);
	if (!ret)
		ret = finish(&r);
	json_decref(r.root);
	strbuf_release(&r.path);
	free(r.done);
	if (ret)
		json_nodes_close(j);
	else
		*out = j;
	return ret;
}

void json_nodes_close(struct json_nodes *j)
{
	if (!j)
		return;
	free(j->node);
	free(j->name);
	free(j->kid);
	free(j->leaf);
	strbuf_release(&j->text);
	free(j);
}
