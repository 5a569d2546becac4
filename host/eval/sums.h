/*
 * Writes counters to JSON objects, unrounded, and reads them back, for the
 * files of shards. Counters are assumed to be below 2^63; reading a negative
 * number fails.
 */
#ifndef HOST_EVAL_SUMS_H
#define HOST_EVAL_SUMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct method_stats;
struct row_counts;

/*
 * Macros for the rows of a table of counters (base/counters.h). SUMS_PUT stores
 * a member of *from in the object `o`. SUMS_GET reads the member from `o` into
 * *to, and sets `good` to false if the member is missing or has the wrong type.
 */
#define SUMS_PUT(type, name)                   \
	json_object_set_new(o, #name,          \
		_Generic(from->name, double    \
			 : json_real, uint64_t \
			 : sums_integer)(from->name));
#define SUMS_GET(type, name)                   \
	good &= _Generic(to->name, double      \
			 : sums_real, uint64_t \
			 : sums_number)(o, #name, &to->name);

static inline json_t *sums_integer(uint64_t v)
{
	return json_integer((json_int_t)v);
}

bool sums_real(const json_t *, const char *name, double *out);

/* Return a new JSON object. The result is NULL or lacks members if memory ran
 * out. */
json_t *sums_of_rows(const struct row_counts *);
json_t *sums_of_drafts(const struct method_stats *);

/* The sums_to_*() functions and sums_number() return false if a member is
 * missing or has the wrong type; the output is then unspecified. */
bool sums_to_rows(const json_t *, struct row_counts *);
bool sums_to_drafts(const json_t *, struct method_stats *);
bool sums_number(const json_t *, const char *name, uint64_t *);

#endif
