/*
 * The builders of token trees: each grows the tree that a drafter has begun,
 * whose root is expanded, to at most `rows` nodes (the root among them) of at
 * most `depth` below the root. What they need to remember from cycle to cycle
 * is theirs in a struct of parameters and state.
 *
 * A builder calls no drafter. build_NAME_begin chooses the builder and its
 * parameters; build_next grows the tree until some nodes have to be expanded
 * and returns these nodes; the caller has them expanded, together, and calls
 * build_next again. So the trees of several requests can grow side by side, and
 * one pass of a draft model can expand the nodes that all of them wait for.
 *
 * All are deterministic: where two candidates are equal, the one whose parent
 * was added first, and then the lower token id, comes first. In all of them a
 * node's children are the first of its candidates. Where the drafter has no
 * room left the tree stays smaller.
 *
 * The tree must have room for `rows`; some builders need more, as they say. A
 * build that is given up, because build_next or the drafter failed, leaves the
 * tree valid but of any size.
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
	uint32_t rows;  /* nodes at most, root included; >= 1 */
	uint32_t depth; /* of the deepest node, at most; 0: the root alone */
	/* For greedy and lever: the drafter's batch, and drafter_most
	 * (drafter.h). */
	uint32_t batch, most;
};

#define BUILD_BATCH 64 /* nodes a call: no drafter's batch is larger */

/* One tree at a time; zeroed before its first use, not moved until its tree is
 * done. The members are for the builders alone (grow.h). */
struct build {
	struct tree *tree;
	struct build_limits limits;
	int (*step)(struct build *, struct err *);
	/* Nodes first .. end - 1 of the tree were expanded last, or are to be
	 * expanded next: those from `at` on were not returned yet. */
	uint32_t first, end, at;
	uint32_t node[BUILD_BATCH], n; /* returned by build_next */
	void *memory;                  /* [bytes] kept from tree to tree */
	size_t bytes;
	/* Parameters, each of those builders that have it, and of opt what it
	 * knows of the layers so far. */
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
	BUILD_EXPAND, /* node[n], n >= 1, are to be expanded first */
};

/*
 * The next step of the tree that was begun: an enum value or -ENOMEM. node[] is
 * valid until the next call. What begin was given is borrowed until the tree is
 * complete, except for the limits, which are copied.
 */
int build_next(
	struct build *, const uint32_t **node, uint32_t *n, struct err *);
void build_release(struct build *);

/* The likeliest token behind the likeliest token ...: `limits` says how many.
 */
void build_chain_begin(
	struct build *, struct tree *, const struct build_limits *);

/*
 * SpecInfer (Miao et al., ASPLOS 2024): a static shape; every node at depth i
 * has its width[i] best candidates as children. {1, 1, 3, 1, 1, 1, 1, 1} is
 * the usual one: 20 nodes below the root.
 */
void build_specinfer_begin(struct build *, struct tree *,
	const struct build_limits *, const uint32_t *width, uint32_t n_widths);

/*
 * EAGLE-2's dynamic tree (Li et al., EMNLP 2024): layer by layer the `beam`
 * nodes of largest path probability are expanded together; in the end the best
 * of all candidates stay. Layers are as wide as that only in a tree with room
 * for 1 + beam * (depth - 1) nodes.
 */
void build_eagle2_begin(struct build *, struct tree *,
	const struct build_limits *, uint32_t beam);

/*
 * OPT-Tree (Wang et al., TACL 2025): layers until the expected accepted length
 * of the best `rows - 1` nodes grows by no more than `threshold`. Of a layer
 * only nodes among those best are expanded, for no other has a descendant among
 * them.
 */
void build_opt_begin(struct build *, struct tree *, const struct build_limits *,
	double threshold);

/*
 * In the manner of EdgeLLM (Xu et al., 2024): the open branch of the largest
 * path probability is expanded, two children each, until none reaches alpha;
 * what verification accepts moves alpha.
 */
struct edgellm {
	double alpha; /* 1e-4 to 0.9 */
};
void edgellm_init(struct edgellm *);
void build_edgellm_begin(struct build *, struct tree *,
	const struct build_limits *, const struct edgellm *);
/*
 * After verification: of the branch that matched best, `drafted` nodes, were
 * `accepted` accepted. Nothing when nothing was drafted.
 */
void edgellm_saw(struct edgellm *, uint32_t drafted, uint32_t accepted);

/* What is remembered of trees: how far the draft can be relied on, and what it
 * mostly says. */
struct gain_rule {
	bool best_prefix;
	double rate;      /* of the moving averages; 0.1 */
	double rho_min;   /* 0.3 */
	double hit, mass; /* averages of hits, and of what the draft expected */
	/* Of the candidates behind a node, the likeliest first, what the draft
	 * says of them on average; at first that the first is sure. */
	double expect[TREE_CANDIDATES];
	uint32_t n_expect;
	/* Of the tree built last: G and L of equations 2 and 4; L is 0 while
	 * nothing is known of it. */
	double gain, latency;
	/* Nodes since gain_rule_init, roots too; those of them without children
	 * in the tree returned. */
	uint64_t expanded, wasted;
};
void gain_rule_init(struct gain_rule *);
double gain_rule_reliability(const struct gain_rule *); /* rho */

/*
 * Lever (section 4.2; its equations 1 to 6): the tree of the best rate, tokens
 * that it is expected to yield over what its cycle takes. A node's gain, its
 * reach, is the probability that verification comes to it: the product, along
 * its path, of the draft's probabilities times its reliability.
 *
 * With costs of their parts (pass_cost.h): of the candidates known, those that
 * reach furthest are the best tree of their number, and of all numbers the best
 * is taken; with best_prefix off the last before the rate falls first, which is
 * where the paper stops. A node is looked behind while that is expected to
 * raise the rate, by what was mostly found behind nodes: the one that reaches
 * furthest, or as many as the drafter does together. What was looked behind in
 * vain stays paid for.
 */
void build_lever_begin(struct build *, struct tree *,
	const struct build_limits *, const struct pass_cost *,
	struct gain_rule *);

/*
 * The same with costs of shapes (tree_cost.h) as the paper has them, greedily
 * (its algorithm 1): the candidate of the largest gain per cost joins, until
 * that ratio is no better than the tree's own.
 *
 * Where the cost has steps (an NPU's tiles), that stops at the first step;
 * best_prefix goes on to `limits` and returns the best tree met on the way, the
 * smallest of those. It ends sooner when nothing better can come: if m more
 * nodes join, G grows by no more than m times the largest R at hand, and L is
 * no less than with m more rows on as many leaves and nothing more drafted.
 *
 * L counts every node above the depth limit as drafted. In fact a node is
 * expanded only when its candidates could be next: the same tree, for less.
 *
 * Without any verification seen, only `limits` end the tree. With
 * limits->batch > 1 the likeliest nodes are expanded ahead, together with one
 * that is needed, and the tree is the same (section 4.4); those that have not
 * joined yet take room beyond `rows` in the tree, and where there is none the
 * batches are smaller.
 */
void build_greedy_begin(struct build *, struct tree *,
	const struct build_limits *, const struct cost *, struct gain_rule *);
/*
 * After verification, which went from the root along path[0] < path[1] ...
 * [n] (the accepted nodes without the root) and then drew `next`: each
 * expanded node on the way, the last one too, is a hit or none.
 */
void gain_rule_saw(struct gain_rule *, const struct tree *,
	const uint32_t *path, uint32_t n, int32_t next);

#endif
