/*
 * The extended region: memory beyond 32-bit addresses, which newer phones have.
 * The NPU's cores cannot load from the region; the DMA engine reads the region
 * into TCM (on-chip memory), piece by piece.
 *
 * The region is not mapped into this process. A buffer in the region is only a
 * descriptor and an offset. Its bytes can only be copied, by extended_read, so
 * a kernel cannot get a pointer into the region by mistake. Buffers are placed
 * by first fit, in whole pages. They need no mapping slots and no guard pages,
 * unlike buffers in the address window (window.h).
 *
 * The other files of the device use 64-bit addresses from EXTENDED_BASE on for
 * bytes of the region. Views (device/cache.h) do not accept such addresses.
 *
 * Only the thread that runs requests places and removes buffers, and never
 * while a graph runs. At all other times any thread may read from the region.
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
	uint64_t span; /* size of the buffer, rounded up to pages */
	int fd;        /* the buffer's memfd, owned by the extent */
};

struct extended {
	/* `bytes`: size of the region, 0 if the phone has no such region;
	 * `page`: size of a page */
	uint64_t bytes, page;
	unsigned used;
	/* [used] the buffers in the region, sorted by offset */
	struct extent order[WIRE_MAX_BUFFERS];
};

void extended_init(struct extended *, uint64_t bytes);
void extended_release(struct extended *);

/*
 * Place a buffer in the region. `fd` still belongs to the caller. Returns 0
 * with *at; -ENOSPC if no hole is large enough; -ENOTSUP if there is no region;
 * or another negative errno. If there is a region, *space is set, even after a
 * failure; its counts of mapping slots and of deferred unmaps are 0.
 */
int extended_map(struct extended *, const struct wire_share *, int fd,
	uint64_t *at, struct window_space *space, struct err *);

/* Remove the buffer that begins at `at`. Returns 0, or -EFAULT if no buffer
 * begins at `at`. */
int extended_unmap(struct extended *, uint64_t at, struct err *);

/* Find the buffer that contains all of [at, at + len), len > 0. Returns NULL
 * with a message in *e if there is none. */
const struct extent *extended_find(
	const struct extended *, uint64_t at, uint64_t len, struct err *);

/* Find the extent of this buffer. Returns NULL if the buffer is not in the
 * region. */
const struct extent *extended_holds(
	const struct extended *, uint32_t buffer, uint32_t generation);

/* Copy bytes [from, from + len) of the extent's buffer to `to`. */
void extended_read(const struct extent *, uint64_t from, size_t len, void *to);

#endif
