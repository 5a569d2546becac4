/*
 * The experts that rows pick, in one run of an expert's graph. Like the rows in
 * rowset.h, the picks are copied once, then checked, then used.
 *
 * The run computes some picks of each row, and other runs of the layer the
 * rest. Each output of an expert for a row is stored in a slot. Slots are
 * numbered in the order of computation over all runs of the layer, so the slots
 * of one expert are contiguous. A table keeps the slot of each pick until the
 * outputs are added.
 */
#ifndef DEVICE_PICKS_H
#define DEVICE_PICKS_H

#include "ipc/wire.h"

#include <stdint.h>

struct err;
struct graph;

/* A pick that a run of the layer has computed. */
struct pick_made {
	uint32_t slot; /* UINT32_MAX: not yet computed */
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

/* The smallest number of bytes of WIRE_REF_ROWS for this run. */
uint64_t picks_bytes(const struct wire_graph_run *, const struct graph *);

/*
 * Copy picks_bytes() bytes at `from` to the graph's offsets in `arena` and
 * check the copy: experts are among the run's, no row picks one twice, weights
 * are finite, no pick is computed twice and, if it is the last run, none is
 * left out. *slots is the number of slots that earlier runs of the layer have
 * taken; the function adds the slots of this run.
 */
int picks_take(struct picks *, const struct wire_graph_run *,
	const struct graph *, unsigned experts, void *arena, const void *from,
	uint32_t *slots, struct err *);

#endif
