/*
 * The address window: all the shared memory that the device can address. One
 * range of addresses is reserved when the device starts and never grows.
 * Buffers are mapped into it whole, by first fit and in whole pages, each
 * followed by an inaccessible guard page. The first page is a guard as well, so
 * that address 0 is never valid. The number of mapping slots is bounded, and
 * the window may fragment: both on purpose, because an NPU's 32-bit window has
 * these limits and the host must cope with them.
 *
 * With `defer`, as on some firmware, an unmapped buffer keeps its slot and its
 * addresses, inaccessible, until that many more map requests have arrived,
 * granted or not.
 *
 * A device address is an offset into the window, not into the memory that this
 * process reserves for it, which is three times as large: there, a buffer of at
 * least one huge page (2 MiB) begins at a multiple of 2 MiB. At any other
 * address the system maps a huge page by 512 small entries, and if host and
 * device map it differently, some hypervisors fault it in again and again
 * (docs/design/huge-pages.md). So the speed does not depend on the place in the
 * window, and the place, hence the phone's time, does not depend on the
 * system's pages.
 *
 * Only window_find turns an address into a pointer, and only the cache uses the
 * pointer.
 *
 * The thread that runs requests changes the window, between requests; while no
 * mapping changes, any thread may call window_find. To limit the whole address
 * space of the process as well, start it under `prlimit --as`.
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
	struct wire_share share; /* the buffer */
	uint32_t addr;
	uint64_t span; /* bytes, rounded up to pages, without the guard */
	uint8_t *mem;  /* this process's pointer to `addr` */
	unsigned slot;
	unsigned due; /* unmapped: maps until it is freed; 0: mapped */
};

struct window {
	uint8_t *base; /* this process's pointer to device address 0 */
	uint64_t bytes, page;
	void *reserved; /* for munmap */
	uint64_t reserved_bytes;
	unsigned slots, used; /* with mappings whose unmap is deferred */
	unsigned defer;       /* set by the owner after window_init */
	uint64_t maps, unmaps, refused;  /* so far */
	uint64_t refused_bytes;          /* size of the last refused map */
	const struct extended *extended; /* in the view too; set by the owner */
	struct window_view *shown;       /* NULL: no view */
	int shown_fd;
	struct mapping map[WINDOW_SLOTS_MAX];    /* by slot; addr 0: free */
	struct mapping *order[WINDOW_SLOTS_MAX]; /* [used] by address */
};

/* The state of the space when a buffer is mapped (enum wire_map_arg). */
struct window_space {
	uint64_t wanted; /* bytes, with the guard page */
	uint64_t free, largest;
	unsigned used, slots, pending;
};

int window_init(struct window *, uint64_t bytes, unsigned slots, struct err *);
void window_release(struct window *);
/* Publish the window to other processes (ipc/window_view.h): a memfd of a few
 * pages that is written at each map and unmap. The device never reads it. */
int window_show(struct window *, struct err *);
/* Write the view again, because the extended region has changed. */
void window_report(const struct window *);

/*
 * Map the whole buffer of `fd`, which the caller keeps. 0 and *out; -ENOSPC
 * when no hole or slot is left; or the system's -errno. *space is always filled
 * in.
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
