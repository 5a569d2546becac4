/*
 * How several lanes (sequences of a batch) share the rows of a pass for their
 * drafted tokens, and when lanes decode without drafts. row_budget.c explains
 * the rules. Part of struct scheduler (host/scheduler/scheduler.h). All calls
 * come from one thread.
 */
#ifndef HOST_SCHEDULER_ROW_BUDGET_H
#define HOST_SCHEDULER_ROW_BUDGET_H

#include "host/tree/pass_cost.h"

#include <stdint.h>

struct scheduler;
struct merit;

struct row_budget {
	/* Time of a pass as a function of its rows: in picoseconds if a phone
	 * is simulated, otherwise in nanoseconds. */
	struct pass_cost cost;
	/*
	 * Number of drafted tokens that a pass accepts: moving average of the
	 * predicted numbers, moving average of the counted numbers, and the
	 * predicted number for the current pass.
	 */
	double expected, accepted, predicted;
	uint32_t base; /* rows of this pass that are not drafted */
	/* passes without drafts: number left in the current suspension, and
	 * length of the last suspension */
	uint32_t rest, last_rest;
	struct merit *merit; /* [width * lane_rows] memory for choosing rows */
};

/* Returns 0, or -1 if there is no memory. The caller frees `merit` in both
 * cases. */
int row_budget_open(struct row_budget *, const struct scheduler *);

/* Number of drafted rows that this pass has room for; 0 means that the pass
 * runs without drafts. Call it once per pass. */
uint32_t row_budget_room(struct row_budget *, const struct scheduler *);
/*
 * Cut the trees of the planned pass to the rows that gain more than they cost.
 */
void row_budget_cut(struct row_budget *, struct scheduler *);
/* Update the cost model and the averages of accepted tokens with the results of
 * the finished pass. */
void row_budget_learn(struct row_budget *, const struct scheduler *);

#endif
