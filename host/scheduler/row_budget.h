/*
 * Decides how many rows of a pass each lane (a sequence of the batch) gets for
 * its drafted tokens, and in which passes no lane drafts. row_budget.c explains
 * the rules. struct row_budget is part of struct scheduler
 * (host/scheduler/scheduler.h). All calls come from one thread.
 */
#ifndef HOST_SCHEDULER_ROW_BUDGET_H
#define HOST_SCHEDULER_ROW_BUDGET_H

#include "host/tree/pass_cost.h"

#include <stdint.h>

struct scheduler;
struct merit;

struct row_budget {
	/* Time of a pass as a function of its number of rows: in picoseconds if
	 * a phone is simulated, otherwise in nanoseconds. */
	struct pass_cost cost;
	/*
	 * Numbers of drafted tokens that are accepted in a pass: `predicted` is
	 * the prediction for the current pass, `expected` the moving average of
	 * the predictions, and `accepted` the moving average of the accepted
	 * tokens.
	 */
	double expected, accepted, predicted;
	/* number of rows of the current pass that are not for drafted tokens */
	uint32_t base;
	/* suspension of drafting. rest: number of passes that are left of the
	 * current suspension. last_rest: length in passes of the latest
	 * suspension, which may be the current one; 0 after a pass in which
	 * drafting was worth its cost */
	uint32_t rest, last_rest;
	/* [width * lane_rows] scratch memory for choosing the rows */
	struct merit *merit;
};

/* Initialize the row budget. Returns 0, or -1 if there is no memory. The caller
 * frees `merit` in both cases. */
int row_budget_open(struct row_budget *, const struct scheduler *);

/* Number of drafted rows for which this pass has room; 0 means that no lane
 * drafts in this pass. Must be called once per pass. */
uint32_t row_budget_room(struct row_budget *, const struct scheduler *);
/* From the trees of the planned pass, remove the nodes whose rows cost more
 * than they are expected to gain. */
void row_budget_cut(struct row_budget *, struct scheduler *);
/* Update the cost model and the averages of accepted tokens with the results of
 * the finished pass. */
void row_budget_learn(struct row_budget *, const struct scheduler *);

#endif
