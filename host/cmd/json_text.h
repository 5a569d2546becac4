/*
 * JSON output. These functions handle three problems. Strings from other
 * sources (file names, keys of a model file) may contain invalid UTF-8. Doubles
 * may be infinite or NaN. An object must not be printed if memory ran out while
 * the object was built.
 */
#ifndef HOST_CMD_JSON_TEXT_H
#define HOST_CMD_JSON_TEXT_H

#include "tensor/gguf.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * Jansson's allocator, which main() sets before any JSON is created. After the
 * first allocation that fails, all later allocations fail too. The reason is
 * that Jansson silently omits a member whose allocation fails, and that callers
 * check only the final print. So an incomplete object cannot be printed.
 */
void *json_all_or_nothing(size_t);

/* Return a JSON string, or NULL if out of memory. If `s` is not valid UTF-8,
 * invalid bytes are escaped and a long string is truncated. */
json_t *json_text(struct gguf_str);

static inline json_t *json_ctext(const char *s)
{
	return json_text((struct gguf_str){ s, strlen(s) });
}

/* Return a JSON number, or null if the value is not finite. */
static inline json_t *json_finite(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

/* Set a member of an object. put_u64() sets an integer. put_real() sets a
 * number, or null if it is not finite. put_str() sets a string as json_text()
 * makes it, or null for NULL. */
static inline void put_u64(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_integer((json_int_t)v));
}

static inline void put_real(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, json_finite(v));
}

static inline void put_str(json_t *o, const char *key, const char *v)
{
	json_object_set_new(o, key, v ? json_ctext(v) : json_null());
}

/*
 * Print the object as one line of compact JSON and release it, also on failure.
 * Real numbers have `digits` significant digits; 0 means as many digits as are
 * needed to read back the same value. Returns 0 on success, -ENOMEM if the
 * object is NULL, or -EIO with errno set if the write fails.
 */
int json_print(json_t *, size_t digits, FILE *);

#endif
