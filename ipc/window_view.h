/*
 * What a device shows of its address window to whoever looks at it from
 * outside, without being asked: one memfd, "tandem:window" in /proc/PID/fd,
 * which the device keeps true and nobody reads in order to decide. No code.
 *
 * A reader copies it while `turn` is even and the same before and behind the
 * copy; `turn` is odd while the device writes. Words of 32 bits or more are
 * stored by release (W1) and loaded by acquire (W2): who has one of a turn that
 * is not over finds `turn` odd behind it, or further.
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
	uint32_t pending; /* 1: unmapped, and its room is not free yet */
	uint64_t bytes;   /* of the buffer */
	uint64_t span;    /* of whole pages; a guard page follows */
	char name[32];
};

/* A buffer in the extended region, which DMA alone reaches. */
struct window_view_extent {
	uint64_t at; /* from the region's beginning */
	uint64_t bytes;
	char name[32];
};

struct window_view {
	uint32_t magic, version; /* 2 */
	_Atomic uint32_t turn;
	uint32_t slots;       /* that it has */
	uint64_t bytes, page; /* of the window; the first page is a guard */
	uint64_t maps, unmaps, refused; /* so far */
	uint64_t asked;                 /* by the last that was refused */
	uint32_t used, pad;             /* slots; those of pending ones too */
	struct window_view_mapping map[WINDOW_VIEW_SLOTS]; /* by address */
	uint64_t extended;      /* bytes of that region; 0: there is none */
	uint64_t extended_free; /* of them */
	uint32_t extents; /* in it; of more than fit here the first are shown */
	uint32_t pad2;
	struct window_view_extent extent[WINDOW_VIEW_SLOTS]; /* by place */
};
_Static_assert(
	sizeof(struct window_view) == 96 + 256 * 56 + 256 * 48, "as written");

#endif
