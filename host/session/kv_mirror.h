/*
 * A mirror is a copy of a sequence's KV cache, with which the host can compute
 * while the device overwrites the cache. Each position has a number that every
 * write changes (sequence_written). An update copies only the positions whose
 * number has changed since they were copied: positions with equal numbers have
 * equal bytes, even in different sequences. So consecutive updates may be for
 * different sequences.
 *
 * Memory grows with the longest sequence that was copied. The caller keeps
 * ownership of the sequences; reads of their buffer are enclosed in
 * buffer_begin and buffer_end. All calls are made on one thread, and
 * kv_mirror_follow only while no pass is running.
 */
#ifndef HOST_SESSION_KV_MIRROR_H
#define HOST_SESSION_KV_MIRROR_H

#include "host/session/sequence.h"

#include <stdint.h>

struct kv_mirror {
	struct sequences *from;
	uint32_t layers, stride;
	/* [layer][keys, values][slots][stride] the copied keys and values, with
	 * position p in slot p */
	uint8_t *data;
	uint32_t slots;
	/* [slots] value of sequence_written at the time of the copy; 0: never
	 * copied */
	uint64_t *as_of;
};

static inline void kv_mirror_init(struct kv_mirror *m, struct sequences *from,
	uint32_t layers, uint32_t stride)
{
	*m = (struct kv_mirror){ from, layers, stride };
}
void kv_mirror_release(struct kv_mirror *);

/* Copy the keys and values of all cached positions of the sequence whose copies
 * in the mirror are missing or out of date. *copied receives the number of
 * positions that had to be copied. Returns 0 or -ENOMEM. */
int kv_mirror_follow(
	struct kv_mirror *, uint32_t sequence, uint32_t *copied, struct err *);

/* Record that the mirror no longer matches the cache at a position, so that the
 * next kv_mirror_follow copies the position. */
static inline void kv_mirror_spoil(struct kv_mirror *m, uint32_t at)
{
	m->as_of[at] = 0;
}

/* Write one layer's keys and values at n positions, from `at` on, from the
 * mirror to the sequence. Returns the errors of sequence_write. */
int kv_mirror_merge(struct kv_mirror *, uint32_t sequence, uint32_t layer,
	uint32_t at, uint32_t n, struct err *);

/* Record that the mirror matches the cache at n positions again. To be called
 * when kv_mirror_merge has written all layers of these positions. */
void kv_mirror_merged(
	struct kv_mirror *, uint32_t sequence, uint32_t at, uint32_t n);

#endif
