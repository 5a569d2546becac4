/*
 * The extended region: memory beyond 32-bit addresses, as newer phones have it.
 * The NPU's cores cannot load from it; the DMA engine reads it into TCM, piece
 * by piece.
 *
 * The region is not mapped into this process. A buffer in it is a descriptor
 * and an offset, and extended_read, which copies, is the only access: a kernel
 * cannot get a pointer into it by mistake. A buffer takes no slot and no guard
 * page; buffers are placed by first fit, in whole pages.
 *
 * In the rest of the device a byte of the region has a 64-bit address, from
 * EXTENDED_BASE on, which no view (device/cache.h) accepts.
 *
 * The thread that runs requests changes the region, between requests; while no
 * buffer is placed or removed, any thread may read.
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
	uint64_t at;   /* offset in the region */
	uint64_t span; /* bytes, rounded up to pages */
	int fd;        /* owned */
};

struct extended {
	uint64_t bytes, page; /* bytes 0: the phone has none */
	unsigned used;
	struct extent order[WIRE_MAX_BUFFERS]; /* [used] by offset */
};

void extended_init(struct extended *, uint64_t bytes);
void extended_release(struct extended *);

/*
 * Place the buffer of `fd`, which the caller keeps. 0 and *at; -ENOSPC when no
 * hole is large enough; -ENOTSUP when there is no region; or the system's
 * -errno. *space is filled in if there is a region, without its slots.
 */
int extended_map(struct extended *, const struct wire_share *, int fd,
	uint64_t *at, struct window_space *space, struct err *);

/* Remove the buffer that begins at `at`: 0 or -EFAULT. */
int extended_unmap(struct extended *, uint64_t at, struct err *);

/* The buffer that holds all of [at, at + len), len > 0; or NULL. */
const struct extent *extended_find(
	const struct extended *, uint64_t at, uint64_t len, struct err *);

/* The extent of this buffer, or NULL. */
const struct extent *extended_holds(
	const struct extended *, uint32_t buffer, uint32_t generation);

/* Copy bytes [from, from + len) of the buffer. */
void extended_read(const struct extent *, uint64_t from, size_t len, void *to);

#endif
