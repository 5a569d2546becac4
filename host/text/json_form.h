/*
 * The required form of an output: JSON that fits a JSON Schema
 * (docs/structured.md). A place (json_front) is the state of an automaton after
 * the bytes generated so far. For a place, a form computes which tokens may
 * follow, so that sampling can be restricted to these tokens, and caches the
 * result. End-of-text tokens are allowed where the output is complete. A place
 * can be copied, and can be used only with its own form. Not thread-safe.
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
 * Open the form of a JSON Schema for the vocabulary of the trie. The caller
 * keeps ownership of the trie, which must outlive the form. Returns 0, -ENOMEM,
 * or -EINVAL for a schema outside the supported subset or a vocabulary that
 * cannot express every JSON text.
 */
int json_form_open(struct json_form **out, const char *schema,
	const struct token_trie *, struct err *);
#define JSON_TAGS 2

/* Control tokens that have no bytes, and the texts for which they stand in the
 * output of a form. The texts are static. */
struct json_tags {
	int32_t id[JSON_TAGS];
	const char *text[JSON_TAGS];
	unsigned n;
};

/* Open a form from the nodes that describe the output (json_nodes.h). The form
 * takes ownership of the nodes, even if this function fails. */
int json_form_open_nodes(struct json_form **out, struct json_nodes *,
	const struct json_tags *, const struct token_trie *, struct err *);
void json_form_close(struct json_form *);

/* Returns the form's automaton (json_machine.h). json_begin of this automaton
 * sets a place to the start of an output, and json_is_over returns whether only
 * an end-of-text token may follow a place. */
struct json_machine *json_form_machine(struct json_form *);

/*
 * Returns a copy of logits[n] in which the logit of each token that may not
 * follow `place` is -infinity. The form owns the copy, which is valid until the
 * next call. Returns NULL if memory ran out.
 */
const float *json_form_mask(struct json_form *, const struct json_front *place,
	const float *logits, uint32_t n);

/* Advance the place by a token that is not an end-of-text token. In free text
 * (json_nodes.h) the token may have no bytes. Returns false if the token is not
 * allowed, or if memory ran out; the place is then invalid. */
bool json_form_take(struct json_form *, struct json_front *place, int32_t id);

#endif
