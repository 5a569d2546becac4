/*
 * Builders of token trees: each grows a tree that a drafter has begun, whose
 * root is expanded, to at most `rows` nodes (including the root) and `depth`
 * levels below the root. A builder's data from cycle to cycle is in a struct of
 * parameters and state.
 *
 * Builders call no drafter. build_NAME_begin chooses the builder and its
 * parameters; build_next grows the tree until some nodes must be expanded and
 * returns these; the caller has them expanded together and calls build_next
 * again. So the trees of several requests can grow side by side, and one pass
 * of a draft model can expand the nodes of all of them.
 *
 * All builders are deterministic: of equal candidates, the one whose parent was
 * added first, and then the lower token id, comes first. In all of them a
 * node's children are the first of its candidates. If the drafter has no room
 * left the tree stays smaller.
 *
 * The tree must have room for `rows` nodes; some builders need more, as
 * documented. A build that is abandoned, after an error of build_next or the
 * drafter, leaves the tree valid but of any size.
 */
#ifndef HOST_TREE_BUILD_H
#define HOST_TREE_BUILD_H

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
	uint32_t depth; /* of the deepest node, at most; 0: the root alone */
	/* For greedy and lever: the drafter's batch, and drafter_most
	 * (drafter.h). */
	uint32_t batch, most;
};

#define BUILD_BATCH 64 /* most nodes per call: no drafter's batch is larger */

/* One tree at a time; zero before first use, not moved until its tree is
 * complete. Members are for builders only (grow.h). */
struct build {
	struct tree *tree;
	struct build_limits limits;
	int (*step)(struct build *, struct err *);
	/* Nodes first .. end - 1 of the tree were expanded last, or are to be
	 * expanded next: those from `at` on were not returned yet. */
	uint32_t first, end, at;
	uint32_t node[BUILD_BATCH], n; /* returned by build_next */
	void *memory;                  /* [bytes] reused from tree to tree */
	size_t bytes;
	/* Parameters of the builders that have them; of opt also its state so
	 * far. */
	const uint32_t *width;
	uint32_t n_widths, beam, layers;
	double threshold, expected;
	const struct edgellm *edgellm;
	const struct pass_cost *pass_cost;
	const struct cost *cost;
	struct gain_rule *rule;
};

enum {
	BUILD_DONE,   /* the tree is complete */
	BUILD_EXPAND, /* node[n], n >= 1, must be expanded first */
};

/*
 * The next step of the current tree: an enum value or -ENOMEM. node[] is valid
 * until the next call. Arguments of begin are borrowed until the tree is
 * complete, except for the limits, which are copied.
 */
int build_next(
	struct build *, const uint32_t **node, uint32_t *n, struct err *);
void build_release(struct build *);

/* A chain: always the likeliest next token, within `limits`. */
void build_chain_begin(
	struct build *, struct tree *, const struct build_limits *);

/*
 * SpecInfer (Miao et al., ASPLOS 2024): a static shape; every node at depth i
 * has its width[i] best candidates as children. {1, 1, 3, 1, 1, 1, 1, 1} is the
 * usual one: 20 nodes below the root.
 */
void build_specinfer_begin(struct build *, struct tree *,
	const struct build_limits *, const uint32_t *width, uint32_t n_widths);

/*
 * EAGLE-2's dynamic tree (Li et al., EMNLP 2024): layer by layer the `beam`
 * nodes of largest path probability are expanded together; in the end the best
 * of all candidates are kept. Layers have that width only in a tree with room
 * for 1 + beam * (depth - 1) nodes.
 */
void build_eagle2_begin(struct build *, struct tree *,
	const struct build_limits *, uint32_t beam);

/*
 * OPT-Tree (Wang et al., TACL 2025): add layers until the expected accepted
 * length of the best `rows - 1` nodes grows by no more than `threshold`. In
 * each layer only nodes among those best are expanded, as no other has a
 * descendant among them.
 */
