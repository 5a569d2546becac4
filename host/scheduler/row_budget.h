/*
 * The number of rows of a pass that each lane (a sequence of the batch) gets
 * for its drafted tokens, and the passes in which no lane drafts. row_budget.c
 * explains the rules. struct row_budget is part of struct scheduler
 * (host/scheduler/scheduler.h). All calls come from one thread.
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
	 * Number of drafted tokens that are accepted in a pass: `expected` is
	 * the moving average of the predictions, `accepted` the moving average
	 * of the counts, and `predicted` the prediction for the current pass.
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
 * runs without drafts. Must be called once per pass. */
uint32_t row_budget_room(struct row_budget *, const struct scheduler *);
/* Remove the nodes that cost more than they gain from the trees of the planned
 * pass. */
void row_budget_cut(struct row_budget *, struct scheduler *);
/* Update the cost model and the averages of accepted tokens with the results of
 * the finished pass. */
void row_budget_learn(struct row_budget *, const struct scheduler *);

#endif
