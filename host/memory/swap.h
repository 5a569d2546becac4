/*
 * The blocks of weights that come and go under a plan of host/memory/
 * swap_plan.h: a thread copies them, in the order in which passes use them,
 * which is always the same, from where they lie in memory into two staging
 * slots, shared buffers (tandem:swap0, tandem:swap1) that the device has mapped
 * for good. As soon as a slot is free the next block is copied into it, across
 * the end of a pass too (llada.cpp, section 3.4, "pipeline-based data
 * transfer").
 *
 * A slot is filled, needed, and done: between the last two the device reads it
 * and nobody writes. With `poison` a slot is overwritten with what is no number
 * as soon as it is done, so that a device that still read it would compute
 * other bytes.
 *
 * Called by one thread; the copying thread is this file's own. On the phone's
 * time copies have an engine of their own, beside the CPU and the NPU.
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

/* What is copied: it stays the caller's and outlives the swap. */
struct swap_block {
	const void *from;
	size_t bytes;
	struct price price; /* of the copy; nothing without a phone */
};

struct swap_opts {
	const struct swap_block *block; /* [n], in the order of use; copied */
	uint32_t n;                     /* at least 1 */
	size_t slot_bytes;              /* of the largest */
	bool poison;
	struct phone_time *time; /* NULL: there is no phone */
	struct trace *trace;     /* NULL: none */
};

/* Creates the slots' buffers and the thread; nothing is copied until
 * swap_start. */
int swap_open(struct swap **out, const struct swap_opts *, struct err *);
void swap_close(struct swap *);

struct buffer *swap_buffer(const struct swap *, unsigned slot);

/* Begin to copy ahead. */
void swap_start(struct swap *);

/*
 * Block i of `block` is about to be used. True: *slot is the one that it is
 * being copied to or lies in, *ready_ps when it is there on the phone's time,
 * and the slot is the caller's until swap_done. False: both slots are
 * the caller's, and it must be done with one first. Where a pass was broken
 * off, blocks that were copied for the rest of it are dropped.
 */
bool swap_need(struct swap *, uint32_t i, unsigned *slot, uint64_t *ready_ps);

/* Whether the block is in its slot now; waits for it, but not longer than
 * `wait_us`. */
bool swap_is_there(struct swap *, unsigned slot, unsigned wait_us);

/* The device is done with the slot, on the phone's time at `ps`: the next block
 * is copied into it. */
void swap_done(struct swap *, unsigned slot, uint64_t ps);

struct swap_stats {
	uint64_t copies, bytes; /* begun */
};
void swap_stats(const struct swap *, struct swap_stats *out);

#endif
