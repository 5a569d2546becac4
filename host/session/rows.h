/*
 * What a pass computes: rows, each of which says which token, at which
 * position, of which sequence, and what it sees. Plain data, which the caller
 * owns; any thread.
 *
 * Three kinds of visibility, one for all rows of a pass:
 *
 *   VISIBILITY_TREE    what is cached of the row's sequence before the root
 * that it hangs from, its ancestors, and itself. Autoregressive rows: a chain
 * is a tree. A root stands at most where the cached tokens end; a child one
 * behind its parent, which comes before it. What is computed lies behind the
 * sequence until a path of it is kept. VISIBILITY_WINDOW  all of its sequence,
 * cached and computed, both ways. VISIBILITY_BLOCK   of that what is before
 * `end`, where the row's block ends: all finished blocks and its own.
 *
 * Rows of the latter two are written at their positions, over what was cached
 * there; a sequence's ascend, and those behind its end follow without a gap.
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
		int32_t parent; /* VISIBILITY_TREE: a row, or -1 of a root */
		uint32_t end;   /* VISIBILITY_BLOCK: a position */
	};
	bool prompt; /* it reads one: for the counts, and for nothing else */
};

struct rows {
	enum visibility visibility;
	uint32_t n;
	const struct row *row;
	/* [n] states that rows begin with, [n_embd] float32 each, where the
	 * model's layers stand behind another's (model->behind), in the place
	 * of their tokens' embeddings; else NULL. */
	const float *const *state;
};

/* A token tree behind `position` tokens into row[n]: parent[i] < i, or -1 for a
 * row that follows them directly; NULL: a chain. */
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
