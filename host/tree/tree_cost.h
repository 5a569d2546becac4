/*
 * Costs of a cycle of drafting and verification, learned by tree shape, the
 * number of rows and leaves of a tree (Lever, "key quantity estimation"): a
 * moving average of the time to expand a node, and a table of verification
 * times by rows and leaves. The caller chooses the unit (nanoseconds, or
 * picoseconds of a phone) and uses it throughout.
 *
 * Estimates never decrease with rows or leaves: if an estimate is below the
 * estimate of a smaller shape, it is raised to that estimate. The estimate of
 * an observed shape is its average, or more if a smaller shape took more. The
 * estimate of a shape without observations is the largest known cost of a
 * smaller shape, plus a slope for each row and each leaf that this smaller
 * shape lacks, but no more than the cost of an observed larger shape. The two
 * slopes, per row and per leaf, are conservative: the upper quartile of the
 * slopes between observed shapes, plus a tenth.
 *
 * If only larger shapes are known, the estimate is made from the cheapest of
 * these shapes: the share `fixed` of its cost is assumed independent of rows,
 * and the rest proportional to rows. With fixed == 1, a program that began with
 * large trees never tries small trees, so it never learns their cost; with a
 * smaller `fixed` the program tries small trees. If neither smaller nor larger
 * shapes are known (a tree with more rows but fewer leaves is neither), the
 * estimate is the smaller of two sums: the estimate for one row less plus the
 * slope per row, and the estimate for one leaf less plus the slope per leaf.
 * Until two row counts are observed, the slope per row is 0.
 */
#ifndef HOST_TREE_TREE_COST_H
#define HOST_TREE_TREE_COST_H

#include <stdint.h>

/* maximum number of rows and leaves; larger trees count as trees of this
 * size */
#define COST_ROWS   128
#define COST_LEAVES 64

struct cost_cell {
	double mean; /* moving average of the observed verification times */
	double estimate;
	/* largest mean of this and all smaller observed tree shapes */
	double most;
	uint32_t n; /* number of observations */
	/* The observed tree shape to whose cost the slopes are added for this
	 * shape: this shape itself or a smaller one; rows is 0 if none of them
	 * was observed. */
	uint16_t rows, leaves;
	/* number of rows of the cheapest larger observed shape */
	uint16_t above;
};

/* The struct takes about 320 KiB. Each recorded verification iterates over the
 * whole table. */
struct cost {
	double draft; /* average time to expand a node */
	uint32_t n_draft;
	double row_slope, leaf_slope;
	/* share of a verification's cost that is assumed independent of rows, 0
	 * to 1 */
	double fixed;
	/* [rows - 1][leaves - 1] verification times by tree shape */
	struct cost_cell verify[COST_ROWS][COST_LEAVES];
};

void cost_init(struct cost *, double fixed);

/* Record the time of expanding `nodes` nodes, time >= 0. */
void cost_saw_draft(struct cost *, uint32_t nodes, double time);
/* Record the time of verifying a tree with `rows` rows and `leaves` leaves,
 * both >= 1. */
void cost_saw_verify(
	struct cost *, uint32_t rows, uint32_t leaves, double time);

double cost_draft(const struct cost *); /* 0 without observations */
/* Estimated time to verify a tree; 0 before any observation. */
double cost_verify(const struct cost *, uint32_t rows, uint32_t leaves);

#endif
