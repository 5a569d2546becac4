/*
 * The address window: all the shared memory that the device can name. One
 * range of addresses is reserved when the device starts and never grows;
 * buffers are mapped into it whole, by first fit and in whole pages, each
 * followed by a guard page that nothing can touch. The first page is a guard
 * as well, so that address 0 is never valid. The number of mapping slots is
 * bounded, and the window may fragment: both on purpose, because that is the
 * machine whose limits are to be felt.
 *
 * With `defer`, as on some firmware, what is unmapped keeps its slot and its
 * addresses until so many more requests to map have come, granted or not;
 * nothing can touch it meanwhile.
 *
 * A device address is an offset into the window, not into the memory that
 * this process reserves for it, which has three times as many bytes: there,
 * what fills a huge page (2 MiB) begins where one can be mapped. A huge page
 * mapped from anywhere else is mapped by 512 small entries, and where it is
 * mapped both ways, as by host and device, some hypervisors fault it in anew
 * again and again (docs/design/huge-pages.md). So speed does not depend on
 * where in the window things lie, and where they lie, hence a phone's time,
 * does not depend on the system's pages.
 *
 * Nothing but window_find turns an address into a pointer, and only the cache
 * does that with it.
 *
 * Changed by the thread that runs requests, between them; while none of its
 * mappings changes, any thread may look things up. To cap the process's
 * whole address space as well, start it under `prlimit --as`.
 */
#ifndef DEVICE_WINDOW_H
#define DEVICE_WINDOW_H

#include "ipc/window_view.h"
#include "ipc/wire.h"

#include <stdint.h>

struct err;
struct extended;

#define WINDOW_SLOTS_MAX WINDOW_VIEW_SLOTS

struct mapping {
	struct wire_share share; /* of what: id, generation, bytes, name */
	uint32_t addr;
	uint64_t span; /* whole pages, without the guard */
	uint8_t *mem;  /* where this process sees `addr` */
	unsigned slot;
	unsigned due; /* unmapped: maps until its room is free; 0: mapped */
};

struct window {
	uint8_t *base; /* where this process sees device address 0 */
	uint64_t bytes, page;
	void *reserved; /* what munmap wants back */
	uint64_t reserved_bytes;
	unsigned slots, used; /* pending ones too */
	unsigned defer;       /* set by the owner behind window_init */
	uint64_t maps, unmaps, refused;  /* so far */
	uint64_t refused_bytes;          /* that the last one refused asked */
	const struct extended *extended; /* shown beside it; set by the owner */
	struct window_view *shown;       /* NULL: nowhere */
	int shown_fd;
	struct mapping map[WINDOW_SLOTS_MAX];    /* by slot; addr 0: free */
	struct mapping *order[WINDOW_SLOTS_MAX]; /* [used] by address */
};

/* Why a buffer does not fit: as in enum wire_map_arg. */
struct window_space {
	uint64_t asked; /* guard page included */
	uint64_t free, largest;
	unsigned used, slots, pending;
};

int window_init(struct window *, uint64_t bytes, unsigned slots, struct err *);
void window_release(struct window *);
/* Show it from now on to whoever looks from outside (ipc/window_view.h): a
 * memfd of a few pages, which nothing in the device reads, written at each map
 * and unmap. */
int window_show(struct window *, struct err *);
/* Write it anew: what is shown beside the window has changed. */
void window_report(const struct window *);

/*
 * Map all of the buffer behind `fd`, which stays the caller's. 0 and *out;
 * -ENOSPC when no hole or slot is left; or the -errno of the system. *space
 * is filled in every case.
 */
int window_map(struct window *, const struct wire_share *, int fd,
	struct mapping **out, struct window_space *space, struct err *);
void window_unmap(struct window *, struct mapping *);

/* The mapping that holds all of [addr, addr + len), len > 0; or NULL. */
const struct mapping *window_find(
	const struct window *, uint32_t addr, uint64_t len, struct err *);

/* The mapping that starts at `addr`, or NULL. */
struct mapping *window_at(struct window *, uint32_t addr);

/* The mapping of this buffer, or NULL. */
const struct mapping *window_holds(
	const struct window *, uint32_t buffer, uint32_t generation);

#endif
