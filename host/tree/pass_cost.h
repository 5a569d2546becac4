/*
 * What a cycle of drafting and verifying takes (equation 4 of Lever), by what
 * it is made of. Flash reads the layers that are not in memory, the host
 * drafts, the device computes, and they wait for one another where they must:
 *
 *   L = max(R + max(0, g + b C(n) - A), g + C(n)),  g = S + d
 *
 *   R     flash reads the layers of a pass
 *   A     of that what it still reads ahead when the last pass has ended;
 *         then all slots are full, and it stands still until the first is free
 *   C(n)  the device computes n rows; b is the share of the layers that come
 *         before the first from flash
 *   S, d  between passes the host draws tokens and begins a tree, and looks
 *         behind nodes of it: behind one at a time or several at once, which
 *         takes D(k) for k of them
 *
 * Each is seen by itself, so none is charged for what another was waited for.
 * Units are the caller's (nanoseconds, picoseconds of a phone), the same
 * throughout.
 */
#ifndef HOST_TREE_PASS_COST_H
#define HOST_TREE_PASS_COST_H

#include <stdbool.h>
#include <stdint.h>

#define PASS_KNOTS  9
#define PASS_ROWS   20 /* row counts that C can be held at */
#define PASS_MEMORY 10 /* observations that a moving average remembers */
#define PASS_LOOKS  4  /* D is held at 1, 2, 4 and 8 nodes */
/* What was known before the first text weighs as much as so many. */
#define PASS_BEFORE 2

/* Rows at which C is held where it is seen, rising from 1. */
extern const uint32_t pass_knot[PASS_KNOTS];

struct pass_cost {
	double read, ahead, before; /* R, A of this cycle, b */
	double start;               /* S */
	double look[PASS_LOOKS];    /* D */
	double exit;                /* choosing rows behind the exit */
	double kept;                /* share of rows that such a choice kept */
	/* Observations of each, as far as a moving average remembers. */
	uint32_t n_start, n_look[PASS_LOOKS], n_exit, n_kept;
	/* C at n_rows row counts, between two by a straight line; none: nothing
	 * is known of it. */
	uint32_t n_rows;
	uint32_t row[PASS_ROWS];
	double time[PASS_ROWS];
	uint32_t n_told; /* passes that told of C since it was set */
};

/* A moving average more of one of the terms; x >= 0. */
void pass_cost_see(double *mean, uint32_t *n, double x);

/* Looking behind so many nodes at once took so long; of a number that D is not
 * held at nothing is learnt. */
void pass_cost_saw_look(struct pass_cost *, uint32_t nodes, double time);

/*
 * Behind the largest number of nodes, of those that D is held at, that is no
 * more than `most` >= 1: that number, and D of it. Of one that was never seen D
 * is that of the next smaller one, and so it will be; of none it is 0.
 */
uint32_t pass_cost_look(const struct pass_cost *, uint32_t most, double *time);

/* Nothing was known, and a pass of n rows took the device so long. */
void pass_cost_begin(struct pass_cost *, double n, double time);

/* C is this at row[0] < row[1] < ... [n <= PASS_ROWS], and does not fall. */
void pass_cost_set(struct pass_cost *, const uint32_t *row, const double *time,
	uint32_t n);

/* All that is known is from before the first text, and may have been found out
 * while others wanted the machine: texts soon outweigh it. */
void pass_cost_remembered(struct pass_cost *);

/*
 * A pass of n rows, of which `kept` went on behind the share `lower` of the
 * layers, took the device so long. The first passes tell whether the machine is
 * as fast as it was when C was set, and C moves as a whole; what was known is
 * one observation among theirs. Then what is known near n and near `kept` moves
 * towards that, each by what it had to do with it (least mean squares), and C
 * is kept from falling (isotonic regression).
 */
void pass_cost_saw_rows(struct pass_cost *, uint32_t n, uint32_t kept,
	double lower, double time);

static inline bool pass_cost_is_known(const struct pass_cost *c)
{
	return c->n_rows > 0;
}

/* C(n); 0 where nothing is known. */
double pass_cost_rows(const struct pass_cost *, double n);

/* L with d and C given. */
double pass_cost_cycle(
	const struct pass_cost *, double drafting, double rows_time);

#endif
