/*
 * JSON output: strings from other sources (file names, keys of a model file)
 * may hold bytes that are not UTF-8, doubles may not be finite, and an object
 * must not be printed if memory was short while it was built.
 */
#ifndef HOST_CMD_JSON_TEXT_H
#define HOST_CMD_JSON_TEXT_H

#include "tensor/gguf.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * Call in main before any JSON is made. After one failed allocation Jansson
 * gets no more memory. Jansson omits a member silently if its allocation fails,
 * and callers check only the final print; so an incomplete object must never be
 * printable.
 */
void json_all_or_nothing(void);

/* A string; invalid UTF-8 is escaped and cut. NULL: no memory. */
json_t *json_text(struct gguf_str);

static inline json_t *json_ctext(const char *s)
{
	return json_text((struct gguf_str){ s, strlen(s) });
}

/* null if the value is not finite. */
json_t *json_finite(double);

/* Set members of an object: an integer; a number as by json_finite; a string as
 * by json_text, NULL as null. */
void put_u64(json_t *, const char *key, uint64_t);
void put_real(json_t *, const char *key, double);
void put_str(json_t *, const char *key, const char *);

/*
 * Print one line of compact JSON and release the object in any case; real
 * numbers have `digits` digits, 0: as many as are needed to read them back. 0,
 * -ENOMEM for NULL, or -EIO with errno set.
 */
int json_print(json_t *, size_t digits, FILE *);

#endif
