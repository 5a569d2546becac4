/*
 * JSON that is true or not there: strings that others wrote (names of files,
 * keys of a model file), which may hold any bytes where JSON's may not, numbers
 * that JSON does not have, and what becomes of an object for which memory was
 * short.
 */
#ifndef HOST_CMD_JSON_TEXT_H
#define HOST_CMD_JSON_TEXT_H

#include "tensor/gguf.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * For main, before any JSON: once Jansson was refused memory it gets none any
 * more. It leaves out a member without a word, and whoever builds an object
 * looks only whether it can be written; so nothing is written that lacks one.
 */
void json_all_or_nothing(void);

/* The string; one that is not UTF-8 with what is odd escaped, and cut. NULL
 * without memory. */
json_t *json_text(struct gguf_str);

static inline json_t *json_ctext(const char *s)
{
	return json_text((struct gguf_str){ s, strlen(s) });
}

/* null where it is not finite. */
json_t *json_finite(double);

/* Members of an object: a whole number; a number, as json_finite has it; a
 * string, as json_text has it, and null of NULL. */
void put_u64(json_t *, const char *key, uint64_t);
void put_real(json_t *, const char *key, double);
void put_str(json_t *, const char *key, const char *);

/*
 * One line of compact JSON, which is given back in any case; real numbers have
 * so many digits, 0: as many as tell them apart. 0, -ENOMEM of NULL, or -EIO;
 * then errno says why.
 */
int json_print(json_t *, size_t digits, FILE *);

#endif
