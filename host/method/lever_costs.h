/*
 * The cost model of a lever cycle, by the terms of host/tree/pass_cost.h, and
 * where each term comes from: on a phone it is computed from the phone's
 * profile; on another machine it is measured in the cycles of requests or,
 * before the first request, in those of a probe. The cycles belong to an env
 * that is open for lever, whose state holds the costs. One thread.
 */
#ifndef HOST_METHOD_LEVER_COSTS_H
#define HOST_METHOD_LEVER_COSTS_H

#include <stdint.h>

struct cycle;
struct err;
struct method_env;
struct session;

/* Share of the layers that come before the exit. */
double lever_lower_share(const struct cycle *);

/* Set the terms that are known before a tree is drafted. */
void lever_update_costs(struct cycle *);

/* Update all terms but the time of rows from the finished cycle. */
void lever_observe_costs(const struct cycle *);

/*
 * Measure the cost terms before the first request: generate from a meaningless
 * prompt for a few cycles, with trees from one row to the largest, and with a
 * few nodes of each tree drafted. No cycle begins later than LEVER_PROBE_S,
 * except for the first two, without which nothing would be known. Without a
 * draft model the cycles only run passes.
 *
 * For the wall clock only. SESSION_TEXT must be empty, and is empty afterwards;
 * the hash of logits and env's counters stay unchanged too. Fails as the
 * session or the drafter fails.
 */
#define LEVER_PROBE_S 2
int lever_probe(struct session *, struct method_env *, struct err *);

#endif
