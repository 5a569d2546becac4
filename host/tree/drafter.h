/*
 * What tells a tree's builder which tokens may come next: a draft model on the
 * host, the same on the device, or an oracle for speed studies.
 *
 * begin() starts a tree behind a text; expand() fills the candidates of some of
 * its nodes (tree.h), none of them expanded before, all their ancestors
 * expanded. Candidates depend on the text and the path alone, not on the order
 * of expansions nor on how they were grouped.
 *
 * Builders add nodes, drop some and number the rest anew (tree_keep) between
 * two expansions. A drafter knows a node again by tree->row[node], which is its
 * own to write and moves with the node.
 */
#ifndef HOST_TREE_DRAFTER_H
#define HOST_TREE_DRAFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct price;
struct tree;

/* One of several trees that are begun, or of which nodes are expanded. */
struct drafter_ask {
	void *arg; /* of its drafter */
	struct tree *tree;
	const int32_t *text; /* [n_text]; of begin_all */
	size_t n_text;
	const uint32_t *node; /* [n]; of expand_all */
	uint32_t n;
};

struct drafter {
	void *arg;
	/*
	 * The tree is reset to the root text[n - 1], and the root expanded.
	 * What an earlier tree has computed of the text is used again.
	 */
	int (*begin)(void *arg, struct tree *, const int32_t *text, size_t n,
		struct err *);
	/* As many of the n >= 1 nodes, which may be more than `batch`, as have
	 * room in the draft's context; the rest has no candidates afterwards
	 * and is not asked for again. */
	int (*expand)(void *arg, struct tree *, const uint32_t *node,
		uint32_t n, struct err *);
	/*
	 * begin() and expand() of the trees of several requests at once, whose
	 * drafters were opened like one another: for less time, and with the
	 * same result. What it costs is the first one's. NULL, both: one by
	 * one.
	 */
	int (*begin_all)(const struct drafter_ask *, uint32_t n, struct err *);
	int (*expand_all)(const struct drafter_ask *, uint32_t n, struct err *);
	/* Nodes that are best expanded together; 1: one by one. A builder that
	 * weighs what each number takes may ask for up to `most`; 0: it has
	 * nothing to choose. */
	uint32_t batch, most;
	/* Behind a node of which nothing is known there may be some of which
	 * something is. Else no candidates mean that there was no room. */
	bool resumes;
	/*
	 * The text is this now, after a verification: what of the last tree
	 * came true is kept, the rest is dropped. NULL: begin() is soon enough.
	 */
	void (*saw)(void *arg, const int32_t *text, size_t n);
	/*
	 * Before that, of a tree just verified: the target's logits [n_vocab]
	 * behind a node. Of the nodes on the way that came true, of those that
	 * were so likely to be on it that theirs were computed with these, and
	 * with `all_rows`, of all, in their order. NULL: it has no use for
	 * them.
	 */
	void (*computed)(void *arg, const struct tree *, uint32_t node,
		const float *logits, uint32_t n_vocab);
	bool all_rows;
	/*
	 * While the target reads a prompt: whether the logits behind its token
	 * `at` are wanted, and those, in order, or more of them, which another
	 * drafter wanted. What they cost is the caller's to count. NULL, both
	 * or none: no use for them.
	 */
	bool (*wants)(void *arg, const int32_t *prompt, size_t n, size_t at);
	void (*read)(
		void *arg, size_t at, const float *logits, uint32_t n_vocab);
	/* What a phone's processor would have worked for it since last asked,
	 * added to *sum. NULL: nothing. */
	void (*price)(void *arg, struct price *sum);
	void (*close)(void *arg); /* NULL: there is nothing to close */
};

/* Nodes that it may be asked of at once by who weighs how many; >= 1. */
static inline uint32_t drafter_most(const struct drafter *d)
{
	uint32_t most = d->most > d->batch ? d->most : d->batch;

	return most ? most : 1;
}

/* It is zeroed then, and may be closed again. */
static inline void drafter_close(struct drafter *d)
{
	if (d->close)
		d->close(d->arg);
	*d = (struct drafter){ 0 };
}

#endif
