/*
 * Drafters that look up one chain of tokens: what followed an earlier
 * occurrence of the text's last tokens, by a rule of each kind. A path that
 * leaves the chain has no candidates. One thread.
 */
#ifndef HOST_DRAFT_LOOKUP_H
#define HOST_DRAFT_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

struct drafter;
struct err;

struct lookup_chain {
	int32_t *token; /* [room] */
	uint32_t n;
	uint32_t match; /* length of the n-gram that was found */
};

struct lookup {
	void *arg;
	/*
	 * Look up the chain after text[n], n >= 1, whose first `same` tokens
	 * are those of the text of the call before. *c holds the chain found
	 * then, with n 0 if this text does not continue that one. -ENOMEM.
	 */
	int (*find)(void *arg, const int32_t *text, size_t n, size_t same,
		struct lookup_chain *c, struct err *);
	void (*close)(void *arg);
};

/* For chains of at most `room` tokens. The drafter takes over the lookup, even
 * if opening fails. -ENOMEM. */
int lookup_drafter_open(struct drafter *out, const struct lookup *,
	uint32_t room, struct err *);

#endif
