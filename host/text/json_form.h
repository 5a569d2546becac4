/*
 * The required form of a text: JSON that fits a JSON Schema
 * (docs/structured.md). For a place in such a text it computes which tokens may
 * follow, so that sampling can be restricted to them, and caches the result.
 * End-of-text tokens are allowed where the text is complete. A place is valid
 * for its form only and may be copied. One thread.
 */
#ifndef HOST_TEXT_JSON_FORM_H
#define HOST_TEXT_JSON_FORM_H

#include "host/text/json_machine.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct json_form;
struct token_trie;

/*
 * The trie is borrowed. -EINVAL for a schema outside the supported subset, or a
 * vocabulary that cannot write every JSON text; -ENOMEM.
 */
int json_form_open(struct json_form **out, const char *schema,
	const struct token_trie *, struct err *);
void json_form_close(struct json_form *);

/* The place at the beginning of a text. */
void json_form_begin(struct json_form *, struct json_front *place);

/*
 * The logits [n] with -infinity for each token that may not follow; owned by
 * the form, valid until the next call. NULL: no memory.
 */
const float *json_form_mask(struct json_form *, const struct json_front *place,
	const float *logits, uint32_t n);

/* Advance by a token that does not end the text. False: it may not follow, or
 * no memory; the place is then invalid. */
bool json_form_take(struct json_form *, struct json_front *place, int32_t id);

/* Whether only an end-of-text token may follow. */
bool json_form_is_over(const struct json_form *, const struct json_front *);

#endif