void build_opt_begin(struct build *, struct tree *, const struct build_limits *,
	double threshold);

/*
 * EdgeLLM's tree (Xu et al., 2024), simplified: expand the leaf of largest path
 * probability, with two children, until no leaf has a probability of alpha;
 * verification adapts alpha.
 */
struct edgellm {
	double alpha; /* 1e-4 to 0.9 */
};
void edgellm_init(struct edgellm *);
void build_edgellm_begin(struct build *, struct tree *,
	const struct build_limits *, const struct edgellm *);
/*
 * After verification: of the best matching branch with `drafted` nodes,
 * `accepted` were accepted. No effect if nothing was drafted.
 */
void edgellm_saw(struct edgellm *, uint32_t drafted, uint32_t accepted);

/* State of greedy and lever between trees: the draft's reliability and its
 * typical distribution. */
struct gain_rule {
	bool best_prefix;
	double rate;    /* of the moving averages; 0.1 */
	double rho_min; /* least reliability; 0.3 */
	/* averages of hits, and of the draft's probabilities */
	double hit, mass;
	/* Average probabilities of a node's candidates, the likeliest first;
	 * initially that the first one is certain. */
	double expect[TREE_CANDIDATES];
	uint32_t n_expect;
	/* The last tree's G and L of equations 2 and 4; L is 0 while costs are
	 * unknown. */
	double gain, latency;
	/* Nodes expanded since gain_rule_init, including roots; and those
	 * without children in the returned tree. */
	uint64_t expanded, wasted;
};
void gain_rule_init(struct gain_rule *);
double gain_rule_reliability(const struct gain_rule *); /* rho */

/*
 * Lever's tree (section 4.2, equations 1 to 6): it maximises the rate, expected
 * tokens divided by the time of the cycle. A node's gain (its reach) is the
 * probability that verification reaches it: the product, along its path, of the
 * draft's probabilities times the reliability rho.
 *
 * With separate costs of the cycle's parts (pass_cost.h): since no candidate
 * has a larger reach than its parent, the best tree of n nodes is the n known
 * candidates of largest reach, and the best n is taken from all prefixes of
 * that list (best_prefix); with best_prefix off, the paper's rule stops before
 * the rate first falls. Nodes are expanded while that is expected to raise the
 * rate, judging by the candidates that nodes typically have: the node of
 * largest reach, or as many as the drafter expands together. Time spent on
 * useless expansions stays in the cost.
 */
void build_lever_begin(struct build *, struct tree *,
	const struct build_limits *, const struct pass_cost *,
	struct gain_rule *);

/*
 * The same with costs by tree shape (tree_cost.h), as in the paper's greedy
 * algorithm 1: add the candidate with the largest gain per cost, until that
 * ratio is no better than the tree's own.
 *
 * If the cost has steps (an NPU's tiles), that stops at the first step;
 * best_prefix continues up to `limits` and returns the best tree on the way,
 * the smallest of equal ones. It stops early when nothing better is possible:
 * if m more nodes join, G grows by at most m times the largest R available, and
 * L is at least that of m more rows with as many leaves and nothing more
 * drafted.
 *
 * L counts every node above the depth limit as drafted. In fact a node is
 * expanded only when its candidates could be next: the same tree, for less.
 *
 * Before any verification only `limits` end the tree. With limits->batch > 1
 * the likeliest nodes are expanded ahead, together with one that is needed, and
 * the tree is the same (section 4.4); nodes expanded ahead take room beyond
 * `rows` in the tree, and without room batches are smaller.
 */
void build_greedy_begin(struct build *, struct tree *,
	const struct build_limits *, const struct cost *, struct gain_rule *);
/*
 * After verification, which accepted path[0] < path[1] < ... [n] (without the
 * root) and then sampled `next`: each expanded node on the way, including the
 * last, is a hit or not.
 */
void gain_rule_saw(struct gain_rule *, const struct tree *,
	const uint32_t *path, uint32_t n, int32_t next);

#endif
