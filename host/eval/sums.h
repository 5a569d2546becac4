/*
 * Writes counters to JSON objects, unrounded, and reads them back, for the
 * files of shards. Integers above 2^63 do not occur; reading one fails.
 */
#ifndef HOST_EVAL_SUMS_H
#define HOST_EVAL_SUMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct method_stats;
struct row_counts;

/*
 * For rows of a table (base/counters.h): put the member of *from into the
 * object `o`; read it into *to, setting `good` to false if it is missing or of
 * another type.
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

/* NULL or incomplete: no memory. */
json_t *sums_of_rows(const struct row_counts *);
json_t *sums_of_drafts(const struct method_stats *);

/* False if a member is missing or of another type; the output is then
 * unspecified. */
bool sums_to_rows(const json_t *, struct row_counts *);
bool sums_to_drafts(const json_t *, struct method_stats *);
bool sums_number(const json_t *, const char *name, uint64_t *);

#endif
