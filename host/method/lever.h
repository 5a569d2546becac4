/* The state that the method lever keeps from request to request. Benchmarks
 * read this state, so its struct is public. */
#ifndef HOST_METHOD_LEVER_H
#define HOST_METHOD_LEVER_H

#include "host/tree/build.h"
#include "host/tree/pass_cost.h"
#include "host/tree/prune.h"

#include <limits.h>
#include <stdbool.h>

struct exit_head;
struct method_env;

struct lever_state {
	struct pass_cost cost;
	struct gain_rule lever;
	/* the exit predictor; NULL if rows are not pruned */
	struct exit_head *exit;
	/* file of the exit predictor; "" if there is none */
	char exit_path[PATH_MAX];
	struct prune_opts prune;
	/* Cycles without drafting: number left in the current period, and
	 * length of the last period. */
	uint32_t rest, last_rest;
	/*
	 * Set by benchmarks that compare trees with and without pruning. Then
	 * every tree is pruned, and neither the cost model nor the correction
	 * Phi is updated, so that a tree depends only on the text that precedes
	 * the tree.
	 */
	bool frozen;
};

/* The state of an env whose method is lever. */
struct lever_state *lever_state(const struct method_env *);

#endif
