/*
 * The interface of drafters, which supply the candidates of tree nodes: a draft
 * model on the host or the device, retrieval from token sequences, or an oracle
 * (drafter_oracle.h) for measurements of speed.
 *
 * begin() starts a tree after a token sequence. expand() fills in the
 * candidates of some of the tree's nodes (tree.h), which must not be expanded
 * yet. Each ancestor of such a node must be expanded already, or must precede
 * the node in the call. Candidates depend only on the sequence and the path,
 * not on the order or grouping of expansions.
 *
 * Between two expansions the builders (build.h) add nodes, drop nodes and
 * renumber the remaining nodes (tree_keep). A drafter identifies a node by
 * tree->row[node], which the drafter writes and which moves with the node.
 */
#ifndef HOST_TREE_DRAFTER_H
#define HOST_TREE_DRAFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct candidate;
struct err;
struct price;
struct search_work;
struct tree;

/* The arguments for one of the trees in begin_all or expand_all. */
struct drafter_ask {
	void *arg; /* argument of the tree's drafter */
	struct tree *tree;
	const int32_t *text; /* [n_text]; for begin_all only */
	size_t n_text;
	const uint32_t *node; /* [n]; for expand_all only */
	uint32_t n;
};

struct drafter {
	void *arg;
	/*
	 * Reset the tree to the root text[n - 1] and expand the root. Results
	 * of an earlier tree are reused if they are for the same sequence.
	 * Returns 0 or a negative errno.
	 */
	int (*begin)(void *arg, struct tree *, const int32_t *text, size_t n,
		struct err *);
	/* Expand as many of the n >= 1 nodes as have room in the draft model's
	 * context; n may exceed `batch`. The other nodes stay without
	 * candidates and must not be passed again. Returns 0 or a negative
	 * errno. */
	int (*expand)(void *arg, struct tree *, const uint32_t *node,
		uint32_t n, struct err *);
	/*
	 * Tell the drafter which sequence of the target's session caches the
	 * tokens passed to later calls of begin(), except the last token. NULL
	 * if the drafter reads nothing from the target's session.
	 */
	void (*follow)(void *arg, uint32_t sequence);
	/*
	 * begin() and expand() for the trees of several requests at once, which
	 * is faster and gives the same results. The drafter of the first tree
	 * must have been opened without draft_site.like
	 * (host/draft/draft_kind.h), and the drafters of the other trees with
	 * the first tree's drafter as draft_site.like. The whole cost counts as
	 * cost of the first tree's drafter. If begin_all and expand_all are
	 * NULL, the caller uses begin() and expand() for each tree.
	 */
	int (*begin_all)(const struct drafter_ask *, uint32_t n, struct err *);
	int (*expand_all)(const struct drafter_ask *, uint32_t n, struct err *);
	/* batch: number of nodes for which one expand() call is most efficient;
	 * 1 means to expand one node at a time. most: for a builder that
	 * compares the costs of different numbers of nodes, the maximum number
	 * of nodes to expand at once; 0 means that only `batch` is useful. */
	uint32_t batch, most;
	/* True: a node without candidates may have descendants with candidates.
	 * False: a node has no candidates only if the draft's context is
	 * full. */
	bool resumes;
	/*
	 * Set the sequence after a verification: text[n] ends with the accepted
	 * tokens. The drafter keeps its data about the accepted nodes of the
	 * tree that was just verified, and drops its data about the other
	 * nodes. NULL if begin() drops these data.
	 */
	void (*saw)(void *arg, const int32_t *text, size_t n);
	/*
	 * Receives the target's logits [n_vocab] at a node of the tree that was
	 * just verified; called before `saw`. Called for each accepted node,
	 * and for each other node whose logits were computed in advance because
	 * its acceptance was likely. NULL if not needed.
	 */
	void (*computed)(void *arg, const struct tree *, uint32_t node,
		const float *logits, uint32_t n_vocab);
	/*
	 * Receives the target's predictions at every node of the tree that was
	 * just verified: the n likeliest tokens with their probabilities, the
	 * likeliest first. Called in the order of the nodes, and before
	 * `computed`. The device computes these predictions only if this
	 * callback is set. NULL if not needed.
	 */
	void (*verified)(void *arg, const struct tree *, uint32_t node,
		const struct candidate *, uint32_t n);
	/*
	 * Called while the target prefills a prompt. `wants` returns whether
	 * the drafter needs the target's predictions of the token after token
	 * `at`. `predicted` receives these predictions in ascending order of
	 * `at`: the n likeliest tokens with their probabilities, the likeliest
	 * first. Predictions that only another drafter wants may be among them.
	 * The caller counts the cost of the predictions. `wants` and
	 * `predicted` are NULL if not needed.
	 */
	bool (*wants)(void *arg, const int32_t *prompt, size_t n, size_t at);
	void (*predicted)(
		void *arg, size_t at, const struct candidate *, uint32_t n);
	/* Add the cost of the drafter's work since the previous call, as time
	 * on a phone's CPU, to *sum. NULL if the drafter has no cost. */
	void (*price)(void *arg, struct price *sum);
	/* Add the work of the drafter's searches since the previous call to
	 * *sum. NULL if the drafter makes no searches. */
	void (*searched)(void *arg, struct search_work *sum);
	void (*close)(void *arg); /* NULL if there is nothing to close */
};

/* Return the maximum number of nodes that a builder may pass to expand() at
 * once; the result is at least 1. */
static inline uint32_t drafter_most(const struct drafter *d)
{
	uint32_t most = d->most > d->batch ? d->most : d->batch;

	return most ? most : 1;
}

/* Close a drafter and zero it, so that closing it again has no effect. */
static inline void drafter_close(struct drafter *d)
{
	if (d->close)
		d->close(d->arg);
	*d = (struct drafter){ 0 };
}

#endif
