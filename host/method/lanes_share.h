/*
 * How the drafts of several lanes share the rows of a pass, and when lanes do
 * without drafts: the rules are in lanes_share.c. Part of struct lanes
 * (host/method/lanes.h). One thread.
 */
#ifndef HOST_METHOD_LANES_SHARE_H
#define HOST_METHOD_LANES_SHARE_H

#include "host/tree/pass_cost.h"

#include <stdbool.h>
#include <stdint.h>

struct lanes;
struct merit;

struct lanes_share {
	/* Of a pass, by its rows: of a phone picoseconds, else nanoseconds. */
	struct pass_cost cost;
	/* Tokens that drafts gave a pass, as the draft expected and as it came,
	 * moving averages; and what is expected of this pass. */
	double expected, accepted, hoped;
	uint32_t base;            /* rows of this pass without drafts */
	uint32_t rest, last_rest; /* passes to go without drafts */
	struct merit *merit;      /* [width * lane_rows] */
};

/* -1 without memory; to be closed in any case. */
int lanes_share_open(struct lanes_share *, const struct lanes *);
void lanes_share_close(struct lanes_share *);

/* Drafted rows that this pass has place for; 0: lanes do without drafts. Called
 * once a pass. */
uint32_t lanes_share_room(struct lanes_share *, const struct lanes *);
/* Cut the trees of the pass that is planned to the rows that are worth it. */
void lanes_share_rows(struct lanes_share *, struct lanes *);
/* Learn from the pass that is over. */
void lanes_share_saw(struct lanes_share *, const struct lanes *);

#endif
