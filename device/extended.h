/*
 * The extended region: memory beyond what 32 bits name, as newer phones have
 * it. The NPU's cores cannot load from there; its DMA engine reads it into
 * TCM, piece by piece.
 *
 * Nothing of it is mapped into this process. A buffer in it is a descriptor
 * and a place, and extended_read, which copies, is all that can be done with
 * it: no kernel can be handed a pointer there, because there is none. It takes
 * no slot and no guard page; buffers lie in it by first fit, in whole pages.
 *
 * To the rest of the device a byte of it has a 64-bit address, from
 * EXTENDED_BASE on, which no view (device/cache.h) can take.
 *
 * Changed by the thread that runs requests, between them; while none of its
 * buffers changes, any thread may read.
 */
#ifndef DEVICE_EXTENDED_H
#define DEVICE_EXTENDED_H

#include "ipc/wire.h"

#include <stddef.h>
#include <stdint.h>

struct err;
struct window_space;

#define EXTENDED_BASE (UINT64_C(1) << 32)

struct extent {
	struct wire_share share;
	uint64_t at;   /* from the region's beginning */
	uint64_t span; /* whole pages */
	int fd;        /* its own */
};

struct extended {
	uint64_t bytes, page; /* bytes 0: the phone has none */
	unsigned used;
	struct extent order[WIRE_MAX_BUFFERS]; /* [used] by place */
};

void extended_init(struct extended *, uint64_t bytes);
void extended_release(struct extended *);

/*
 * Give the buffer behind `fd`, which stays the caller's, a place. 0 and *at;
 * -ENOSPC when no hole is left; -ENOTSUP where there is no such region; or the
 * -errno of the system. *space is filled where there is one, without slots.
 */
int extended_map(struct extended *, const struct wire_share *, int fd,
	uint64_t *at, struct window_space *space, struct err *);

/* Take the buffer that begins there away: 0 or -EFAULT. */
int extended_unmap(struct extended *, uint64_t at, struct err *);

/* The buffer that holds all of [at, at + len), len > 0; or NULL. */
const struct extent *extended_find(
	const struct extended *, uint64_t at, uint64_t len, struct err *);

/* Whether this buffer has a place. */
const struct extent *extended_holds(
	const struct extended *, uint32_t buffer, uint32_t generation);

/* Copy bytes [from, from + len) of the buffer. */
void extended_read(const struct extent *, uint64_t from, size_t len, void *to);

#endif
