/*
 * Strings that others wrote (names of files, keys of a model file) for JSON.
 * They may hold any bytes, JSON's strings may not.
 */
#ifndef HOST_CMD_JSON_TEXT_H
#define HOST_CMD_JSON_TEXT_H

#include "tensor/gguf.h"

#include <jansson.h>
#include <string.h>

/* The string; one that is not UTF-8 with what is odd escaped, and cut. NULL
 * without memory. */
json_t *json_text(struct gguf_str);

static inline json_t *json_ctext(const char *s)
{
	return json_text((struct gguf_str){ s, strlen(s) });
}

#endif
