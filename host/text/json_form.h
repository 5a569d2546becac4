/*
 * The form that a text must have: JSON that fits a JSON Schema
 * (docs/structured.md). For a place in such a text it says which tokens can go
 * on, which is what others are drawn among; what it worked out for a place it
 * keeps for the next time. The tokens that end a text can come where the text
 * is whole. A place is good for its form alone and may be copied. One thread.
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
 * The trie is borrowed. -EINVAL for a schema that is outside of the subset, or
 * a vocabulary in which not every JSON text can be written; -ENOMEM.
 */
int json_form_open(struct json_form **out, const char *schema,
	const struct token_trie *, struct err *);
void json_form_close(struct json_form *);

/* Where a text begins. */
void json_form_begin(struct json_form *, struct json_front *place);

/*
 * The logits [n] with -infinity for each token that cannot go on from here; the
 * form's, and good until the next call. NULL: no memory.
 */
const float *json_form_mask(struct json_form *, const struct json_front *place,
	const float *logits, uint32_t n);

/* The token further, which ends no text. False: it cannot go on from there, or
 * no memory; the place is then none. */
bool json_form_take(struct json_form *, struct json_front *place, int32_t id);

/* Nothing but an end can follow. */
bool json_form_is_over(const struct json_form *, const struct json_front *);

#endif
