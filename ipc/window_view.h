/*
 * The view of a device's address window for other processes: a memfd,
 * "tandem:window" in /proc/PID/fd, that the device keeps up to date. It is for
 * display only. No code.
 *
 * The view is a sequence lock. A reader's copy is valid if `turn` is even and
 * the same before and after the copy; `turn` is odd while the device writes.
 * Words of 32 bits or more are stored by release (W1) and loaded by acquire
 * (W2), so a reader that loaded a word of an unfinished turn then finds `turn`
 * odd or larger.
 */
#ifndef IPC_WINDOW_VIEW_H
#define IPC_WINDOW_VIEW_H

#include <stdatomic.h>
#include <stdint.h>

#define WINDOW_VIEW_NAME  "tandem:window"
#define WINDOW_VIEW_MAGIC 0x444e5754u /* "TWND" */
#define WINDOW_VIEW_SLOTS 256

struct window_view_mapping {
	uint32_t addr;
	uint32_t pending; /* 1: unmapped, but its space is not free yet */
	uint64_t bytes;   /* of the buffer */
	uint64_t span;    /* rounded up to pages; a guard page follows */
	char name[32];
};

/* A buffer in the extended region, which only DMA can read. */
struct window_view_extent {
	uint64_t at; /* offset in the region */
	uint64_t bytes;
	char name[32];
};

struct window_view {
	uint32_t magic, version; /* 2 */
	_Atomic uint32_t turn;
	uint32_t slots;       /* of the window */
	uint64_t bytes, page; /* of the window; the first page is a guard */
	uint64_t maps, unmaps, refused; /* so far */
	uint64_t asked;                 /* bytes of the last refused map */
	uint32_t used, pad;             /* used slots, pending ones included */
	struct window_view_mapping map[WINDOW_VIEW_SLOTS]; /* by address */
	uint64_t extended;      /* bytes of the extended region; 0: none */
	uint64_t extended_free; /* free bytes of the region */
	uint32_t extents; /* in the region; only the first ones are listed */
	uint32_t pad2;
	struct window_view_extent extent[WINDOW_VIEW_SLOTS]; /* by place */
};
_Static_assert(sizeof(struct window_view) == 96 + 256 * 56 + 256 * 48, "view");

#endif
