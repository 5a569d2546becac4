/* The state that method lever keeps between requests; for benchmarks that
 * inspect it. */
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
	char exit_path[PATH_MAX]; /* "": no predictor */
	struct prune_opts prune;
	/* For comparing trees with and without pruning: costs and reliability
	 * stay unchanged, so that a tree depends only on the text before it,
	 * and every tree is pruned. */
	bool frozen;
};

/* The state of an env that is open for lever. */
struct lever_state *lever_state(const struct method_env *);

#endif
