/*
 * JSON that is true or not there: strings that others wrote (names of files,
 * keys of a model file), which may hold any bytes where JSON's may not, and
 * what becomes of an object for which memory was short.
 */
#ifndef HOST_CMD_JSON_TEXT_H
#define HOST_CMD_JSON_TEXT_H

#include "tensor/gguf.h"

#include <jansson.h>
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

#endif
