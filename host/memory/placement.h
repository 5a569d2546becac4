/*
 * Which blocks of weights are mapped in the device's window. Passes use the
 * blocks in order and follow one another, so the order of use is known: 0 1 ..
 * n-1 0 1 ... When there is no room for a block, the mapped one whose next use
 * is furthest in the future is unmapped (Belady, "A study of replacement
 * algorithms", 1966), one at a time until the block fits. In such a cycle that
 * is the block used last, never the least recently used one.
 *
 * The baselines map on demand too, and nothing before the first need:
 *
 *   paging    unmap the least recently used block, one at a time until the new
 *             one fits. In a cycle that is nearly the one needed next, so if
 *             not all blocks fit, every block is mapped again in every pass.
 *   drop-all  when the block does not fit, unmap everything that the current
 *             piece of work does not use: a piece of work is one request, the
 *             rows of a pass through one block, so all other blocks go. Public
 *             backends for NPUs make room like this.
 *   fixed     never unmap: all blocks are mapped before the first pass, or the
 *             window is too small. A runtime without swapping.
 *
 * Beside the window the device may have an extended region, which only DMA
 * reaches. Under every policy a block without room in the window is placed
 * there permanently, while the region has room: it takes no slot and needs no
 * mapping in a pass. Only then are blocks unmapped.
 *
 * PLACEMENT_SWAP is implemented by host/memory/swap.h.
 *
 * Pinned buffers (KV cache, activations) are mapped before and are not known
 * here. The rules of the window (holes, guard pages, slots) are the device's;
 * this file only requests mappings.
 */
#ifndef HOST_MEMORY_PLACEMENT_H
#define HOST_MEMORY_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct placement;

enum placement_policy {
	PLACEMENT_BELADY,
	PLACEMENT_SWAP,
	PLACEMENT_PAGING,
	PLACEMENT_DROP_ALL,
	PLACEMENT_FIXED,
	PLACEMENT_COUNT
};
extern const char *const placement_names[]; /* "drop-all"; NULL at the end */

struct placement_window {
	/* 0 and *addr; -ENOSPC with *e when there is no room; else -errno. */
	int (*map)(void *arg, uint32_t block, uint32_t *addr, struct err *);
	/* The same for the extended region; NULL: there is none. */
	int (*extend)(void *arg, uint32_t block, uint32_t *addr, struct err *);
	int (*unmap)(void *arg, uint32_t block, uint32_t addr, struct err *);
	void *arg;
};

int placement_open(struct placement **out, uint32_t n_blocks,
	enum placement_policy, const struct placement_window *, struct err *);
void placement_close(struct placement *);

/*
 * Before the first pass: map blocks from the first on while there is room; a
 * fixed placement maps all, or fails with -ENOSPC and map's message; policies
 * that map on demand map none.
 */
int placement_fill(struct placement *, struct err *);

/*
 * Map a block that is about to be used, if needed: *addr is in the window or,
 * with placement_is_extended, in the extended region. -ENOSPC with map's
 * message when it does not fit even alone.
 */
int placement_need(
	struct placement *, uint32_t block, uint32_t *addr, struct err *);

/* Whether the block is mapped, in the window or the extended region; whether it
 * is in the latter. */
bool placement_is_mapped(const struct placement *, uint32_t block);
bool placement_is_extended(const struct placement *, uint32_t block);

struct placement_stats {
	uint64_t maps, unmaps;
	uint32_t mapped, extended; /* blocks, now */
};
void placement_stats(const struct placement *, struct placement_stats *out);

#endif
