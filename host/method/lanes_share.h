/*
 * How several lanes (sequences of a batch) share the rows of a pass for their
 * drafted tokens, and when lanes decode without drafts. lanes_share.c explains
 * the rules. Part of struct lanes (host/method/lanes.h). All calls come from
 * one thread.
 */
#ifndef HOST_METHOD_LANES_SHARE_H
#define HOST_METHOD_LANES_SHARE_H

#include "host/tree/pass_cost.h"

#include <stdint.h>

struct lanes;
struct merit;

struct lanes_share {
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
int lanes_share_open(struct lanes_share *, const struct lanes *);

/* Number of drafted rows that this pass has room for; 0 means that the pass
 * runs without drafts. Call it once per pass. */
uint32_t lanes_share_room(struct lanes_share *, const struct lanes *);
/*
 * Cut the trees of the planned pass to the rows that gain more than they cost.
 */
void lanes_share_rows(struct lanes_share *, struct lanes *);
/* Update the cost model and the averages of accepted tokens with the results of
 * the finished pass. */
void lanes_share_learn(struct lanes_share *, const struct lanes *);

#endif
