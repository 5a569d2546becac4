/*
 * Builders of token trees. A drafter begins the tree and expands its root; then
 * a builder grows the tree to at most `rows` nodes (including the root) and
 * `depth` levels below the root. A cycle drafts and verifies one tree. A
 * builder can keep data from one cycle to the next, in its struct of parameters
 * and state.
 *
 * Builders call no drafter. build_NAME_begin chooses the builder and its
 * parameters. build_next grows the tree until some nodes must be expanded, and
 * returns these nodes. The caller passes them to a drafter and calls build_next
 * again. So the trees of several requests can grow side by side, and one pass
 * of a draft model can expand nodes of all these trees.
 *
 * All builders are deterministic. Candidates of equal probability are ordered
 * by the time at which their parents were added, and candidates of the same
 * parent by token id. In every builder the children of a node are its first
 * candidates. If the drafter's context is full, the tree stays smaller.
 *
 * The tree must have room for `rows` nodes; some builders need more, as
 * documented below. If build_next or the drafter fails, the build can be
 * abandoned: the tree is then valid, but can be incomplete.
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
	uint32_t rows; /* maximum number of nodes, including the root; >= 1 */
	/* maximum number of levels below the root; 0 means the root alone */
	uint32_t depth;
	/* For the builders greedy and lever only. batch: number of nodes for
	 * which one expand() call of the drafter is most efficient (drafter.h).
	 * most: maximum number of nodes to expand at once, the result of
	 * drafter_most(). */
	uint32_t batch, most;
};

/* Maximum number of nodes that build_next returns at once. The member `batch`
 * of a drafter is never larger. */
#define BUILD_BATCH 64

/* State of a builder, for one tree at a time. Zero the struct before the first
 * use, and do not move it in memory until its tree is complete. The members are
 * for builders only (grow.h). */
struct build {
	struct tree *tree;
	struct build_limits limits;
	int (*step)(struct build *, struct err *);
	/* The nodes first .. end - 1 of the tree were expanded last, or are to
	 * be expanded next. Of these nodes, build_next has not yet returned
	 * nodes `at` .. end - 1. */
	uint32_t first, end, at;
	/* the nodes that build_next returned last */
	uint32_t node[BUILD_BATCH], n;
	/* [bytes] scratch memory, reused from tree to tree */
	void *memory;
	size_t bytes;
	/* Parameters of those builders that have parameters. `layers` and
	 * `expected` are the current state of the builder opt. */
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
	/* build_next has returned nodes, which must be expanded before its next
	 * call */
	BUILD_EXPAND,
};

/*
 * Continue the current tree. Returns BUILD_DONE, -ENOMEM, or BUILD_EXPAND. If
 * the result is BUILD_EXPAND, *node lists *n nodes, which must be expanded
 * before the next call; the list is valid until that call. Until the tree is
 * complete, the caller must keep the arguments of the begin function unchanged,
 * except the limits, which are copied.
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
 * EAGLE-2's dynamic tree (Li et al., EMNLP 2024): in each layer of the tree,
 * the `beam` nodes with the largest path probability are expanded together; in
 * the end the best candidates of all layers are kept. The tree must have room
 * for (depth - 1) * beam + 1 nodes; with less room, layers have fewer nodes.
 */
void build_eagle2_begin(struct build *, struct tree *,
	const struct build_limits *, uint32_t beam);

/*
 * OPT-Tree (Wang et al., TACL 2025): add layers until a layer raises the
 * expected accepted length of the best `rows - 1` nodes by `threshold` or less.
 * In each layer only nodes among the best `rows - 1` are expanded, because a
 * node that is not among them has no descendant among them.
 */
void build_opt_begin(struct build *, struct tree *, const struct build_limits *,
	double threshold);

/*
 * EdgeLLM's tree (Xu et al., 2024), simplified: expand the leaf with the
 * largest path probability and give it two children, until every leaf's
 * probability is below alpha. Verification results adapt alpha.
 */
struct edgellm {
	double alpha; /* 1e-4 to 0.9 */
};
void edgellm_init(struct edgellm *);
void build_edgellm_begin(struct build *, struct tree *,
	const struct build_limits *, const struct edgellm *);
/*
 * Adapt alpha after a verification. Take the path of the accepted nodes, and
 * continue it with the likeliest child of its last node until it ends in a
 * leaf: `drafted` is the number of nodes of this path, and `accepted` the
 * number of accepted nodes, both without the root. Does nothing if `drafted` is
 * 0.
 */
void edgellm_saw(struct edgellm *, uint32_t drafted, uint32_t accepted);

/* State that the builders greedy and lever keep from tree to tree: how reliable
 * the draft is, and how its probabilities are typically distributed. */
