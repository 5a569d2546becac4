#include "host/eval/sums.h"

#include "host/api/report.h"

bool sums_number(const json_t *o, const char *name, uint64_t *out)
{
	const json_t *v = json_object_get(o, name);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*out = (uint64_t)json_integer_value(v);
	return true;
}

bool sums_real(const json_t *o, const char *name, double *out)
{
	const json_t *v = json_object_get(o, name);

	*out = json_number_value(v);
	return json_is_number(v);
}

json_t *sums_of_rows(const struct row_counts *from)
{
	json_t *o = json_object();

	ROW_COUNTS(SUMS_PUT)
	return o;
}

bool sums_to_rows(const json_t *o, struct row_counts *to)
{
	bool good = true;

	ROW_COUNTS(SUMS_GET)
	return good;
}

json_t *sums_of_drafts(const struct method_stats *from)
{
	json_t *o = json_object();

	METHOD_STATS(SUMS_PUT)
	return o;
}

bool sums_to_drafts(const json_t *o, struct method_stats *to)
{
	bool good = true;

	METHOD_STATS(SUMS_GET)
	return good;
}
