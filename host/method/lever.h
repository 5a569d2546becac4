/*
 * What method lever keeps from run to run, for those who measure it.
 */
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
	struct exit_head *exit;   /* NULL: nothing is pruned */
	char exit_path[PATH_MAX]; /* "" without one */
	struct prune_opts prune;
	/*
	 * To compare trees with and without pruning: cost and reliability stay
	 * as they are, so that a tree depends on the text it begins behind
	 * alone, and all of them are pruned.
	 */
	bool frozen;
};

/* Of an env that was opened for lever. */
struct lever_state *lever_state(const struct method_env *);

#endif
