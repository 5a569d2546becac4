/*
 * A prefix cache. The sequences of finished requests remain in the session,
 * with their cached keys and values, as spare sequences (session_spare). A new
 * request whose prompt starts with the same tokens as one of these sequences
 * forks that sequence, and computes only the rest of its prompt. When running
 * requests need cache slots, the least recently used spare sequence is removed.
 *
 * The cache is for models with causal attention, where the keys and values of a
 * token depend on earlier tokens only. The session belongs to the caller. All
 * calls come from one thread.
 */
#ifndef HOST_SCHEDULER_PREFIXES_H
#define HOST_SCHEDULER_PREFIXES_H

#include <stdint.h>

struct err;
struct prefixes;
struct session;

/* Create a cache of up to `most` sequences; `most` may be 0. Returns 0 or
 * -ENOMEM. */
int prefixes_open(
	struct prefixes **out, struct session *, uint32_t most, struct err *);
void prefixes_close(struct prefixes *);

/* A cached sequence, and how many of its first tokens are also the first tokens
 * of a prompt. */
struct prefix {
	uint32_t sequence, length;
};

/* The length of the common prefix of a[n] and b[n]. */
uint32_t prefix_common(const int32_t *a, const int32_t *b, uint32_t n);

/* Find the cached sequence that has the longest common prefix with token[n]. If
 * no cached sequence starts with the token token[0], the returned length is
 * 0. */
struct prefix prefixes_find(
	struct prefixes *, const int32_t *token, uint32_t n);

/*
 * Create a sequence that holds the prefix; if the prefix has length 0, the
 * sequence is empty. Returns 0, -ENOSPC if all sequences are in use, or another
 * negative errno.
 */
int prefix_fork(struct session *, const struct prefix *, uint32_t *sequence,
	struct err *);

/*
 * Give the cache a sequence whose tokens are token[]. Cached sequences that are
 * prefixes of the new sequence are removed. If the new sequence is itself a
 * prefix of a cached sequence, or if there is no memory, the new sequence is
 * removed instead of cached. If the cache is full, the least recently used
 * sequence is removed.
 */
void prefixes_keep(struct prefixes *, const int32_t *token, uint32_t sequence);

#endif
