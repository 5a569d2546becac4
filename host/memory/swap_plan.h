/*
 * A plan for weights that do not fit into the device's window. The plan makes
 * each operator (here, a block of layers) either resident or temporary.
 * Operators run in the same order in every forward pass. Resident operators are
 * packed into few large mappings, in the order of use. Temporary operators are
 * copied into two staging slots, each before it runs: while the device reads
 * one slot, the other slot is filled. The scheme follows llada.cpp, section 3.4
 * ("graph-guided buffer mapping", "pipeline-based data transfer").
 *
 * Model of time. One copy runs at a time, in the order of use, also across the
 * end of a pass. A copy begins when the previous copy has ended and its slot is
 * free. The two slots alternate, so the slot for the i-th temporary operator is
 * free when the temporary operator i - 2 ends. An operator begins when the
 * previous operator has ended and its own weights are in place. The stall of a
 * plan is the duration of a forward pass minus the sum of the run times of all
 * operators, averaged over many passes. These times form a linear system of the
 * max-plus algebra (sums become maxima, products become sums) with a state of
 * four instants, so the average is the largest cycle mean of the system (Karp,
 * "A characterization of the minimum cycle mean in a digraph", 1978). A cycle
 * leads from an instant back to the same instant, in up to four passes, so the
 * mean is exact in twelfths of the unit of time (12 is a multiple of 1, 2, 3
 * and 4).
 *
 * Quality. For up to SWAP_EXACT operators, every choice of temporary operators
 * is tried and the stall is the minimum. For more operators, the stall is the
 * minimum over a fixed pool of choices, which may miss the optimum.
 *
 * The pool is built as follows. For each amount of temporary bytes, in steps of
 * a quarter of the average size of an operator, there are two choices: the
 * paper's choice (walk in swap_plan.c), and the operators with the cheapest
 * copies. For each number of temporary operators there is one more choice, in
 * which they are evenly spread. Each choice is improved by exchanges of a
 * temporary and a resident operator. Then its temporary operators are made
 * resident one by one, and each of these steps adds a choice to the pool. (For
 * 8 to 14 operators, all choices can be tried as well. The pool contained the
 * minimum for 600 of 600 random sets of equal operators, and for 566 of 600
 * sets of mixed sizes; in the other sets a forward pass took up to a ninth
 * longer than with the minimum.)
 *
 * The pool does not depend on the size of the window, which only determines
 * which choices fit. So, for any number of operators, a larger window never
 * increases the stall. The stall is also never larger than with mapping on
 * demand, which waits for each block that it maps.
 *
 * The functions have no state; any thread may call them.
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
	/* run: how long the operator runs. copy: how long copying its weights
	 * takes. The sum over all operators is below 2^54. */
	uint64_t run, copy;
};

struct swap_room {
	/* bytes of the device's window for weights and staging slots */
	uint64_t bytes;
	/* maximum bytes of a mapping; no operator may be larger */
	uint64_t mapping;
	/* page size, a power of two. A mapping takes whole pages and one more
	 * page as a guard. */
	uint64_t page;
	uint32_t slots; /* maximum number of mappings */
};

/* Where an operator's weights are. */
struct swap_place {
	bool temporary;
	/* For a resident operator. mapping: index of the mapping in the
	 * device's window that holds the operator's weights. at: offset of the
	 * weights in this mapping. */
	uint32_t mapping;
	uint64_t at;
};

struct swap_plan {
	/* place of each operator; owned by the caller */
	struct swap_place *place;
	/* Bytes of a staging slot, as many as the largest operator has. If all
	 * operators are resident, there are no slots, and this is 0. */
	uint64_t slot;
	uint32_t temporary; /* number of temporary operators */
	uint32_t mappings;
	uint64_t resident_bytes, copied_bytes;
	/* average time per forward pass for which operators wait for copies, in
	 * twelfths of the unit of time */
	uint64_t stall;
};

/*
 * Make a plan. A staging slot is as large as the largest operator, resident or
 * not. The bytes of each operator must be a multiple of the alignment that its
 * weights need. Returns 0, or -ENOSPC if two slots do not fit, or -ENOMEM.
 */
int swap_plan(struct swap_plan *, const struct swap_op *, uint32_t n,
	const struct swap_room *, struct err *);

/* The stall if operator i is temporary for each i with temporary[i] true, in
 * twelfths of the unit of time, as in struct swap_plan. */
uint64_t swap_stall(const struct swap_op *, uint32_t n, const bool *temporary);

#endif
