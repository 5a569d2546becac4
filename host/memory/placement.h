/*
 * Which blocks of weights are mapped in the device's window. A pass uses the
 * blocks in order, and the passes follow one another, so the order of use is
 * known for ever: 0 1 .. n-1 0 1 ... When a block has no room, the mapped
 * one whose next use is furthest away goes (Belady, "A study of replacement
 * algorithms", 1966), one at a time until the block fits; the rest stays.
 * In a cycle that is the block used last, never the one used longest ago.
 *
 * Baselines map on demand too, and nothing before the first need:
 *
 *   paging    the block used longest ago goes, one at a time until the new one
 *             fits. In a cycle it is the one that is needed next but for those
 *             just used, so where not all fit, every block is mapped anew in
 *             every pass.
 *   drop-all  when the block does not fit, all that the piece of work at hand
 *             does not use goes at once: a piece of work is one request, the
 *             rows of a pass through one block, so all other blocks go. So do
 *             the public backends for NPUs make room.
 *   fixed     nothing goes: all blocks are mapped before the first pass, or the
 *             window is too small. A runtime without swapping.
 *
 * Beside the window there may be a region that DMA alone reaches, from where
 * weights are read as they are. Under every policy a block for which the window
 * has no room goes there, for good, while that region has room: it costs
 * neither a slot nor a mapping in a pass. Only then does anything leave the
 * window.
 *
 * PLACEMENT_SWAP is not this file's but host/memory/swap.h's.
 *
 * What is pinned (KV cache, activations) is not this file's business: it is
 * mapped before and simply is not there to evict. The window's own rules
 * (holes, guard pages, slots) are the device's; this file only asks.
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
	/* Likewise, of the region beside it; NULL: there is none. */
	int (*extend)(void *arg, uint32_t block, uint32_t *addr, struct err *);
	int (*unmap)(void *arg, uint32_t block, uint32_t addr, struct err *);
	void *arg;
};

int placement_open(struct placement **out, uint32_t n_blocks,
	enum placement_policy, const struct placement_window *, struct err *);
void placement_close(struct placement *);

/*
 * Before the first pass: map blocks from the first on while there is room, and
 * evict nothing; of a fixed placement all, or -ENOSPC with map's message; of
 * those that wait for a need none.
 */
int placement_fill(struct placement *, struct err *);

/*
 * The block is about to be used: its device address, in the window or, with
 * placement_is_extended, beside it. -ENOSPC with map's message when it does not
 * even fit alone.
 */
int placement_need(
	struct placement *, uint32_t block, uint32_t *addr, struct err *);

/* Whether the device reaches it now, in the window or beside it; whether it
 * lies beside it. */
bool placement_is_mapped(const struct placement *, uint32_t block);
bool placement_is_extended(const struct placement *, uint32_t block);

struct placement_stats {
	uint64_t maps, unmaps;
	uint32_t mapped, extended; /* blocks, now */
};
void placement_stats(const struct placement *, struct placement_stats *out);

#endif
