/*
 * Cost model of a cycle of drafting and verifying (equation 4 of Lever), by its
 * parts. Flash reads the layers that are not in memory, the host drafts, the
 * device computes, and they wait for each other where they must:
 *
 *   L = max(R + max(0, g + b C(n) - A), g + C(n)),  g = S + d
 *
 *   R     time of flash to read the layers of a pass
 *   A     the part of it that is still being read ahead when the last pass
 *         has ended; then all slots are full, and flash is idle until the
 *         first is free
 *   C(n)  time of the device to compute n rows; b is the share of the layers
 *         before the first streamed one
 *   S, d  between passes the host samples tokens and begins a tree (S), and
 *         expands nodes of it (d): one at a time or several at once, which
 *         takes D(k) for k of them
 *
 * Each part is measured by itself, without the time that others wait for it.
 * Units are the caller's (nanoseconds, picoseconds of a phone), the same
 * throughout.
 */
#ifndef HOST_TREE_PASS_COST_H
#define HOST_TREE_PASS_COST_H

#include <stdbool.h>
#include <stdint.h>

#define PASS_KNOTS  9
#define PASS_ROWS   20 /* row counts for which C can be stored */
#define PASS_MEMORY 10 /* observations that a moving average spans */
#define PASS_LOOKS  4  /* D is stored for 1, 2, 4 and 8 nodes */
/* Weight of what was known before the first text, in observations. */
#define PASS_BEFORE 2

/* Row counts for which C is learnt from observations, rising from 1. */
extern const uint32_t pass_knot[PASS_KNOTS];

struct pass_cost {
	double read, ahead, before; /* R, A of this cycle, b */
	double start;               /* S */
	double look[PASS_LOOKS];    /* D */
	double exit;                /* choosing rows after the exit */
	double kept;                /* share of rows that such a choice kept */
	/* Number of observations of each, as far as a moving average spans. */
	uint32_t n_start, n_look[PASS_LOOKS], n_exit, n_kept;
	/* C at n_rows row counts, linear in between; 0: unknown. */
	uint32_t n_rows;
	uint32_t row[PASS_ROWS];
	double time[PASS_ROWS];
	uint32_t n_seen; /* passes observed since C was set */
};

/* Update the moving average of a term; x >= 0. */
void pass_cost_see(double *mean, uint32_t *n, double x);

/* Record the time of expanding `nodes` nodes at once; ignored for numbers for
 * which D is not stored. */
void pass_cost_saw_look(struct pass_cost *, uint32_t nodes, double time);

/*
 * The largest number of nodes for which D is stored, up to `most` >= 1, and its
 * D. A number without observations has the D of the next smaller one; 0 if
 * there is none.
 */
uint32_t pass_cost_look(const struct pass_cost *, uint32_t most, double *time);

/* Set C from a first observation: a pass of n rows took `time`. */
void pass_cost_begin(struct pass_cost *, double n, double time);

/* Set C at row[0] < row[1] < ... [n <= PASS_ROWS]; made non-decreasing. */
void pass_cost_set(struct pass_cost *, const uint32_t *row, const double *time,
	uint32_t n);

/* Mark everything as known from before the first text, and possibly measured on
 * a busy machine: new observations soon outweigh it. */
void pass_cost_remembered(struct pass_cost *);

/*
 * Record a pass of n rows, of which `kept` continued after the share `lower` of
 * the layers. The first passes correct C as a whole, in case the machine's
 * speed has changed since C was set; the old C counts as one observation among
 * theirs. Later ones correct the values near n and near `kept`, each in
 * proportion to its weight (least mean squares), and C is kept non-decreasing
 * (isotonic regression).
 */
void pass_cost_saw_rows(struct pass_cost *, uint32_t n, uint32_t kept,
	double lower, double time);

static inline bool pass_cost_is_known(const struct pass_cost *c)
{
	return c->n_rows > 0;
}

/* C(n); 0 if unknown. */
double pass_cost_rows(const struct pass_cost *, double n);

/* L for given d and C. */
double pass_cost_cycle(
	const struct pass_cost *, double drafting, double rows_time);

#endif
