/* How the drafts of several lanes share the rows of a pass, and when lanes
 * decode without drafts (the rules: lanes_share.c). Part of struct lanes
 * (host/method/lanes.h). One thread. */
#ifndef HOST_METHOD_LANES_SHARE_H
#define HOST_METHOD_LANES_SHARE_H

#include "host/tree/pass_cost.h"

#include <stdbool.h>
#include <stdint.h>

struct lanes;
struct merit;

struct lanes_share {
	/* Time of a pass by its rows: picoseconds on a phone, else
	 * nanoseconds. */
	struct pass_cost cost;
	/* Accepted drafted tokens of a pass, as predicted by the drafts and as
	 * counted (moving averages), and the prediction for this pass. */
	double expected, accepted, predicted;
	uint32_t base; /* rows of this pass without drafts */
	/* passes without drafts: still to come; of the last rest */
	uint32_t rest, last_rest;
	struct merit *merit; /* [width * lane_rows] */
};

/* -1: no memory. The caller frees `merit` in any case. */
int lanes_share_open(struct lanes_share *, const struct lanes *);

/* How many drafted rows this pass has room for; 0: it runs without drafts.
 * Called once for each pass. */
uint32_t lanes_share_room(struct lanes_share *, const struct lanes *);
/* Cut the trees of the planned pass to the rows that are worth their time. */
void lanes_share_rows(struct lanes_share *, struct lanes *);
/* Learn from the finished pass. */
void lanes_share_learn(struct lanes_share *, const struct lanes *);

#endif
