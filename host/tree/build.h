/*
 * Builders of token trees. Each builder grows a tree that a drafter has begun
 * and whose root is expanded, to no more than `rows` nodes (including the root)
 * and `depth` levels below the root. Data that a builder keeps from one cycle
 * (drafting and verification of one tree) to the next is in a struct of
 * parameters and state.
 *
 * Builders call no drafter. build_NAME_begin chooses the builder and its
 * parameters. build_next grows the tree until some nodes must be expanded, and
 * returns these. The caller passes them to a drafter and calls build_next
 * again. So the trees of several requests can grow side by side, and one pass
 * of a draft model can expand nodes of all of them.
 *
 * All builders are deterministic: of equal candidates, the one whose parent was
 * added first comes first, and of the same parent's candidates the one with the
 * lower token id. In every builder a node's children are the first of its
 * candidates. If the drafter has no room left, the tree stays smaller.
 *
 * The tree must have room for `rows` nodes; some builders need more, as
 * documented below. If build_next or the drafter fails, the build can be
 * abandoned: the tree is valid, but of any size.
 */
#ifndef HOST_TREE_BUILD_H
#define HOST_TREE_BUILD_H

#include "host/tree/calibration.h"
#include "host/tree/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cost;
struct err;
struct gain_rule;
struct pass_cost;

struct build_limits {
	uint32_t rows;  /* most nodes, including the root; >= 1 */
	uint32_t depth; /* most levels below the root; 0 means the root alone */
	/* For greedy and lever only: the drafter's batch, and drafter_most of
	 * the drafter (drafter.h). */
	uint32_t batch, most;
};

/* Most nodes that build_next returns at once; no drafter's batch is larger. */
#define BUILD_BATCH 64

/* State of one tree at a time. Zero it before first use, and do not move it
 * until its tree is complete. The members are for builders only (grow.h). */
struct build {
	struct tree *tree;
	struct build_limits limits;
	int (*step)(struct build *, struct err *);
	/* Nodes first .. end - 1 of the tree were expanded last or are to be
	 * expanded next. Those from `at` on have not been returned yet. */
	uint32_t first, end, at;
	uint32_t node[BUILD_BATCH], n; /* returned by build_next */
	void *memory;                  /* [bytes] reused from tree to tree */
	size_t bytes;
	/* Parameters of the builders that have any; for opt also its current
	 * state. */
	const uint32_t *width;
	uint32_t n_widths, beam, layers;
	double threshold, expected;
	const struct edgellm *edgellm;
	const struct pass_cost *pass_cost;
	const struct cost *cost;
	struct gain_rule *rule;
};

enum {
	BUILD_DONE, /* the tree is complete */
	/* node[n], n >= 1, must be expanded before the next call */
	BUILD_EXPAND,
};

/*
 * Continue the current tree. Returns BUILD_DONE, -ENOMEM, or BUILD_EXPAND with
 * the *n nodes (*node) that must be expanded before the next call; *node is
 * valid until then. The arguments of the begin function are borrowed until the
 * tree is complete, except for the limits, which are copied.
 */
int build_next(
	struct build *, const uint32_t **node, uint32_t *n, struct err *);
void build_release(struct build *);

/* A chain: the likeliest next token at each step, within the limits. */
void build_chain_begin(
	struct build *, struct tree *, const struct build_limits *);

/*
 * SpecInfer (Miao et al., ASPLOS 2024): a static shape, in which every node at
 * depth i has its width[i] best candidates as children. The usual shape is {1,
 * 1, 3, 1, 1, 1, 1, 1}, with 20 nodes below the root.
 */
void build_specinfer_begin(struct build *, struct tree *,
	const struct build_limits *, const uint32_t *width, uint32_t n_widths);

/*
 * EAGLE-2's dynamic tree (Li et al., EMNLP 2024): in each layer, the `beam`
 * nodes of largest path probability are expanded together; in the end the best
 * of all candidates are kept. Every layer can have `beam` nodes only if the
 * tree has room for 1 + beam * (depth - 1) nodes.
 */
void build_eagle2_begin(struct build *, struct tree *,
	const struct build_limits *, uint32_t beam);

/*
 * OPT-Tree (Wang et al., TACL 2025): add layers until a layer raises the
 * expected accepted length of the best `rows - 1` nodes by no more than
 * `threshold`. In each layer only nodes among the best `rows - 1` are expanded,
 * because a node outside this set has no descendant in it.
 */
void build_opt_begin(struct build *, struct tree *, const struct build_limits *,
	double threshold);

/*
 * EdgeLLM's tree (Xu et al., 2024), simplified: expand the leaf of largest path
 * probability, with two children, until every leaf's probability is below
 * alpha. Verification results adapt alpha.
 */
struct edgellm {
	double alpha; /* 1e-4 to 0.9 */
};
void edgellm_init(struct edgellm *);
void build_edgellm_begin(struct build *, struct tree *,
	const struct build_limits *, const struct edgellm *);
