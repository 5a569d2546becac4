/*
 * The address window: all the shared memory that the device can address. One
 * range of addresses is reserved when the device starts and never grows. Each
 * buffer is mapped as a whole, by first fit and in whole pages, and is followed
 * by an inaccessible guard page. The first page is a guard as well, so that
 * address 0 is never valid. The number of mapping slots (each holds one mapped
 * buffer) is limited, and the window may fragment. Both limits are intended: a
 * real NPU's 32-bit window has the same limits, and the host must handle them.
 *
 * The member `defer` of struct window imitates some firmware: an unmapped
 * buffer becomes inaccessible at once, but keeps its slot and its addresses
 * until `defer` more map requests have arrived, whether or not they are
 * granted.
 *
 * A device address is an offset into the window. This process reserves three
 * times as many addresses as the window has, so that each buffer of at least
 * one huge page (2 MiB) can be mapped at a multiple of 2 MiB. At any other
 * address the system maps a huge page by 512 small entries, and if host and
 * device map a page differently, some hypervisors repeat the page fault many
 * times (docs/design/huge-pages.md). With this placement, the speed of access
 * does not depend on a buffer's device address. The device addresses, and so
 * the simulated times of the phone, do not depend on the system's page size.
 *
 * Only window_find turns an address into a pointer, and only the cache uses the
 * pointer.
 *
 * Only the thread that runs requests changes the window, and never while a
 * graph runs. At all other times any thread may call window_find. To also
 * limit the whole address space of the process, start it under `prlimit --as`.
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
	uint64_t span; /* bytes of the buffer, rounded up to pages */
	uint8_t *mem;  /* address of the buffer in this process */
	unsigned slot;
	/* 0: the buffer is mapped; otherwise it is unmapped, and its addresses
	 * are freed after `due` more map requests */
	unsigned due;
};

struct window {
	uint8_t *base; /* address in this process of device address 0 */
	uint64_t bytes, page;
	void *reserved; /* start of the reserved addresses, for munmap */
	uint64_t reserved_bytes;
	/* slots: number of mapping slots. used: number of these that are in
	 * use, including those of buffers whose unmap is deferred. */
	unsigned slots, used;
	/* number of map requests by which an unmap is deferred; set by the
	 * owner after window_init */
	unsigned defer;
	/* numbers of granted map requests, of unmap requests and of refused map
	 * requests so far */
	uint64_t maps, unmaps, refused;
	/* bytes of the last map request that was refused */
	uint64_t refused_bytes;
	/* the extended region, which the view for other processes shows too;
	 * set by the owner */
	const struct extended *extended;
	/* the view for other processes; NULL: none */
	struct window_view *shown;
	int shown_fd;
	/* [slot] the mapping in each slot; an entry whose addr is 0 is free */
	struct mapping map[WINDOW_SLOTS_MAX];
	/* [used] the mappings, sorted by address */
	struct mapping *order[WINDOW_SLOTS_MAX];
};

/* The space in the window after a map request that was granted or refused, for
 * the request's completion (enum wire_map_arg). */
struct window_space {
	uint64_t wanted;        /* requested bytes, including the guard page */
	uint64_t free, largest; /* free bytes; bytes of the largest hole */
	/* numbers of used mapping slots, of all mapping slots, and of deferred
	 * unmaps */
	unsigned used, slots, pending;
};

int window_init(struct window *, uint64_t bytes, unsigned slots, struct err *);
void window_release(struct window *);
/* Create a view of the window for other processes (ipc/window_view.h): a memfd
 * of a few pages that is written at each map and unmap. The device never reads
 * the view. */
int window_show(struct window *, struct err *);
/* Update the view for other processes. Call this after the extended region has
 * changed. */
void window_report(const struct window *);

/*
 * Map the whole buffer of `fd`, which still belongs to the caller. Returns 0
 * with *out; -ENOSPC if there is no hole or slot for the buffer; or another
 * negative errno. *space is always set.
 */
int window_map(struct window *, const struct wire_share *, int fd,
	struct mapping **out, struct window_space *space, struct err *);
void window_unmap(struct window *, struct mapping *);

/* Find the mapping that contains all of [addr, addr + len), len > 0. Returns
 * NULL with a message in *e if there is none. */
const struct mapping *window_find(
	const struct window *, uint32_t addr, uint64_t len, struct err *);

/* Find the mapping that starts at `addr`; NULL if there is none. */
struct mapping *window_at(struct window *, uint32_t addr);

/* Find the mapping of this buffer; NULL if there is none. */
const struct mapping *window_holds(
	const struct window *, uint32_t buffer, uint32_t generation);

#endif
