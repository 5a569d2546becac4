/*
 * The interface of drafters, which supply the candidates of tree nodes: a draft
 * model on the host or the device, retrieval from texts, or an oracle for
 * studies of speed.
 *
 * begin() starts a tree after a text; expand() fills in the candidates of some
 * of its nodes (tree.h), none of them expanded before, all their ancestors
 * expanded. Candidates depend on the text and the path alone, not on the order
 * or grouping of expansions.
 *
 * Between two expansions builders add nodes, drop some and renumber the rest
 * (tree_keep). A drafter identifies a node by tree->row[node], which it writes
 * and which moves with the node.
 */
#ifndef HOST_TREE_DRAFTER_H
#define HOST_TREE_DRAFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct price;
struct tree;

/* One of several trees in begin_all or expand_all. */
struct drafter_ask {
	void *arg; /* of the tree's drafter */
	struct tree *tree;
	const int32_t *text; /* [n_text]; for begin_all */
	size_t n_text;
	const uint32_t *node; /* [n]; for expand_all */
	uint32_t n;
};

struct drafter {
	void *arg;
	/*
	 * Reset the tree to the root text[n - 1] and expand the root. Results
	 * of an earlier tree for the same text are reused.
	 */
	int (*begin)(void *arg, struct tree *, const int32_t *text, size_t n,
		struct err *);
	/* Expand as many of the n >= 1 nodes (n may exceed `batch`) as have
	 * room in the draft's context; the rest has no candidates afterwards
	 * and must not be passed again. */
	int (*expand)(void *arg, struct tree *, const uint32_t *node,
		uint32_t n, struct err *);
	/*
	 * begin() and expand() for the trees of several requests at once, whose
	 * drafters were opened like one another: faster, with the same results.
	 * The cost is charged to the first one. NULL, both: call one by one.
	 */
	int (*begin_all)(const struct drafter_ask *, uint32_t n, struct err *);
	int (*expand_all)(const struct drafter_ask *, uint32_t n, struct err *);
	/* Number of nodes that are best expanded together; 1: one by one.
	 * Builders that weigh the cost of each number may pass up to `most`; 0:
	 * no such choice. */
	uint32_t batch, most;
	/* A node without candidates may have descendants with some. Otherwise
	 * no candidates mean that there was no room. */
	bool resumes;
	/*
	 * The text after a verification: keep what of the last tree was
	 * accepted, drop the rest. NULL: done by begin().
	 */
	void (*saw)(void *arg, const int32_t *text, size_t n);
	/*
	 * Called before `saw`, for a tree just verified: the target's logits
	 * [n_vocab] at a node. Called for accepted nodes, for nodes whose
	 * logits were computed ahead as they were likely to be accepted, and
	 * with `all_rows` for all nodes, in their order. NULL: not needed.
	 */
	void (*computed)(void *arg, const struct tree *, uint32_t node,
		const float *logits, uint32_t n_vocab);
	bool all_rows;
	/*
	 * While the target reads a prompt: `wants` is whether the logits at
	 * token `at` are needed; `read` receives these in order, and possibly
	 * others, which another drafter wanted. The caller counts their cost.
	 * Both NULL: not needed.
	 */
	bool (*wants)(void *arg, const int32_t *prompt, size_t n, size_t at);
	void (*read)(
		void *arg, size_t at, const float *logits, uint32_t n_vocab);
	/* Add the cost of the drafter's work on a phone's CPU since the last
	 * call to *sum. NULL: none. */
	void (*price)(void *arg, struct price *sum);
	void (*close)(void *arg); /* NULL: nothing to close */
};

/* Most nodes that a builder may pass at once; >= 1. */
static inline uint32_t drafter_most(const struct drafter *d)
{
	uint32_t most = d->most > d->batch ? d->most : d->batch;

	return most ? most : 1;
}

/* Closes a drafter and zeroes it, so that it may be closed again. */
static inline void drafter_close(struct drafter *d)
{
	if (d->close)
		d->close(d->arg);
	*d = (struct drafter){ 0 };
}

#endif
