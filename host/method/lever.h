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
	/* the exit predictor; NULL if the method does not prune rows */
	struct exit_head *exit;
	/* path of the exit predictor's file; "" if there is no predictor */
	char exit_path[PATH_MAX];
	struct prune_opts prune;
	/* Estimated time that the recent drafts have saved, compared with
	 * passes of one row; negative if they have lost time. Older drafts
	 * count less. */
	double saved;
	/* Periods without drafting, counted in cycles (a draft and its
	 * verification). last_rest: length of the current or, between two
	 * periods, of the previous period; 0 if drafting has paid since.
	 * `rest`: number of cycles that are left of the current period. */
	uint32_t rest, last_rest;
	/*
	 * Set by benchmarks that compare trees with and without pruning. If
	 * set, every tree is pruned, and neither the cost model nor the
	 * correction of the draft's probabilities (Phi in lever.c) is updated,
	 * so a tree depends only on the text that precedes it.
	 */
	bool frozen;
};

/* The state of a method_env whose method is lever. */
struct lever_state *lever_state(const struct method_env *);

#endif