struct gain_rule {
	/* true: the finished tree is the one with the highest rate (tokens per
	 * time) among the trees of all sizes that were built. false: growth
	 * stops where the rate would first fall, as in the Lever paper. */
	bool best_prefix;
	/* weight of a new value in the moving averages; default 0.1 */
	double rate;
	/* lower limit of the draft's reliability; default 0.3 */
	double rho_min;
	/* Moving averages over the nodes on accepted paths. hit: average of 1
	 * for a node whose next accepted token was among its candidates, and 0
	 * for other nodes. mass: average of the sum of a node's draft
	 * probabilities. */
	double hit, mass;
	/* Only for the builder lever: how the probability that the accepted
	 * token is a candidate is divided among the candidates. */
	struct calibration draft;
	/* expect[i]: average of the estimated probability (gain_rule_estimate)
	 * of a node's candidate i, where candidate 0 is the likeliest.
	 * Initially 1 for candidate 0 and 0 for the others. */
	double expect[TREE_CANDIDATES];
	uint32_t n_expect;
	/* gain (expected tokens) and latency (time) of the last tree: G and L
	 * of equations 2 and 4 of the Lever paper. latency is 0 while costs are
	 * unknown. */
	double gain, latency;
	/* expanded: number of nodes expanded since gain_rule_init, including
	 * roots. wasted: number of expanded nodes without children in the
	 * finished tree. */
	uint64_t expanded, wasted;
};
void gain_rule_init(struct gain_rule *);
/* The draft's reliability (rho of the Lever paper): hit / mass, but at least
 * rho_min and at most 1. */
double gain_rule_reliability(const struct gain_rule *);

/*
 * Lever's estimate of the probability that each of the first n candidates of an
 * expanded node is drawn (Phi of equation 3). The probability that the drawn
 * token is among the candidates is divided among the candidates by
 * `calibration`. `score` holds the exit predictor's scores, or is NULL
 * (calibration.h). Writes to p[n].
 */
void gain_rule_estimate(const struct gain_rule *, const struct calibration *,
	const struct tree *, uint32_t node, const float *score, uint32_t n,
	double *p);

/*
 * Lever's tree (section 4.2, equations 1 to 6). The builder maximises the rate:
 * the expected number of tokens of a cycle divided by the time of the cycle.
 * The reach of a node is the probability that verification reaches it: the
 * product of the estimates (gain_rule_estimate) along its path.
 *
 * The time of a cycle is computed from its parts (pass_cost.h). No candidate
 * has a larger reach than its parent, so the best tree of n nodes consists of
 * the n known candidates with the largest reach. With best_prefix, the builder
 * chooses the n with the highest rate. Without best_prefix, the paper's rule
 * applies: the builder chooses the last n before the rate first falls. Nodes
 * are expanded while one expansion, or several in a row, are expected to raise
 * the rate; the expectation assumes that each expanded node gets candidates
 * with the average probabilities of earlier candidates (`expect`). The next
 * node to expand is the node with the largest reach. If the drafter expands
 * several nodes together efficiently, the nodes with the largest reach are
 * expanded together. The time of expansions that turned out to be useless
 * remains part of the cycle's time.
 */
void build_lever_begin(struct build *, struct tree *,
	const struct build_limits *, const struct pass_cost *,
	struct gain_rule *);

/*
 * Like build_lever_begin, but with costs by tree shape (tree_cost.h), as in the
 * greedy algorithm 1 of the Lever paper: repeatedly add the candidate with the
 * largest ratio of added gain to added cost, until this ratio is no larger than
 * the ratio of the whole tree's gain to its cost.
 *
 * If the cost rises in steps (an NPU computes whole tiles of rows), this rule
 * stops at the first step. With best_prefix the builder continues up to the
 * limits and then returns the best of the trees that it has built on the way;
 * of equally good trees, the smallest. The builder stops early when no better
 * tree is possible, according to two bounds. With m more nodes, the gain G
 * grows by at most m times the largest reach R of a candidate; and the cost L
 * is at least the cost with m more rows, the same number of leaves and no
 * further expansions.
 *
 * The cost L is computed as if the drafter expanded every node above the depth
 * limit. In fact a node is expanded only when its candidates could be added
 * next, which gives the same tree in less time.
 *
 * Before the first verification no costs are known, so only the limits end the
 * tree. With limits->batch > 1, likely nodes are expanded together with the
 * node that must be expanded now, before their own candidates are needed; the
 * tree is the same (section 4.4). Nodes that are expanded early take room in
 * the tree in addition to `rows`; without this room, batches are smaller.
 */
void build_greedy_begin(struct build *, struct tree *,
	const struct build_limits *, const struct cost *, struct gain_rule *);
/*
 * Update the averages after a verification, which accepted the n nodes path[0]
 * < path[1] < ... (without the root) and then sampled `next`. Each expanded
 * node on the path, including the last node, counts as a hit if the token that
 * followed it was among its candidates, and otherwise as a miss.
 */
void gain_rule_saw(struct gain_rule *, const struct tree *,
	const uint32_t *path, uint32_t n, int32_t next);

#endif
