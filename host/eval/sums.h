/*
 * Counters as members of JSON objects, unrounded, and back: what shards tell
 * one another through files. Whole numbers beyond 2^63, which are none, would
 * come back as failures.
 */
#ifndef HOST_EVAL_SUMS_H
#define HOST_EVAL_SUMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct method_stats;
struct row_counts;

/*
 * Rows of a table (base/counters.h): the member of *from put into the object
 * `o`; and read from there into *to, where `good` becomes false if it is
 * missing or no such number.
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

json_t *sums_integer(uint64_t);
bool sums_real(const json_t *, const char *name, double *out);

/* NULL, or without some of them: no memory. */
json_t *sums_of_rows(const struct row_counts *);
json_t *sums_of_drafts(const struct method_stats *);

/* False where a member is missing or is no such number; what it then holds is
 * not said. */
bool sums_to_rows(const json_t *, struct row_counts *);
bool sums_to_drafts(const json_t *, struct method_stats *);
bool sums_number(const json_t *, const char *name, uint64_t *);

#endif
