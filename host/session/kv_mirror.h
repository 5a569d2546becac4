/*
 * A copy of what a sequence has cached, for the host to compute on while the
 * device overwrites the cache. It is brought up to date by copying only the
 * positions that were written since (sequence_written tells); nobody has to say
 * which these are, and any sequence can be followed after any other.
 *
 * Its memory grows with the longest sequence that it followed. The sequences
 * are borrowed; what is read of their buffer is bracketed. One thread, which
 * follows only while no pass is under way.
 */
#ifndef HOST_SESSION_KV_MIRROR_H
#define HOST_SESSION_KV_MIRROR_H

#include "host/session/sequence.h"

#include <stddef.h>
#include <stdint.h>

struct kv_mirror {
	struct sequences *from;
	uint32_t layers, stride;
	/* [layer][keys, values][slots][stride]: position p in slot p */
	uint8_t *data;
	uint32_t slots;
	uint64_t *as_of; /* [slots] sequence_written of what is there; or 0 */
};

/* Nothing is taken until something is followed. */
static inline void kv_mirror_init(struct kv_mirror *m, struct sequences *from,
	uint32_t layers, uint32_t stride)
{
	*m = (struct kv_mirror){ from, layers, stride };
}
void kv_mirror_release(struct kv_mirror *);

/* Hold all that the sequence has cached; *copied positions were not as they
 * are. -ENOMEM. */
int kv_mirror_follow(
	struct kv_mirror *, uint32_t sequence, uint32_t *copied, struct err *);

/* What is at this position is no copy any more. */
static inline void kv_mirror_spoil(struct kv_mirror *m, uint32_t at)
{
	m->as_of[at] = 0;
}

/* n positions of a layer of the mirror from `at` on to the sequence; errors are
 * those of sequence_write. */
int kv_mirror_merge(struct kv_mirror *, uint32_t sequence, uint32_t layer,
	uint32_t at, uint32_t n, struct err *);

/* All layers of n positions were merged: what is there is a copy again. */
void kv_mirror_merged(
	struct kv_mirror *, uint32_t sequence, uint32_t at, uint32_t n);

#endif
