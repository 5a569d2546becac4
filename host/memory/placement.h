/*
 * Which blocks of weights are mapped in the device's window. A pass uses the
 * blocks in order, and the passes follow one another, so the order of use is
 * known for ever: 0 1 .. n-1 0 1 ... When a block has no room, the mapped
 * one whose next use is furthest away goes (Belady, "A study of replacement
 * algorithms", 1966), one at a time until the block fits; the rest stays.
 * In a cycle that is the block used last, never the one used longest ago.
 *
 * What is pinned (KV cache, activations) is not this file's business: it is
 * mapped before and simply is not there to evict. The window's own rules
 * (holes, guard pages, slots) are the device's; this file only asks.
 */
#ifndef HOST_MEMORY_PLACEMENT_H
#define HOST_MEMORY_PLACEMENT_H

#include <stdint.h>

struct err;
struct placement;

struct placement_window {
	/* 0 and *addr; -ENOSPC with *e when there is no room; else -errno. */
	int (*map)(void *arg, uint32_t block, uint32_t *addr, struct err *);
	int (*unmap)(void *arg, uint32_t block, uint32_t addr, struct err *);
	void *arg;
};

int placement_open(struct placement **out, uint32_t n_blocks,
	const struct placement_window *, struct err *);
void placement_close(struct placement *);

/* Map blocks from the first on while there is room; evicts nothing. */
int placement_fill(struct placement *, struct err *);

/*
 * The block is about to be used: its device address. -ENOSPC with map's
 * message when it does not even fit alone.
 */
int placement_need(
	struct placement *, uint32_t block, uint32_t *addr, struct err *);

struct placement_stats {
	uint64_t maps, unmaps;
	uint32_t mapped; /* blocks, now */
};
void placement_stats(const struct placement *, struct placement_stats *out);

#endif
