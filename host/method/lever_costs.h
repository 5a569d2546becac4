/*
 * The cost model of the method lever, with the terms of host/tree/pass_cost.h.
 * On a simulated phone the terms are computed from the phone's profile. Without
 * a simulated phone the terms are measured: in the cycles (draft and
 * verification) of requests and, before the first request, in the cycles of a
 * probe. The env->method of a cycle must be the method lever; the costs are in
 * env->state. All calls come from one thread.
 */
#ifndef HOST_METHOD_LEVER_COSTS_H
#define HOST_METHOD_LEVER_COSTS_H

struct cycle;
struct err;
struct method_env;
struct session;

/* Share of the model's layers that come before the exit predictor; 1 without an
 * exit predictor. */
double lever_lower_share(const struct cycle *);

/* Before a tree is drafted, set those terms of the cost model that are known
 * before drafting. */
void lever_update_costs(struct cycle *);

/* From a finished cycle, update the terms of the cost model except C(n), the
 * time of n rows. */
void lever_observe_costs(const struct cycle *);

/*
 * Measure the cost terms before the first request. The probe generates text
 * from a meaningless prompt for a few cycles. The trees of the probe have
 * different numbers of rows, from 1 to TREE_ROWS_MOST. With a draft model, a
 * few nodes of each tree are drafted; all other nodes have arbitrary tokens. No
 * cycle begins after LEVER_PROBE_S seconds; but the first two cycles always
 * run, because C(n) cannot be estimated from fewer cycles.
 *
 * Not for a simulated phone. SESSION_TEXT, the session's first sequence, must
 * be empty, and is empty again afterwards. The call resets the session's hash
 * of logits and the counters in *env. Returns 0, or an error of the session or
 * the drafter.
 */
#define LEVER_PROBE_S 2
int lever_probe(struct session *, struct method_env *, struct err *);

#endif
