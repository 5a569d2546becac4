/*
 * The experts that rows pick, in one run of an expert's graph. The picks are
 * copied once, then checked, then used, as the rows in rowset.h are.
 *
 * The run computes some picks of each row, and other runs of the layer the
 * rest. Outputs go to slots, numbered in the order of computation over all runs
 * of the layer, so that those of one expert are contiguous. A table holds the
 * slot of each pick until the outputs are added.
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
	unsigned experts; /* of this run */
	/* The rows of expert i, ascending: row[first[i]] to
	 * row[first[i + 1] - 1]. Their outputs go to slots from `slot` +
	 * first[i] on. */
	uint32_t *first, *row;
	uint32_t slot;
	struct pick_made *made; /* [rows][n_used] */
};

/* Bytes of WIRE_REF_ROWS for this run, at least. */
uint64_t picks_bytes(const struct wire_graph_run *, const struct graph *);

/*
 * Copy picks_bytes() bytes at `from` to the graph's offsets in `arena` and
 * check the copy: experts are among the run's, no row picks one twice, weights
 * are finite, no pick is computed twice and, if it is the last run, none is
 * left out. *slots is the number of slots that earlier runs of the layer have
 * taken; this run's are added.
 */
int picks_take(struct picks *, const struct wire_graph_run *,
	const struct graph *, unsigned experts, void *arena, const void *from,
	uint32_t *slots, struct err *);

#endif
