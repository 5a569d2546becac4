/*
 * A cache of prefixes: sequences of texts that have ended stay in the session,
 * spare (session_spare), with the tokens that are cached in them. A text that
 * begins like one of them forks it, and only the rest of it is computed. They
 * take no slot from anybody: where one is wanted, the one that was used least
 * recently goes.
 *
 * Of models whose attention is causal, where what is cached of a token depends
 * on those before it alone. The session is borrowed. One thread.
 */
#ifndef HOST_METHOD_PREFIXES_H
#define HOST_METHOD_PREFIXES_H

#include <stdint.h>

struct err;
struct prefixes;
struct session;

/* Of so many texts at most, which may be none. */
int prefixes_open(
	struct prefixes **out, struct session *, uint32_t most, struct err *);
void prefixes_close(struct prefixes *);

/* A sequence, and how many of its tokens are those that were looked for. */
struct prefix {
	uint32_t sequence, length;
};

/* How many of the first n tokens are the same. */
uint32_t prefix_common(const int32_t *a, const int32_t *b, uint32_t n);

/* The longest beginning of token[n] among those kept; length 0: none. */
struct prefix prefixes_find(
	struct prefixes *, const int32_t *token, uint32_t n);

/* Another sequence that holds that much of it; an empty one where the length is
 * 0. -ENOSPC where there are too many. */
int prefix_fork(struct session *, const struct prefix *, uint32_t *sequence,
	struct err *);

/*
 * Keep a sequence, which is the cache's from now on and holds the first tokens
 * of these, as many as its length. Kept ones that it begins with are dropped,
 * as it is where one begins with it; and where there are too many the one used
 * least recently. Where there is no memory, nothing is kept.
 */
void prefixes_keep(struct prefixes *, const int32_t *token, uint32_t sequence);

#endif
