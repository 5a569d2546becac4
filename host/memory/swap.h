/*
 * Copying of temporary blocks, the blocks of a plan (host/memory/swap_plan.h)
 * that are not mapped permanently. A thread copies the weights of these blocks
 * from memory into two staging slots: shared buffers (tandem:swap0,
 * tandem:swap1) that the device has mapped permanently. The blocks are copied
 * in the order of use, which is the same in every pass. As soon as a slot is
 * free, the next block is copied into the slot; after the last block of a pass,
 * this is the first block of the next pass (llada.cpp, section 3.4,
 * "pipeline-based data transfer").
 *
 * A slot goes through three steps: the thread fills it, swap_need gives it to
 * the caller, swap_done takes it back. Between swap_need and swap_done the
 * device reads the slot and no thread writes it. With the option `poison`,
 * swap_done overwrites the slot with NaN: a device that still reads the slot
 * computes wrong results, which tests detect.
 *
 * All calls come from one thread; the copying thread is internal. On the
 * simulated phone's timeline, a separate engine does the copies, in parallel
 * with CPU and NPU.
 */
#ifndef HOST_MEMORY_SWAP_H
#define HOST_MEMORY_SWAP_H

#include "host/memory/swap_plan.h"
#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;
struct err;
struct phone_time;
struct swap;

/* A block to copy. `from` belongs to the caller and must outlive the struct
 * swap. */
struct swap_block {
	const void *from;
	size_t bytes;
	/* bytes that the statistics count for the copy; differs from `bytes` if
	 * costs are computed for another model */
	uint64_t counted;
	/* cost of the copy on the phone; all 0 if no phone is simulated */
	struct price price;
};

struct swap_opts {
	/* the blocks in the order of use; the array is copied */
	const struct swap_block *block;
	uint32_t n;        /* number of blocks in `block`, at least 1 */
	size_t slot_bytes; /* bytes of a slot: at least the largest block */
	bool poison;
	struct phone_time *time; /* simulated phone's timeline; NULL: none */
	struct trace *trace;     /* receives events; may be NULL */
};

/* Create the buffers of the slots, and start the copying thread. Nothing is
 * copied before swap_start. Returns 0 or a negative errno. */
int swap_open(struct swap **out, const struct swap_opts *, struct err *);
void swap_close(struct swap *);

struct buffer *swap_buffer(const struct swap *, unsigned slot);

/* Start copying: fill both slots in the order of use. */
void swap_start(struct swap *);

/*
 * The caller uses block i of swap_opts.block next. Returns true if a slot
 * contains the block, or if the block is being copied into a slot; *slot then
 * belongs to the caller until swap_done. *ready_ps receives the time at which
 * the copy ends on the simulated phone's timeline. Returns false if both slots
 * belong to the caller, which must then first call swap_done for one of the
 * slots. After an interrupted pass, blocks that were copied for the rest of
 * that pass are dropped.
 */
bool swap_need(struct swap *, uint32_t i, unsigned *slot, uint64_t *ready_ps);

/* Wait for up to `wait_us` until the copy into the slot is complete. Returns
 * whether the copy is complete. */
bool swap_is_there(struct swap *, unsigned slot, unsigned wait_us);

/* Report that the device has finished with the slot, at time `ps` of the
 * simulated phone, and copy the next block into the slot. */
void swap_done(struct swap *, unsigned slot, uint64_t ps);

struct swap_stats {
	/* number of copies that were started, and their total bytes */
	uint64_t copies, bytes;
};
void swap_stats(const struct swap *, struct swap_stats *out);

#endif
