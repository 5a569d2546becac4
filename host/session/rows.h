/*
 * The rows of a pass: each is a token at a position of a sequence, with an
 * attention mask. Plain data owned by the caller; any thread.
 *
 * All rows of a pass have the same kind of mask:
 *
 *   VISIBILITY_TREE    the row attends to the cached tokens of its sequence
 *                      before its root, to its ancestors, and to itself.
 *                      Autoregressive rows: a chain is a tree. A root's
 *                      position is at most the number of cached tokens; a
 *                      child's is its parent's + 1, and the parent comes
 *                      first. The rows are stored after the sequence until a
 *                      path of them is kept.
 *   VISIBILITY_WINDOW  the row attends to all of its sequence, cached tokens
 *                      and rows, in both directions.
 *   VISIBILITY_BLOCK   the same, up to `end`, where the row's block ends: all
 *                      finished blocks and its own.
 *
 * Rows of the latter two kinds are written at their positions, over the cached
 * tokens there; positions of a sequence ascend, and those after its end follow
 * without a gap.
 */
#ifndef HOST_SESSION_ROWS_H
#define HOST_SESSION_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#define ROWS_SEQUENCES 64 /* in a pass, at most */

enum visibility { VISIBILITY_TREE, VISIBILITY_WINDOW, VISIBILITY_BLOCK };

struct row {
	int32_t token;
	uint32_t position, sequence;
	union {
		int32_t parent; /* VISIBILITY_TREE: a row, or -1 for a root */
		uint32_t end;   /* VISIBILITY_BLOCK: a position */
	};
	bool prompt; /* part of a prompt; affects counters only */
};

struct rows {
	enum visibility visibility;
	uint32_t n;
	const struct row *row;
	/* [n] input states, [n_embd] float32 each, which replace the tokens'
	 * embeddings if the model's layers follow another model's
	 * (model->layers_before); else NULL. */
	const float *const *state;
};

/* Make row[n] of a token tree after `position` tokens: parent[i] < i, or -1 for
 * a row that follows them directly; NULL: a chain. */
static inline void rows_tree(struct row *row, uint32_t sequence,
	uint32_t position, const int32_t *token, const int32_t *parent,
	uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		int32_t above = parent ? parent[i] : (int32_t)i - 1;

		row[i] = (struct row){ .token = token[i],
			.position = position,
			.sequence = sequence,
			.parent = above };
		if (above >= 0 && above < (int32_t)i)
			row[i].position = row[above].position + 1;
	}
}

#endif
