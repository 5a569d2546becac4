#include "host/tree/tree_cost.h"

#include "host/tree/pass_cost.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* factor by which an estimated cost per row or leaf is raised */
#define MARGIN 1.1

void cost_init(struct cost *c, double fixed)
{
	memset(c, 0, sizeof(*c));
	c->fixed = fixed;
}

void cost_saw_draft(struct cost *c, uint32_t nodes, double time)
{
	if (nodes)
		pass_cost_see(&c->draft, &c->n_draft, time / nodes);
}

double cost_draft(const struct cost *c)
{
	return c->draft;
}

/* ---- slopes -------------------------------------------------------------- */

struct slopes {
	uint32_t n;
	/* Slopes, costs per additional row or leaf, are measured along lines. A
	 * line consists of tree shapes with the same number of leaves, or with
	 * the same number of rows. `at` and `mean` are the previous point on
	 * the current line. */
	uint32_t at; /* number of rows or leaves; 0 before the first point */
	double mean;
	float slope[COST_ROWS * COST_LEAVES];
};

static void slope_to(struct slopes *s, uint32_t at, double mean)
{
	if (s->at)
		s->slope[s->n++] =
			(float)fmax((mean - s->mean) / (at - s->at), 0);
	s->at = at;
	s->mean = mean;
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Upper quartile of the slopes, raised by a margin. */
static double conservative(struct slopes *s)
{
	if (!s->n)
		return 0;
	qsort(s->slope, s->n, sizeof(*s->slope), by_value);
	return MARGIN * (double)s->slope[3 * s->n / 4];
}

static double leaf_slope(const struct cost *c)
{
	struct slopes s;

	s.n = 0;
	for (uint32_t i = 0; i < COST_ROWS; i++) {
		s.at = 0;
		for (uint32_t j = 0; j < COST_LEAVES; j++)
			if (c->verify[i][j].n)
				slope_to(&s, j + 1, c->verify[i][j].mean);
	}
	return conservative(&s);
}

/*
 * Cost per additional row, measured between tree shapes with the same number of
 * leaves. If no two observed shapes have the same number of leaves, the cost is
 * measured between the most expensive shapes of each row count, although part
 * of the difference is then due to leaves.
 */
static double row_slope(const struct cost *c)
{
	struct slopes s;

	s.n = 0;
	for (uint32_t j = 0; j < COST_LEAVES; j++) {
		s.at = 0;
		for (uint32_t i = 0; i < COST_ROWS; i++)
			if (c->verify[i][j].n)
				slope_to(&s, i + 1, c->verify[i][j].mean);
	}
	s.at = 0;
	for (uint32_t i = 0, known = s.n; !known && i < COST_ROWS; i++) {
		double most = -1;

		for (uint32_t j = 0; j < COST_LEAVES; j++)
			if (c->verify[i][j].n)
				most = fmax(most, c->verify[i][j].mean);
		if (most >= 0)
			slope_to(&s, i + 1, most);
	}
	return conservative(&s);
}

/* ---- the table ----------------------------------------------------------- */

/* Set members of a table cell. most: the largest observed cost of this shape
 * and of all shapes that are not larger in rows or leaves. rows, leaves: the
 * shape from which slopes to this shape are measured, which is this shape if it
 * was observed, otherwise the smaller shape with the cost `most`. Call this
 * function for smaller shapes first. */
static void find_smaller(struct cost *c, uint32_t i, uint32_t j)
{
	const struct cost_cell *a = i ? &c->verify[i - 1][j] : NULL;
	const struct cost_cell *b = j ? &c->verify[i][j - 1] : NULL;
	struct cost_cell *cell = &c->verify[i][j];

	/* Of the two next smaller shapes, choose the one with the larger known
	 * cost; NULL if no smaller shape is known. */
	if (!a || !a->rows || (b && b->rows && b->most > a->most))
		a = b && b->rows ? b : NULL;
	cell->most = a ? a->most : 0;
	cell->rows = a ? a->rows : 0;
	cell->leaves = a ? a->leaves : 0;
	if (cell->n) {
		cell->most = fmax(cell->most, cell->mean);
		cell->rows = (uint16_t)(i + 1);
		cell->leaves = (uint16_t)(j + 1);
	}
}

static void least_of(struct cost_cell *cell, const struct cost_cell *larger)
{
	if (larger->estimate >= cell->estimate)
		return;
	cell->estimate = larger->estimate;
	cell->above = larger->above;
}

/* Set the estimate to the smallest value of `most` among this and all larger
 * tree shapes that were observed; infinity if there are none. Call this
 * function for larger shapes first. */
static void find_larger(struct cost *c, uint32_t i, uint32_t j)
{
	struct cost_cell *cell = &c->verify[i][j];

	cell->estimate = cell->n ? cell->most : INFINITY;
	cell->above = (uint16_t)(i + 1);
	if (i + 1 < COST_ROWS)
		least_of(cell, &c->verify[i + 1][j]);
	if (j + 1 < COST_LEAVES)
		least_of(cell, &c->verify[i][j + 1]);
}

/*
 * Compute the final estimate from the estimate that find_larger has set. If
 * this or a smaller tree shape was observed: the largest observed cost plus the
 * cost of the additional rows and leaves, but at most find_larger's estimate.
 * If only larger shapes were observed: find_larger's estimate, scaled to the
 * smaller number of rows. If neither were: the lower of two sums, the estimate
 * for one row less plus the cost of a row, and the estimate for one leaf less
 * plus the cost of a leaf. The result is at least the estimates for one row
 * less and for one leaf less. Call this function for smaller shapes first.
 */
static void find_estimate(struct cost *c, uint32_t i, uint32_t j)
{
	struct cost_cell *cell = &c->verify[i][j];
	double fewer_rows = i ? c->verify[i - 1][j].estimate : 0;
	double fewer_leaves = j ? c->verify[i][j - 1].estimate : 0;
	double by_row = i ? fewer_rows + c->row_slope : INFINITY;
	double by_leaf = j ? fewer_leaves + c->leaf_slope : INFINITY;

	if (cell->rows)
		cell->estimate = fmin(cell->estimate,
			cell->most + c->row_slope * (i + 1 - cell->rows) +
				c->leaf_slope * (j + 1 - cell->leaves));
	else if (isinf(cell->estimate))
		cell->estimate = fmin(by_row, by_leaf);
	else
		cell->estimate *= c->fixed +
			(1 - c->fixed) * (double)(i + 1) / cell->above;
	cell->estimate = fmax(cell->estimate, fmax(fewer_rows, fewer_leaves));
}

static uint32_t within(uint32_t x, uint32_t most)
{
	assert(x >= 1);
	return (x < most ? x : most) - 1;
}

void cost_saw_verify(
	struct cost *c, uint32_t rows, uint32_t leaves, double time)
{
	struct cost_cell *cell = &c->verify[within(rows, COST_ROWS)]
					   [within(leaves, COST_LEAVES)];

	pass_cost_see(&cell->mean, &cell->n, time);
	c->row_slope = row_slope(c);
	c->leaf_slope = leaf_slope(c);
	for (uint32_t i = 0; i < COST_ROWS; i++)
		for (uint32_t j = 0; j < COST_LEAVES; j++)
			find_smaller(c, i, j);
	for (uint32_t i = COST_ROWS; i--;)
		for (uint32_t j = COST_LEAVES; j--;)
			find_larger(c, i, j);
	for (uint32_t i = 0; i < COST_ROWS; i++)
		for (uint32_t j = 0; j < COST_LEAVES; j++)
			find_estimate(c, i, j);
}

double cost_verify(const struct cost *c, uint32_t rows, uint32_t leaves)
{
	return c->verify[within(rows, COST_ROWS)][within(leaves, COST_LEAVES)]
		.estimate;
}
