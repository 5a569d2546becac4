/*
 * Copying of the temporary blocks of a plan (host/memory/swap_plan.h): a thread
 * copies weights, in the order of use, which is the same in every pass, from
 * memory into two staging slots: shared buffers (tandem:swap0, tandem:swap1)
 * that the device has mapped permanently. As soon as a slot is free the next
 * block is copied into it, across the end of a pass too (llada.cpp, section
 * 3.4, "pipeline-based data transfer").
 *
 * A slot is filled, needed, and done: between the last two the device reads it
 * and no thread writes it. With `poison` a slot is overwritten with NaN when it
 * is done, so that a device that still reads it computes wrong results, which
 * tests notice.
 *
 * Called by one thread; the copying thread is internal. On the phone's timeline
 * copies have an engine of their own, in parallel with CPU and NPU.
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

/* A block to copy; owned by the caller, must outlive the swap. */
struct swap_block {
	const void *from;
	size_t bytes;
	struct price price; /* of the copy; zero without a phone */
};

struct swap_opts {
	/* [n], in the order of use; the array is copied */
	const struct swap_block *block;
	uint32_t n;        /* at least 1 */
	size_t slot_bytes; /* bytes of the largest block */
	bool poison;
	struct phone_time *time; /* NULL: no phone */
	struct trace *trace;     /* NULL: none */
};

/* Create the slots' buffers and the thread; nothing is copied before
 * swap_start. */
int swap_open(struct swap **out, const struct swap_opts *, struct err *);
void swap_close(struct swap *);

struct buffer *swap_buffer(const struct swap *, unsigned slot);

/* Start copying ahead. */
void swap_start(struct swap *);

/*
 * Block i of `block` is used next. True: *slot has it, or is being filled with
 * it, until *ready_ps on the phone's timeline, and belongs to the caller until
 * swap_done. False: the caller has both slots, and must be done with one first.
 * After an interrupted pass, blocks that were copied for its rest are dropped.
 */
bool swap_need(struct swap *, uint32_t i, unsigned *slot, uint64_t *ready_ps);

/* Whether the block is in its slot; waits for it up to `wait_us`. */
bool swap_is_there(struct swap *, unsigned slot, unsigned wait_us);

/* The device is done with the slot, at phone time `ps`: copy the next block
 * into it. */
void swap_done(struct swap *, unsigned slot, uint64_t ps);

struct swap_stats {
	uint64_t copies, bytes; /* started */
};
void swap_stats(const struct swap *, struct swap_stats *out);

#endif
