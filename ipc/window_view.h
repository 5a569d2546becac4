/*
 * A view of a device's address window (all memory that the device can address,
 * device/window.h) for other processes: a memfd, "tandem:window" in
 * /proc/PID/fd, which the device keeps up to date. The view is only for
 * display. This header has no code.
 *
 * The view is protected by a sequence lock: `turn` is odd while the device
 * writes the view. A reader's copy is valid if `turn` is even and has the same
 * value before and after the copy. Words of 32 bits or more are stored with
 * release order (W1 in device/window.c) and loaded with acquire order (W2).
 * Therefore, if a reader has loaded a word of an unfinished update, it then
 * finds that `turn` is odd or has changed.
 */
#ifndef IPC_WINDOW_VIEW_H
#define IPC_WINDOW_VIEW_H

#include <stdatomic.h>
#include <stdint.h>

#define WINDOW_VIEW_NAME    "tandem:window"
#define WINDOW_VIEW_MAGIC   0x444e5754u /* "TWND" */
#define WINDOW_VIEW_VERSION 2
#define WINDOW_VIEW_SLOTS   256

struct window_view_mapping {
	uint32_t addr;
	/* 1: the buffer is unmapped, but its addresses are not free yet */
	uint32_t pending;
	uint64_t bytes; /* bytes of the buffer */
	/* size of the range of addresses: `bytes` rounded up to pages; a guard
	 * page follows the range */
	uint64_t span;
	char name[32];
};

/* A buffer in the extended region, which only DMA can read. */
struct window_view_extent {
	uint64_t at; /* offset in the extended region */
	uint64_t bytes;
	char name[32];
};

struct window_view {
	uint32_t magic, version;
	_Atomic uint32_t turn;
	/* number of mapping slots: the largest number of buffers that can be
	 * mapped at a time */
	uint32_t slots;
	/* size of the window and size of a page, in bytes; the window's first
	 * page is a guard page, in which nothing is mapped */
	uint64_t bytes, page;
	/* numbers of granted map requests, of unmap requests, and of refused
	 * map requests since the start of the device */
	uint64_t maps, unmaps, refused;
	/* bytes of the last map request that was refused */
	uint64_t asked;
	/* number of used mapping slots, including those of unmapped buffers
	 * whose addresses are not free yet */
	uint32_t used, pad;
	/* sorted by address */
	struct window_view_mapping map[WINDOW_VIEW_SLOTS];
	/* bytes of the extended region, 0 if there is none */
	uint64_t extended;
	uint64_t extended_free; /* free bytes of the extended region */
	/* number of buffers in the extended region; only the first 256 are
	 * listed */
	uint32_t extents;
	uint32_t pad2;
	/* sorted by offset */
	struct window_view_extent extent[WINDOW_VIEW_SLOTS];
};
_Static_assert(sizeof(struct window_view) == 96 + 256 * 56 + 256 * 48, "view");

#endif
