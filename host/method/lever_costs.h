/*
 * The cost model of the method lever, with the terms of host/tree/pass_cost.h.
 * On a simulated phone the terms are computed from the phone's profile. On
 * another machine they are measured, in the cycles (draft and verification) of
 * requests or, before the first request, in the cycles of a probe. The env of a
 * cycle must be open for lever; its state holds the costs. All calls come from
 * one thread.
 */
#ifndef HOST_METHOD_LEVER_COSTS_H
#define HOST_METHOD_LEVER_COSTS_H

struct cycle;
struct err;
struct method_env;
struct session;

/* Share of the model's layers that come before the exit predictor. */
double lever_lower_share(const struct cycle *);

/* Set the terms that are known before a tree is drafted. */
void lever_update_costs(struct cycle *);

/* Update the terms from a finished cycle, except C(n), the time of rows. */
void lever_observe_costs(const struct cycle *);

/*
 * Measure the cost terms before the first request. The probe generates text
 * from a meaningless prompt for a few cycles. Its trees have from one row to
 * the maximum, and a few nodes of each tree are drafted; without a draft model
 * none is. After LEVER_PROBE_S seconds no cycle begins, except that there are
 * always two cycles, the least from which C(n) can be estimated.
 *
 * Only for the wall clock, not for a simulated phone. SESSION_TEXT must be
 * empty, and is empty afterwards. The hash of logits and env's counters are
 * reset. Returns 0, or an error of the session or the drafter.
 */
#define LEVER_PROBE_S 2
int lever_probe(struct session *, struct method_env *, struct err *);

#endif
