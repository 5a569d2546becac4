/*
 * What a cycle of drafting and verifying costs, learnt while it happens (Lever,
 * "key quantity estimation"): a moving average of what the draft takes to
 * expand a node, and a table of what verification takes by its shape, which is
 * rows and leaves. Units are the caller's (nanoseconds, picoseconds of a
 * phone), the same throughout.
 *
 * The estimate never falls when rows or leaves rise; where the rules below
 * would let it, it stays. A shape that was seen costs what it took on average,
 * or more if a smaller one took more. One not seen yet costs the most that is
 * known of smaller ones and a conservative slope from there (an upper quartile
 * of the table's slopes and a tenth), but no more than a larger one that was
 * seen. Where only larger ones are known: the cheapest of them, of which the
 * share `fixed` is taken to come whatever the rows, and the rest by rows. With
 * 1 a cycle that began with large trees never learns what small ones cost; with
 * less it tries them. Where neither are (more rows on fewer leaves): a slope
 * from what the smaller neighbours cost. Until two row counts were seen there
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
	double most; /* of the smaller shapes seen, and of this one */
	uint32_t n;  /* seen so often */
	/* The shape from where a slope leads here; rows 0: no smaller one. */
	uint16_t rows, leaves;
	uint16_t above; /* rows of the cheapest larger shape seen */
};

/* Some 300 KiB; an observation of verification costs a walk through it. */
struct cost {
	double draft; /* of expanding a node */
	uint32_t n_draft;
	double row_slope, leaf_slope;
	double fixed; /* 0 to 1 */
	/* [rows - 1][leaves - 1] */
	struct cost_cell verify[COST_ROWS][COST_LEAVES];
};

void cost_init(struct cost *, double fixed);

/* An expansion of `nodes` nodes took so long; time >= 0. */
void cost_saw_draft(struct cost *, uint32_t nodes, double time);
/* A verification of a tree of that shape, both >= 1, took so long. */
void cost_saw_verify(
	struct cost *, uint32_t rows, uint32_t leaves, double time);

double cost_draft(const struct cost *); /* 0 before any was seen */
/* 0 before any was seen. */
double cost_verify(const struct cost *, uint32_t rows, uint32_t leaves);

#endif
