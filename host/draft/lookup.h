/*
 * Drafters that look up a single chain of tokens: the tokens that followed an
 * earlier occurrence of the sequence's last tokens, chosen by a rule that each
 * kind of drafter defines. At a node of the draft tree, the only candidate
 * (proposed next token) is the next token of the chain; if the tokens on the
 * path to the node differ from the chain, the node has no candidates. Not
 * thread-safe.
 */
#ifndef HOST_DRAFT_LOOKUP_H
#define HOST_DRAFT_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

struct drafter;
struct err;
struct search_work;

struct lookup_chain {
	int32_t *token; /* [n] the chain; memory for `room` tokens */
	uint32_t n;
	/* length of the match: this many tokens at the end of the sequence also
	 * occur in earlier text, and the chain follows them there */
	uint32_t match;
};

struct lookup {
	void *arg;
	/* find() counts its searches here. The caller reads the counts and
	 * resets them to 0. */
	struct search_work *work;
	/*
	 * Look up the chain after text[n], n >= 1. The first `same` tokens are
	 * equal to the first tokens of the previous call's text. On entry *c
	 * holds the chain that the previous call found, or an empty chain if
	 * this text does not continue the previous text. Returns 0 or -ENOMEM.
	 */
	int (*find)(void *arg, const int32_t *text, size_t n, size_t same,
		struct lookup_chain *c, struct err *);
	void (*close)(void *arg);
};

/* Open a drafter for chains of up to `room` tokens. The drafter takes ownership
 * of the lookup, even if opening fails. Returns 0 or -ENOMEM. */
int lookup_drafter_open(struct drafter *out, const struct lookup *,
	uint32_t room, struct err *);

#endif
