/*
 * Drafters that look one chain up: what stood behind the last tokens where
 * they stood before, by a rule that a kind of them has. A path that leaves the
 * chain is left alone. One thread.
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
	uint32_t match; /* tokens of the text that were looked for */
};

struct lookup {
	void *arg;
	/*
	 * The chain behind text[n], n >= 1, whose first `same` tokens were
	 * those of the text before; *c holds the chain found then, n 0 when
	 * that text is no beginning of this one. -ENOMEM.
	 */
	int (*find)(void *arg, const int32_t *text, size_t n, size_t same,
		struct lookup_chain *c, struct err *);
	void (*close)(void *arg);
};

/* Of chains of at most `room` tokens. The lookup is the drafter's from then on,
 * even where this fails. -ENOMEM. */
int lookup_drafter_open(struct drafter *out, const struct lookup *,
	uint32_t room, struct err *);

#endif