/*
 * Adapt alpha after a verification. The branch that matched best had `drafted`
 * nodes, of which `accepted` were accepted. There is no effect if `drafted` is
 * 0.
 */
void edgellm_saw(struct edgellm *, uint32_t drafted, uint32_t accepted);

/* State of greedy and lever between trees: the draft's reliability and its
 * typical distribution. */
struct gain_rule {
	bool best_prefix; /* see build_lever_begin, build_greedy_begin */
	/* weight of a new value in the moving averages; default 0.1 */
	double rate;
	double rho_min; /* lower limit of the reliability; default 0.3 */
	/* Moving averages: of hits (1 if the accepted token was among a node's
	 * candidates, 0 if not), and of the probability that the draft gave to
	 * the candidates. */
	double hit, mass;
	/* For lever only: how the probability of a hit is divided among the
	 * candidates. */
	struct calibration draft;
	/* Average estimates (gain_rule_estimate) of a node's candidates, the
	 * likeliest first. The initial value is a first candidate that is
	 * certain. */
	double expect[TREE_CANDIDATES];
	uint32_t n_expect;
	/* The last tree's G (gain) and L (latency) of equations 2 and 4 of the
	 * Lever paper; L is 0 while costs are unknown. */
	double gain, latency;
	/* Number of nodes expanded since gain_rule_init, including roots; and
	 * of expanded nodes that had no children in the finished tree. */
	uint64_t expanded, wasted;
};
void gain_rule_init(struct gain_rule *);
double gain_rule_reliability(const struct gain_rule *); /* rho of the paper */

/*
 * Lever's estimate of the probability that each of the first n candidates of an
 * expanded node is drawn (Phi of equation 3): the probability that the drawn
 * token is a candidate, divided among them by `calibration`. `score` is as in
 * calibration.h. Writes to p[n].
 */
void gain_rule_estimate(const struct gain_rule *, const struct calibration *,
	const struct tree *, uint32_t node, const float *score, uint32_t n,
	double *p);

/*
 * Lever's tree (section 4.2, equations 1 to 6): it maximises the rate, which is
 * the expected number of tokens divided by the time of the cycle. The gain of a
 * node (also called its reach) is the probability that verification reaches it:
 * the product of the estimates (gain_rule_estimate) along its path.
 *
 * The cost is given by the parts of a cycle (pass_cost.h). No candidate has a
 * larger reach than its parent, so the best tree of n nodes is the n known
 * candidates of largest reach. With best_prefix, the best n is chosen from all
 * prefixes of that list; without it, the paper's rule stops before the rate
 * first falls. Nodes are expanded while this expansion, or several in a row,
 * are expected to raise the rate, judging by the candidates that nodes
 * typically have. The next expanded node is the one of largest reach, or as
 * many as the drafter expands together. Time already spent on useless
 * expansions stays in the cost.
 */
void build_lever_begin(struct build *, struct tree *,
	const struct build_limits *, const struct pass_cost *,
	struct gain_rule *);
/*
 * Whether drafting is expected to pay: whether a chain of any length that the
 * limits allow has a higher rate than a pass of the root alone, without any
 * draft. Call it before the root is expanded.
 */
bool build_lever_pays(const struct build_limits *, const struct pass_cost *,
	const struct gain_rule *);

/*
 * Like build_lever_begin, but with costs by tree shape (tree_cost.h), as in the
 * paper's greedy algorithm 1: add the candidate with the largest gain per cost,
 * until that ratio is no better than the tree's own ratio of gain to cost.
 *
 * If the cost has steps (an NPU's tiles), this rule stops at the first step.
 * With best_prefix the builder continues up to the limits and returns the best
 * tree on the way, the smallest of equal ones. It stops early when no better
 * tree is possible: if m more nodes join, G grows by no more than m times the
 * largest R available, and L is at least the cost of m more rows with the same
 * number of leaves and no further drafting.
 *
 * L counts every node above the depth limit as drafted. In fact a node is
 * expanded only when its candidates could be added next, which gives the same
 * tree in less time.
 *
 * Before the first verification only the limits end the tree. With
 * limits->batch > 1 the likeliest nodes are expanded ahead, together with one
 * that is needed, and the tree is the same (section 4.4). Nodes expanded ahead
 * take room beyond `rows` in the tree; without this room, batches are smaller.
 */
void build_greedy_begin(struct build *, struct tree *,
	const struct build_limits *, const struct cost *, struct gain_rule *);
/*
 * Update the averages after a verification, which accepted path[0] < path[1] <
 * ... [n] (without the root) and then sampled `next`. Each expanded node on the
 * path, including the last, counts as a hit or a miss.
 */
void gain_rule_saw(struct gain_rule *, const struct tree *,
	const uint32_t *path, uint32_t n, int32_t next);

#endif
