/*
 * Costs of a cycle of drafting and verifying, learnt by tree shape (Lever, "key
 * quantity estimation"): a moving average of the time to expand a node, and a
 * table of verification times by rows and leaves. Units are the caller's
 * (nanoseconds, picoseconds of a phone), the same throughout.
 *
 * Estimates never decrease with rows or leaves; where the rules below would
 * make them, they are raised. An observed shape costs its average, or more if a
 * smaller one took more. A shape without observations costs the most known of
 * smaller ones plus a conservative slope (an upper quartile of the table's
 * slopes, plus a tenth), but no more than an observed larger one. If only
 * larger ones are known: the cheapest of them, of which the share `fixed` is
 * assumed independent of rows, and the rest proportional to rows. With `fixed`
 * 1 a run that began with large trees never learns the cost of small ones; with
 * less it tries them. If neither are known (more rows on fewer leaves): a slope
 * from the smaller neighbours' costs. Before two row counts are observed there
 * is no slope.
 */
#ifndef HOST_TREE_TREE_COST_H
#define HOST_TREE_TREE_COST_H

#include <stdint.h>

#define COST_ROWS   128 /* larger shapes count as this one */
#define COST_LEAVES 64

struct cost_cell {
	double mean; /* moving */
	double estimate;
	double most; /* of the smaller observed shapes, and of this one */
	uint32_t n;  /* number of observations */
	/* The shape where the slope to here begins; rows 0: no smaller one. */
	uint16_t rows, leaves;
	uint16_t above; /* rows of the cheapest larger observed shape */
};

/* About 300 KiB; each observation of a verification costs a pass over it. */
struct cost {
	double draft; /* of expanding a node */
	uint32_t n_draft;
	double row_slope, leaf_slope;
	double fixed; /* 0 to 1 */
	/* [rows - 1][leaves - 1] */
	struct cost_cell verify[COST_ROWS][COST_LEAVES];
};

void cost_init(struct cost *, double fixed);

/* Record the time of expanding `nodes` nodes; time >= 0. */
void cost_saw_draft(struct cost *, uint32_t nodes, double time);
/* Record the time of verifying a tree of that shape, both >= 1. */
void cost_saw_verify(
	struct cost *, uint32_t rows, uint32_t leaves, double time);

double cost_draft(const struct cost *); /* 0 without observations */
/* 0 without observations. */
double cost_verify(const struct cost *, uint32_t rows, uint32_t leaves);

#endif
