/*
 * A prefix cache: the sequences of finished requests stay in the session as
 * spare sequences (session_spare), together with their tokens. A request that
 * begins like one of them forks that sequence, and only the rest of its prompt
 * is computed. Spare sequences take no slots from running requests: when slots
 * are needed, the least recently used sequence is removed.
 *
 * For models with causal attention, where the cached keys and values of a token
 * depend on earlier tokens only. The session is borrowed. One thread.
 */
#ifndef HOST_METHOD_PREFIXES_H
#define HOST_METHOD_PREFIXES_H

#include <stdint.h>

struct err;
struct prefixes;
struct session;

/* Of at most `most` sequences, which may be 0. */
int prefixes_open(
	struct prefixes **out, struct session *, uint32_t most, struct err *);
void prefixes_close(struct prefixes *);

/* A sequence, and how many of its tokens are those searched for. */
struct prefix {
	uint32_t sequence, length;
};

/* The length of the common prefix of a[n] and b[n]. */
uint32_t prefix_common(const int32_t *a, const int32_t *b, uint32_t n);

/* The cached sequence with the longest common prefix with token[n]; length 0:
 * none. */
struct prefix prefixes_find(
	struct prefixes *, const int32_t *token, uint32_t n);

/* A new sequence that holds the prefix; an empty one if the length is 0.
 * -ENOSPC: all sequences are in use. */
int prefix_fork(struct session *, const struct prefix *, uint32_t *sequence,
	struct err *);

/*
 * Cache a sequence, which belongs to the cache from now on; token[] are its
 * tokens. Cached sequences that are prefixes of it are removed, and it is
 * removed itself if it is a prefix of a cached one. If the cache is full, the
 * least recently used sequence is removed. Without memory the sequence is not
 * cached.
 */
void prefixes_keep(struct prefixes *, const int32_t *token, uint32_t sequence);

#endif
