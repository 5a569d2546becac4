/*
 * A method like EdgeLLM (Xu et al., 2024), as far as the paper's abstract
 * defines it: a tree of variable width and depth. Each draft step expands one
 * node, the leaf with the largest path probability. Drafting ends when no leaf
 * has a path probability of alpha or more; then the tree is verified.
 *
 * alpha is adapted after each verification, and is not reset for a new request.
 * Let N_ok be the number of accepted tokens, and N_all the length of the branch
 * that the accepted tokens begin and that continues with the likeliest
 * children. If N_ok = N_all, alpha is halved; otherwise it is divided by
 * 0.5^((N_all - N_ok) / N_all) (struct edgellm in host/tree/build.h).
 *
 * While the target verifies the tree, drafting continues after the likeliest
 * leaf. If the target accepts this leaf, the next cycle begins with tokens that
 * are already drafted.
 */
#include "host/method/methods.h"
#include "host/scheduler/cycle.h"
#include "host/scheduler/tree_options.h"

/* maximum number of nodes that are drafted while the target runs a pass */
#define AHEAD 32

/* The state of a request. */
struct ahead {
	uint64_t pass; /* number of the pass for which `tip` was chosen */
	int32_t tip;   /* node after which drafting continues, or -1 */
};

/*
 * Draft one more token after the tip, while the target computes. The first call
 * of a pass finds the tip: the likeliest leaf after which drafting can
 * continue. If nothing was drafted, the tree has only its root, and there is no
 * tip. The tip cannot be found in the function `grown` of struct method: after
 * that function, nodes are still removed from the tree if a pass that several
 * requests share has no rows for them.
 */
static int edgellm_meanwhile(struct cycle *c, struct err *e)
{
	struct tree *t = c->tree;
	struct ahead *m = c->own;
	uint32_t node;
	int ret = 0;

	if (m->pass != c->passes + 1) {
		*m = (struct ahead){ c->passes + 1, -1 };
		for (uint32_t i = tree_expects(t, 0) ? 0 : t->n; i < t->n; i++)
			if (!t->n_children[i] &&
				(t->n_candidates[i] || !t->n_ends[i]) &&
				(m->tip < 0 || t->path[i] > t->path[m->tip]))
				m->tip = (int32_t)i;
	}
	node = (uint32_t)m->tip;
	if (m->tip < 0 || t->n == t->capacity)
		return 0;
	if (!tree_expects(t, node)) {
		ret = cycle_expand(c, node, e);
		c->env->stats.expanded++;
	}
	m->tip = ret || !t->n_candidates[node]
		? -1
		: (int32_t)tree_add(t, node, t->candidate[node * t->k]);
	return ret;
}

static int edgellm_open(
	struct method_env *env, const struct model *target, struct err *e)
{
	edgellm_init(env->state);
	return 0;
}

static uint32_t edgellm_spare(const struct method_env *env)
{
	return AHEAD;
}

static void edgellm_plan(struct cycle *c)
{
	build_edgellm_begin(&c->build, c->tree,
		cycle_limits(c, tree_depth(c->env)), c->env->state);
}

/*
 * N_all is the length of the branch that the accepted nodes begin: these nodes,
 * then repeatedly the likeliest child of the last node, until a node has no
 * child in the verified tree.
 */
static void edgellm_after_pass(struct cycle *c)
{
	uint32_t node = c->path[c->n_path - 1], next = node;

	if (c->verified == 1)
		return;
	do {
		node = next;
		for (uint32_t i = node + 1; i < c->verified; i++)
			if (c->tree->parent[i] == (int32_t)node &&
				(next == node ||
					c->tree->q[i] > c->tree->q[next]))
				next = i;
	} while (next != node);
	edgellm_saw(c->env->state, c->tree->depth[node], c->n_path - 1);
}

const struct method method_edgellm = {
	.name = "edgellm",
	.summary = "a drafted tree, grown until no branch is likely (EdgeLLM)",
	.lossless = true,
	.needs_draft = true,
	.options = tree_tables,
	.state_bytes = sizeof(struct edgellm),
	.open = edgellm_open,
	.decode_rows = tree_decode_rows,
	.lane_bytes = sizeof(struct ahead),
	.spare_nodes = edgellm_spare,
	.plan = edgellm_plan,
	.meanwhile = edgellm_meanwhile,
	.after_pass = edgellm_after_pass,
};
