/*
 * What stays in the device's window and what comes and goes, when a model's
 * weights are too many for it. Operators (blocks of layers) run in one order,
 * forward after forward. The resident ones lie in few large mappings, one
 * behind the other as they are used. The others, the temporary ones, are copied
 * into two staging slots, each ahead of its turn: while the device reads one
 * slot the other is filled. After "graph-guided buffer mapping" and
 * "pipeline-based data transfer" of llada.cpp, section 3.4.
 *
 * Semantics. One copy at a time, in the order of use, across the end of a
 * forward too; a copy begins when the copy before it is through and the slot is
 * free, which the operator two temporaries earlier releases when it ends. An
 * operator begins when the one before it has ended and what it reads is there.
 * The stall of a plan is how much longer a forward takes than its operators, on
 * the average of a long run. The times form a linear system over (max, +) whose
 * state is four instants, so the average is its largest mean cycle (Karp, "A
 * characterization of the minimum cycle mean in a digraph", 1978), of at most
 * four forwards: exact in twelfths of the unit of time.
 *
 * What is best of what. Up to SWAP_EXACT operators every choice is tried: the
 * stall is the least there is. Beyond, it is the least of a fixed pool, and
 * nobody promises more: evenly spread temporaries, the walk of the paper and
 * the cheapest copies, for every quarter of an operator's bytes that are to
 * stay away, each improved by exchanges, and all that more residents make of
 * them. (Held against every choice of 8 to 14 operators it had the least of 600
 * draws of operators alike, and of 566 of 600 of all sizes; the others'
 * forwards took up to a ninth longer.) The pool does not depend on the room,
 * which only says what of it fits. So in both cases the stall never grows with
 * the room, and it is never above that of mapping on demand, which waits for
 * all that it brings.
 *
 * Pure: no state, any thread.
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
	uint64_t run, copy; /* times; the sum of all is below 2^54 */
};

struct swap_room {
	uint64_t bytes;   /* of the window, for weights and staging slots */
	uint64_t mapping; /* a mapping's bytes, at most; each operator fits */
	uint64_t page;    /* a power of two: a mapping takes whole ones, and one
			   * more as a guard */
	uint32_t slots;   /* mappings, at most */
};

/* Where an operator's weights lie. */
struct swap_place {
	bool temporary;
	uint32_t mapping; /* of a resident one */
	uint64_t at;      /* its bytes begin there */
};

struct swap_plan {
	struct swap_place *place; /* [n], the caller's */
	/* Bytes of a staging slot: the largest temporary operator's; 0: all are
	 * resident and there are none. */
	uint64_t slot;
	uint32_t temporary; /* operators */
	uint32_t mappings;
	uint64_t resident_bytes, copied_bytes;
	uint64_t stall; /* of a forward, in twelfths of the unit of time */
};

/*
 * The largest operator sets the size of the slots. 0; -ENOSPC when not even two
 * slots fit, or -ENOMEM. Bytes of operators are to be multiples of what their
 * places are aligned to.
 */
int swap_plan(struct swap_plan *, const struct swap_op *, uint32_t n,
	const struct swap_room *, struct err *);

/* The stall when the operators of temporary[n] are, as in struct swap_plan. */
uint64_t swap_stall(const struct swap_op *, uint32_t n, const bool *temporary);

#endif
