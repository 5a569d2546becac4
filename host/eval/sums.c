#include "host/eval/sums.h"

#include "host/method/method.h"
#include "host/session/row_counts.h"

#define ROWS(X) X(passes) X(rows) X(valid) X(graph) X(tile)

bool sums_number(const json_t *o, const char *name, uint64_t *out)
{
	const json_t *v = json_object_get(o, name);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*out = (uint64_t)json_integer_value(v);
	return true;
}

static bool real(const json_t *o, const char *name, double *out)
{
	const json_t *v = json_object_get(o, name);

	*out = json_number_value(v);
	return json_is_number(v);
}

static json_t *of_number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *of_real(double v)
{
	return json_real(v);
}

#define PUT(field)                            \
	bad |= json_object_set_new(o, #field, \
		_Generic(from->field, double  \
			 : of_real, uint64_t  \
			 : of_number)(from->field));
#define PUT_TYPED(type, field) PUT(field)
#define GET(field)                         \
	good &= _Generic(to->field, double \
			 : real, uint64_t  \
			 : sums_number)(o, #field, &to->field);
#define GET_TYPED(type, field) GET(field)

static json_t *whole(json_t *o, int bad)
{
	if (!bad)
		return o;
	json_decref(o);
	return NULL;
}

json_t *sums_of_rows(const struct row_counts *from)
{
	json_t *o = json_object();
	int bad = 0;

	ROWS(PUT)
	return whole(o, bad);
}

bool sums_to_rows(const json_t *o, struct row_counts *to)
{
	bool good = true;

	ROWS(GET)
	return good;
}

json_t *sums_of_drafts(const struct method_stats *from)
{
	json_t *o = json_object();
	int bad = 0;

	METHOD_STATS(PUT_TYPED)
	return whole(o, bad);
}

bool sums_to_drafts(const json_t *o, struct method_stats *to)
{
	bool good = true;

	METHOD_STATS(GET_TYPED)
	return good;
}
