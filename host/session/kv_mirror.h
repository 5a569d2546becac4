/*
 * A copy of a sequence's cache for computing on the host, while the device
 * overwrites the cache. An update copies only the positions that were written
 * since the last one (by their sequence_written); so any sequence can be
 * followed after any other.
 *
 * Its memory grows with the longest sequence that it followed. The sequences
 * are borrowed; reads of their buffer are bracketed. One thread, which follows
 * only while no pass is running.
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
	/* [slots] sequence_written of the copied data; 0: none */
	uint64_t *as_of;
};

/* Allocates nothing yet. */
static inline void kv_mirror_init(struct kv_mirror *m, struct sequences *from,
	uint32_t layers, uint32_t stride)
{
	*m = (struct kv_mirror){ from, layers, stride };
}
void kv_mirror_release(struct kv_mirror *);

/* Copy what the sequence has cached; *copied is the number of positions that
 * were out of date. -ENOMEM. */
int kv_mirror_follow(
	struct kv_mirror *, uint32_t sequence, uint32_t *copied, struct err *);

/* Mark a position as no longer a copy of the cache. */
static inline void kv_mirror_spoil(struct kv_mirror *m, uint32_t at)
{
	m->as_of[at] = 0;
}

/* Write n positions of one layer, from `at` on, to the sequence; errors of
 * sequence_write. */
int kv_mirror_merge(struct kv_mirror *, uint32_t sequence, uint32_t layer,
	uint32_t at, uint32_t n, struct err *);

/* Mark n positions as copies again, once all layers of them were merged. */
void kv_mirror_merged(
	struct kv_mirror *, uint32_t sequence, uint32_t at, uint32_t n);

#endif
