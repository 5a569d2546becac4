/*
 * The picks of one run of an expert graph: which experts each row (token) uses,
 * chosen by the host. Like the rows in rowset.h, the picks are copied from
 * shared memory once, then checked, then used.
 *
 * A run computes the experts' outputs for some picks of each row; other runs of
 * the layer compute the outputs for the other picks. Each output of an expert
 * for one row is stored in a slot. Slots are numbered in the order of
 * computation over all runs of the layer, so the slots of one expert are
 * contiguous. A table keeps the slot of each pick until the outputs are added.
 */
#ifndef DEVICE_PICKS_H
#define DEVICE_PICKS_H

#include "ipc/wire.h"

#include <stdint.h>

struct err;
struct graph;

/* The state of a pick (a row's choice of an expert) over all runs of the
 * layer. */
struct pick_made {
	/* slot of the expert's output for the row; UINT32_MAX: not computed yet
	 */
	uint32_t slot;
	float weight;
};

struct picks {
	unsigned experts; /* number of experts that this run computes */
	/* The rows that picked expert i, ascending, are row[first[i]] to
	 * row[first[i + 1] - 1]. Their outputs go to the slots from `slot` +
	 * first[i] on. */
	uint32_t *first, *row;
	uint32_t slot;
	struct pick_made *made; /* [rows][n_used] */
};

/* The number of bytes that the reference WIRE_REF_ROWS of this run must have at
 * least. */
uint64_t picks_bytes(const struct wire_graph_run *, const struct graph *);

/*
 * Copy picks_bytes() bytes from `from` to `arena`, at the offsets that the
 * graph's layout gives, and check the copy: each pick names an expert of the
 * run or is WIRE_PICK_ELSEWHERE, no row picks an expert twice, weights are
 * finite, no pick is computed twice, and after the last run of the layer every
 * pick has been computed. *slots is the number of slots that earlier runs of
 * the layer have taken; the function adds the number of this run's slots.
 */
int picks_take(struct picks *, const struct wire_graph_run *,
	const struct graph *, unsigned experts, void *arena, const void *from,
	uint32_t *slots, struct err *);

#endif
