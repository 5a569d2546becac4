/*
 * The members of a request's JSON object. The table of members is in
 * api_request.c, with the bits OF_* for kinds of requests; the functions that
 * read prompts and messages are in api_prompt.c.
 */
#ifndef HOST_SERVE_API_MEMBER_H
#define HOST_SERVE_API_MEMBER_H

#include "host/serve/api_request.h"

#include <jansson.h>
#include <stddef.h>

/* A member of the JSON object in a request's body. */
struct api_member {
	const char *name;
	unsigned of; /* requests that may have the member: bits OF_* */
	/* Checks the value and stores it in the request. NULL if the member
	 * does not affect the answer and is ignored. */
	int (*take)(struct api_request *, const struct api_member *,
		const json_t *value, struct fault *);
	size_t at; /* offset in struct api_request where the value is stored */
	double min, max; /* bounds of a number */
	/* for a member that is accepted only with values that do not change the
	 * answer (`take` is take_neutral): JSON list of these values; otherwise
	 * NULL */
	const char *only;
};

/* Set the fault "MEMBER must be WHAT", where `what` is a text such as "a
 * string". Returns -EINVAL. */
int api_wrong_type(const struct api_member *, const char *what, struct fault *);

/* Check that the value is in `only`, a JSON list of the values that do not
 * change the answer. Returns 0, or a negative errno with the fault set. */
int api_check_neutral(const char *name, const char *only, const json_t *value,
	struct fault *);

/* Take one prompt, or a list of up to member->max prompts. A prompt is a string
 * or a list of token ids. */
int api_take_prompt(struct api_request *, const struct api_member *,
	const json_t *, struct fault *);

/* Take the turns of a chat. A chat is refused if its last turn is a turn of the
 * assistant. */
int api_take_messages(struct api_request *, const struct api_member *,
	const json_t *, struct fault *);

#endif
