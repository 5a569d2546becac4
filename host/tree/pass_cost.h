/*
 * Cost model of a cycle of drafting and verification (equation 4 of Lever), by
 * its parts. Flash storage reads the layers that are not in memory, the host
 * drafts, and the device computes. The time L of a cycle includes the time for
 * which these three wait for each other:
 *
 * L = W + max(R + max(0, g + b C(n) - A), g + C(n)),  g = w G + d
 *
 * R     time to read the layers of a pass from flash
 * A     time for which flash goes on reading layers after the end of the
 *       previous pass; after this time all slots (memory for streamed layers)
 *       are full, and flash is idle until the first slot is free
 * C(n)  time of the device to compute n rows
 * b     share of the layers before the first layer that is read from flash
 * G     tokens that the cycle emits
 * w     time to compute the logits of a token and to draw the token
 * d     time in which the host drafts: 0 if nothing is drafted; otherwise B to
 *       begin the tree (which expands the root) plus D(k) for each further
 *       expansion, of k nodes at once
 * W     all other time, such as for mapping weights
 *
 * Each part is measured by itself, without waits for other parts. The caller
 * chooses the unit (nanoseconds, or picoseconds of a phone) and uses it
 * throughout.
 */
#ifndef HOST_TREE_PASS_COST_H
#define HOST_TREE_PASS_COST_H

#include <stdbool.h>
#include <stdint.h>

#define PASS_KNOTS 9
/* maximum number of row counts for which C, the time of the rows, is stored */
#define PASS_ROWS 20
/* number of observations over which moving averages extend */
#define PASS_MEMORY 10
/* D, the time of an expansion, is stored for 1, 2, 4 and 8 nodes */
#define PASS_LOOKS 4
/* A value that was known before the first request counts as much as this many
 * observations. */
#define PASS_BEFORE 2

/* Numbers of rows for which C, the time of the rows, is learned from
 * observations: ascending, beginning with 1. */
extern const uint32_t pass_knot[PASS_KNOTS];

struct pass_cost {
	/* terms of the formula at the top of this file: R (time to read the
	 * streamed layers), A (time for which flash reads ahead, for the
	 * current cycle) and b (share of the layers before the first streamed
	 * layer) */
	double read, ahead, before;
	/* w, time per emitted token; B, time to begin a tree */
	double token, begin;
	/* D(1), D(2), D(4), D(8): times to expand so many nodes at once */
	double look[PASS_LOOKS];
	double other; /* W, all other time */
	/* time to choose the rows that continue after the exit layer, the layer
	 * at which rows can be dropped (prune.h) */
	double exit;
	double kept; /* share of the rows that continue after the exit layer */
	/* share of the expected accepted tokens that is lost because rows are
	 * dropped after the exit layer */
	double lost;
	/* Numbers of observations of the averages above, each counted up to
	 * PASS_MEMORY. */
	uint32_t n_token, n_begin, n_look[PASS_LOOKS], n_other;
	uint32_t n_exit, n_kept, n_lost;
	/* C, the time of a pass's rows: row[i] rows take time[i]; for numbers
	 * of rows between these, C is interpolated linearly. n_rows 0 means
	 * that C is unknown. */
	uint32_t n_rows;
	uint32_t row[PASS_ROWS];
	double time[PASS_ROWS];
	uint32_t n_seen; /* number of passes observed since time[] was set */
	/* How much the times varied in the measurement before the first
	 * request: the geometric mean, over the row counts that were measured
	 * twice, of the ratio of the longer to the shorter time. 0 if no row
	 * count was measured twice. */
	double spread;
};

/* Update *mean, the moving average of a term, with the observation x >= 0. *n
 * is the number of observations. */
void pass_cost_see(double *mean, uint32_t *n, double x);

/* Record the time of expanding `nodes` nodes at once (D). Does nothing if D is
 * not stored for this number of nodes. */
void pass_cost_saw_look(struct pass_cost *, uint32_t nodes, double time);

/*
 * Returns the largest number of nodes, at most `most` (>= 1), for which D, the
 * time to expand them at once, is stored, and sets *time to this D. If D was
 * not observed for this number, *time is the D of the next smaller observed
 * number, or 0 if no smaller number was observed.
 */
uint32_t pass_cost_look(const struct pass_cost *, uint32_t most, double *time);

/* Initialise C, the time of a pass as a function of its rows, from a first
 * observation: a pass of n rows took `time`. */
void pass_cost_begin(struct pass_cost *, double n, double time);

/* Set C, the time of a pass as a function of its rows: C(row[i]) = time[i] for
 * n <= PASS_ROWS ascending row counts. If these times decrease anywhere,
 * replace them by the nearest non-decreasing times. */
void pass_cost_set(struct pass_cost *, const uint32_t *row, const double *time,
	uint32_t n);

/* Give the values of w, B, D and W the weight of at most PASS_BEFORE
 * observations: they were measured before the first request, possibly on a busy
 * machine, so new observations must soon outweigh them. */
void pass_cost_remembered(struct pass_cost *);

/*
 * Record a pass that took `time`: the share `lower` of the layers computed n
 * rows, and the other layers computed only `kept` of these rows. The first
 * passes scale all values of C (the time of n rows), because the machine's
 * speed may have changed since C was set. The old C has the weight of one
 * observation. Later passes correct the values near n and near `kept`, each in
 * proportion to its weight in the interpolation (least mean squares), and C is
 * kept non-decreasing (isotonic regression).
 */
void pass_cost_saw_rows(struct pass_cost *, uint32_t n, uint32_t kept,
	double lower, double time);

static inline bool pass_cost_is_known(const struct pass_cost *c)
{
	return c->n_rows > 0;
}

/* Returns C(n), the time of a pass of n rows, or 0 if it is unknown. */
double pass_cost_rows(const struct pass_cost *, double n);

/* Returns L, the time of a cycle that emits `tokens` tokens, spends the time
 * `drafting` on drafting, and `rows_time` on computing rows. */
double pass_cost_cycle(const struct pass_cost *, double tokens, double drafting,
	double rows_time);

/* Update W, the part of a cycle's time that no other term explains. The cycle
 * took `time`; the host spent `gap` of it before the pass, and the rows took
 * `rows_time`. */
void pass_cost_saw_cycle(
	struct pass_cost *, double gap, double rows_time, double time);

#endif
