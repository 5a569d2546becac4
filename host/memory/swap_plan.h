/*
 * A plan for weights that do not fit into the device's window: which operators
 * (blocks of layers) stay resident and which are temporary. Operators run in
 * one order, forward after forward. Resident ones are packed into few large
 * mappings, in the order of use. Temporary ones are copied into two staging
 * slots, each ahead of its turn: while the device reads one slot the other is
 * filled. After "graph-guided buffer mapping" and "pipeline-based data
 * transfer" of llada.cpp, section 3.4.
 *
 * Model of time. There is one copy at a time, in the order of use, across the
 * end of a forward too; a copy begins when the copy before it has ended and the
 * slot is free, which the operator two temporaries earlier releases when it
 * ends. An operator begins when the one before it has ended and its weights are
 * in place. The stall of a plan is the time of a forward beyond the sum of its
 * operators, averaged over a long run. These times form a linear system over
 * (max, +) with a state of four instants, so the average is its largest cycle
 * mean (Karp, "A characterization of the minimum cycle mean in a digraph",
 * 1978), over at most four forwards: exact in twelfths of the unit of time.
 *
 * Quality. Up to SWAP_EXACT operators every choice is tried, and the stall is
 * the minimum. Beyond, it is the minimum over a fixed pool of choices, without
 * a guarantee: evenly spread temporaries, the paper's walk and the cheapest
 * copies, for every quarter of an operator's bytes that are not resident, each
 * improved by exchanges, and all choices with more residents that follow from
 * them. (Compared with all choices of 8 to 14 operators, the pool had the
 * minimum for 600 of 600 random sets of equal operators and 566 of 600 of mixed
 * sizes; the others' forwards took up to a ninth longer.) The pool does not
 * depend on the room, which only decides what fits. So in both cases the stall
 * never grows with the room, and is never above that of mapping on demand,
 * which waits for each block that it maps.
 *
 * Pure functions, any thread.
 */
#ifndef HOST_MEMORY_SWAP_PLAN_H
#define HOST_MEMORY_SWAP_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct err;

#define SWAP_EXACT   16
#define SWAP_SLOTS   2
#define SWAP_TWELFTH 12

struct swap_op {
	uint64_t bytes;
	uint64_t run, copy; /* times; their sum is below 2^54 */
};

struct swap_room {
	uint64_t bytes;   /* of the window, for weights and staging slots */
	uint64_t mapping; /* largest mapping in bytes; each operator fits */
	/* a power of two: a mapping takes whole pages and one more as a
	 * guard */
	uint64_t page;
	uint32_t slots; /* mappings, at most */
};

/* Place of an operator's weights. */
struct swap_place {
	bool temporary;
	uint32_t mapping; /* of a resident one */
	uint64_t at;      /* offset in it */
};

struct swap_plan {
	struct swap_place *place; /* [n], owned by the caller */
	/* Bytes of a staging slot: the largest operator's; 0: all are resident
	 * and there are no slots. */
	uint64_t slot;
	uint32_t temporary; /* number of temporary operators */
	uint32_t mappings;
	uint64_t resident_bytes, copied_bytes;
	uint64_t stall; /* of a forward, in twelfths of the unit of time */
};

/*
 * The largest operator determines the slots' size. 0; -ENOSPC when two slots do
 * not fit, or -ENOMEM. Bytes of operators must be multiples of the alignment of
 * their places.
 */
int swap_plan(struct swap_plan *, const struct swap_op *, uint32_t n,
	const struct swap_room *, struct err *);

/* The stall of a choice of temporary[n] operators, as in struct swap_plan. */
uint64_t swap_stall(const struct swap_op *, uint32_t n, const bool *temporary);

#endif
