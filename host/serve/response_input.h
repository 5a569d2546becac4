/*
 * The input of POST /v1/responses: a text, or a list of items, which are
 * messages, calls of tools and their outputs.
 */
#ifndef HOST_SERVE_RESPONSE_INPUT_H
#define HOST_SERVE_RESPONSE_INPUT_H

#include "host/serve/api_request.h"

#include <jansson.h>

/* Append the input to the messages of a chat, and check that each call in the
 * messages has an output. Returns 0, or a negative errno with the fault set. */
int response_add_input(json_t *messages, const json_t *v, struct fault *);

/* Check that the item has no members other than `known`, a list that ends with
 * NULL. `where` names the item in faults, such as "input[2]". Returns 0, or
 * -EINVAL with the fault set. */
int response_check_members(const json_t *item, const char *where,
	const char *const *known, struct fault *);

/* Set the fault with the message "'PARAM' WHAT", for example `param` "input"
 * and `what` "must be a string". Returns -EINVAL. */
int response_refuse(struct fault *, const char *param, const char *what);

#endif
