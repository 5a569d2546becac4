/*
 * Validates a JSON value against a JSON Schema with jansson's trees and without
 * code of the program. The validator supports the keywords of
 * docs/structured.md as JSON Schema defines them. This header also makes random
 * schemas and values.
 */
#ifndef TESTS_HOST_TEXT_JSON_CHECK_H
#define TESTS_HOST_TEXT_JSON_CHECK_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool check_type(const char *name, json_t *v)
{
	if (!strcmp(name, "integer"))
		return json_is_integer(v) ||
			(json_is_real(v) &&
				json_real_value(v) ==
					floor(json_real_value(v)));
	return (!strcmp(name, "null") && json_is_null(v)) ||
		(!strcmp(name, "boolean") && json_is_boolean(v)) ||
		(!strcmp(name, "number") && json_is_number(v)) ||
		(!strcmp(name, "string") && json_is_string(v)) ||
		(!strcmp(name, "array") && json_is_array(v)) ||
		(!strcmp(name, "object") && json_is_object(v));
}

static inline bool check_types(json_t *type, json_t *v)
{
	for (size_t i = 0; i < json_array_size(type); i++)
		if (check_type(json_string_value(json_array_get(type, i)), v))
			return true;
	return json_is_string(type) && check_type(json_string_value(type), v);
}

static inline size_t check_characters(json_t *v)
{
	const char *s = json_string_value(v);
	size_t n = 0;

	for (size_t i = 0; i < json_string_length(v); i++)
		n += (s[i] & 0xc0) != 0x80;
	return n;
}

/* Whether n is within the limits of the two keywords. An absent keyword sets no
 * limit. */
static inline bool check_count(
	json_t *s, const char *least, const char *most, size_t n)
{
	json_t *lo = json_object_get(s, least), *hi = json_object_get(s, most);

	return (!lo || (double)n >= json_number_value(lo)) &&
		(!hi || (double)n <= json_number_value(hi));
}

static inline bool check_number(json_t *s, double x)
{
	json_t *lo = json_object_get(s, "minimum");
	json_t *hi = json_object_get(s, "maximum");
	json_t *above = json_object_get(s, "exclusiveMinimum");
	json_t *below = json_object_get(s, "exclusiveMaximum");

	return (!lo || x >= json_number_value(lo)) &&
		(!hi || x <= json_number_value(hi)) &&
		(!above || x > json_number_value(above)) &&
		(!below || x < json_number_value(below));
}

static inline bool check_fits(json_t *root, json_t *s, json_t *v);

static inline bool check_object(json_t *root, json_t *s, json_t *v)
{
	json_t *properties = json_object_get(s, "properties");
	json_t *more = json_object_get(s, "additionalProperties");
	json_t *required = json_object_get(s, "required"), *item, *schema;
	const char *key;
	size_t i;

	json_array_foreach(required, i,
		item) if (!json_object_get(v,
				  json_string_value(item))) return false;
	json_object_foreach(v, key, item)
	{
		schema = json_object_get(properties, key);
		if (!check_fits(root, schema ? schema : more, item))
			return false;
	}
	return true;
}

static inline json_t *check_referred(json_t *root, const char *ref)
{
	if (!strcmp(ref, "#"))
		return root;
	return json_object_get(
		json_object_get(root, "$defs"), ref + strlen("#/$defs/"));
}

static inline bool check_values(json_t *s, json_t *v)
{
	json_t *values = json_object_get(s, "enum"), *item;
	json_t *value = json_object_get(s, "const");
	size_t i;

	json_array_foreach(
		values, i, item) if (json_equal(item, v)) return true;
	return !values && (!value || json_equal(value, v));
}

static inline bool check_any(json_t *root, json_t *list, json_t *v)
{
	json_t *item;
	size_t i;

	json_array_foreach(
		list, i, item) if (check_fits(root, item, v)) return true;
	return !list;
}

static inline bool check_items(json_t *root, json_t *s, json_t *v)
{
	json_t *items = json_object_get(s, "items"), *item;
	size_t i;

	json_array_foreach(
		v, i, item) if (!check_fits(root, items, item)) return false;
	return check_count(s, "minItems", "maxItems", json_array_size(v));
}

/* Whether the value v fits the schema s. A schema that is NULL or true allows
 * every value, and false allows none. */
static inline bool check_fits(json_t *root, json_t *s, json_t *v)
{
	json_t *type = json_object_get(s, "type");
	json_t *ref = json_object_get(s, "$ref");

	if (!s || json_is_true(s) || json_is_false(s))
		return !json_is_false(s);
	if (ref)
		return check_fits(
			root, check_referred(root, json_string_value(ref)), v);
	if ((type && !check_types(type, v)) || !check_values(s, v) ||
		!check_any(root, json_object_get(s, "anyOf"), v))
		return false;
	if (json_is_string(v))
		return check_count(
			s, "minLength", "maxLength", check_characters(v));
	if (json_is_number(v))
		return check_number(s, json_number_value(v));
	if (json_is_array(v))
		return check_items(root, s, v);
	return !json_is_object(v) || check_object(root, s, v);
}

/* ---- random schemas and values ------------------------------------------- */

struct draw {
	uint64_t state;
};

