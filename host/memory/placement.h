/*
 * This module decides which blocks of weights are mapped in the device's window
 * (the range of addresses that the device can reach). Passes use all blocks in
 * order, and one pass follows another, so the order of use is known: 0 1 .. n-1
 * 0 1 ... When there is no room for a block, mapped blocks are unmapped one at
 * a time until the block fits: always the block whose next use is furthest in
 * the future (Belady, "A study of replacement algorithms", 1966). In a cyclic
 * order, that is the most recently used block, never the least recently used
 * block.
 *
 * Three other policies serve as baselines. The first two map a block when it is
 * needed, and no block in advance:
 *
 *   paging    Unmap the least recently used block, one at a time until the
 *             new block fits. In a cyclic order, the least recently used
 *             block is needed again soon. So if not all blocks fit, every
 *             block is mapped again in every pass.
 *   drop-all  When a block does not fit, unmap all blocks that the current
 *             request does not use. A request computes one block for all rows
 *             of a pass, so all other blocks are unmapped. Public backends for
 *             NPUs make room in this way.
 *   fixed     Never unmap. All blocks are mapped before the first pass; if the
 *             window is too small for all, placement_fill fails. This policy
 *             models a runtime without swapping.
 *
 * The device may have an extended region in addition to the window, a memory
 * that only DMA reaches. Under every policy, a block without room in the window
 * is placed in this region permanently, as long as the region has room. The
 * block then needs no mapping in a pass, and does not count toward the limited
 * number of mappings (slots) of the window. Blocks are unmapped only when the
 * region is full.
 *
 * PLACEMENT_SWAP is implemented by host/memory/swap.h.
 *
 * Buffers that are always mapped (KV cache, activations) are mapped by other
 * code, before the blocks. This module has no record of these buffers, nor of
 * the rules of the window (holes, guard pages, number of mappings): the module
 * requests a mapping, and the device maps the block or refuses.
 */
#ifndef HOST_MEMORY_PLACEMENT_H
#define HOST_MEMORY_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct placement;

enum placement_policy {
	/* one of the other policies, which session_plan_placement chooses */
	PLACEMENT_AUTO,
	PLACEMENT_BELADY,
	PLACEMENT_SWAP,
	PLACEMENT_PAGING,
	PLACEMENT_DROP_ALL,
	PLACEMENT_FIXED,
	PLACEMENT_COUNT
};
/* names of the policies, such as "drop-all"; NULL-terminated */
extern const char *const placement_names[];

struct placement_window {
	/* Map a block in the device's window. Returns 0 with *addr, or -ENOSPC
	 * with *e if there is no room, or another negative errno. */
	int (*map)(void *arg, uint32_t block, uint32_t *addr, struct err *);
	/* Place a block in the device's extended region, with the same results
	 * as map. NULL if the device has no such region. */
	int (*extend)(void *arg, uint32_t block, uint32_t *addr, struct err *);
	int (*unmap)(void *arg, uint32_t block, uint32_t addr, struct err *);
	void *arg;
};

/* The policy is not PLACEMENT_AUTO or PLACEMENT_SWAP. */
int placement_open(struct placement **out, uint32_t n_blocks,
	enum placement_policy, const struct placement_window *, struct err *);
void placement_close(struct placement *);

/*
 * Map blocks before the first pass. PLACEMENT_BELADY maps blocks from the first
 * on while there is room. PLACEMENT_FIXED maps all blocks, or fails with
 * -ENOSPC and the message of `map`. The other policies map no block.
 */
int placement_fill(struct placement *, struct err *);

/*
 * Map a block that is about to be used, unless it is already mapped. *addr is
 * the block's address in the device's window, or in the extended region if
 * placement_is_extended is true. Returns 0, or -ENOSPC with the message of
 * `map` if the block does not fit even when no other block is mapped, or
 * another negative errno.
 */
int placement_need(
	struct placement *, uint32_t block, uint32_t *addr, struct err *);

/* placement_is_mapped: whether the block is mapped in the device's window or
 * placed in the extended region. placement_is_extended: whether the block is
 * placed in the extended region. */
bool placement_is_mapped(const struct placement *, uint32_t block);
bool placement_is_extended(const struct placement *, uint32_t block);

struct placement_stats {
	uint64_t maps, unmaps;
	/* mapped: number of blocks that are mapped in the device's window.
	 * extended: number of blocks in the extended region. */
	uint32_t mapped, extended;
};
void placement_stats(const struct placement *, struct placement_stats *out);

#endif