static inline uint32_t draw_below(struct draw *d, uint32_t n)
{
	d->state = d->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((d->state >> 33) % n);
}

static inline const char *draw_word(struct draw *d)
{
	static const char *const words[] = { "a", "b", "ab", "name", "na\"me",
		"caf\xc3\xa9", "\xf0\x9f\x8c\x8a", "x\\y", "t\nb", "", "names",
		"\xe4\xb8\xad\xe6\x96\x87" };

	return words[draw_below(d, sizeof(words) / sizeof(words[0]))];
}

static inline json_t *draw_number(struct draw *d)
{
	double part = (double)draw_below(d, 8) / 8;
	int whole = (int)draw_below(d, 40) - 20;

	/* A real number always has a fraction, because JSON Schema counts 3.0
	 * as an integer. */
	return draw_below(d, 2) || part == 0 ? json_integer(whole)
					     : json_real(whole + part);
}

static inline json_t *draw_value(struct draw *d, unsigned depth)
{
	json_t *v;

	switch (draw_below(d, depth ? 7 : 5)) {
	case 0:
		return json_null();
	case 1:
		return json_boolean(draw_below(d, 2));
	case 2:
	case 3:
		return draw_number(d);
	case 4:
		return json_string(draw_word(d));
	case 5:
		v = json_array();
		for (uint32_t n = draw_below(d, 4); n; n--)
			json_array_append_new(v, draw_value(d, depth - 1));
		return v;
	default:
		v = json_object();
		for (uint32_t n = draw_below(d, 4); n; n--)
			json_object_set_new(
				v, draw_word(d), draw_value(d, depth - 1));
		return v;
	}
}

static inline json_t *draw_schema(struct draw *d, unsigned depth);

static inline void draw_bounds(struct draw *d, json_t *s, const char *least,
	const char *most, uint32_t n)
{
	uint32_t lo = draw_below(d, n);

	if (draw_below(d, 2))
		json_object_set_new(s, least, json_integer(lo));
	if (draw_below(d, 2))
		json_object_set_new(
			s, most, json_integer(lo + draw_below(d, n)));
}

static inline void draw_object(struct draw *d, json_t *s, unsigned depth)
{
	json_t *properties = json_object(), *required = json_array();

	for (uint32_t n = draw_below(d, 4); n; n--) {
		const char *word = draw_word(d);

		json_object_set_new(
			properties, word, draw_schema(d, depth - 1));
		if (draw_below(d, 2))
			json_array_append_new(required, json_string(word));
	}
	json_object_set_new(s, "properties", properties);
	json_object_set_new(s, "required", required);
	switch (draw_below(d, 3)) {
	case 0:
		json_object_set_new(s, "additionalProperties", json_false());
		break;
	case 1:
		json_object_set_new(
			s, "additionalProperties", draw_schema(d, depth - 1));
	}
}

static inline json_t *draw_typed(struct draw *d, unsigned depth)
{
	static const char *const types[] = { "null", "boolean", "integer",
		"number", "string", "array", "object" };
	uint32_t type = draw_below(d, depth ? 7 : 5);
	json_t *s = json_object();

	json_object_set_new(s, "type", json_string(types[type]));
	if (type == 2 || type == 3) {
		bool inner = draw_below(d, 2);

		draw_bounds(d, s, inner ? "minimum" : "exclusiveMinimum",
			inner ? "maximum" : "exclusiveMaximum", 20);
		if (type == 3 && draw_below(d, 2))
			json_object_set_new(s, "minimum", json_real(-2.5));
	} else if (type == 4) {
		draw_bounds(d, s, "minLength", "maxLength", 4);
	} else if (type == 5) {
		draw_bounds(d, s, "minItems", "maxItems", 3);
		if (draw_below(d, 3))
			json_object_set_new(
				s, "items", draw_schema(d, depth - 1));
	} else if (type == 6) {
		draw_object(d, s, depth);
	}
	return s;
}

static inline json_t *draw_schema(struct draw *d, unsigned depth)
{
	json_t *s, *list;

	switch (draw_below(d, 9)) {
	case 0:
		return json_object();
	case 1:
		s = json_object();
		list = json_array();
		for (uint32_t n = 1 + draw_below(d, 3); n; n--)
			json_array_append_new(list, draw_value(d, 1));
		json_object_set_new(s, "enum", list);
		return s;
	case 2:
		return json_pack("{so}", "const", draw_value(d, 1));
	case 3:
		if (!depth)
			break;
		list = json_array();
		for (uint32_t n = 1 + draw_below(d, 3); n; n--)
			json_array_append_new(list, draw_schema(d, depth - 1));
		return json_pack("{so}", "anyOf", list);
	case 4:
		return json_pack("{ss}", "$ref",
			draw_below(d, 2) ? "#/$defs/one" : "#/$defs/two");
	}
	return draw_typed(d, depth);
}

/* Draw a schema with two definitions, which may refer to each other and to
 * themselves. */
static inline json_t *draw_root(struct draw *d)
{
	json_t *s = draw_schema(d, 3);

	json_object_set_new(s, "$defs",
		json_pack("{soso}", "one", draw_typed(d, 2), "two",
			draw_typed(d, 2)));
	return s;
}

#endif
