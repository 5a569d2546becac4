/*
 * The rows of a pass: each row is a token at a position of a sequence, with an
 * attention mask. The structs are plain data, which the caller owns and any
 * thread may use.
 *
 * All rows of a pass have the same kind of mask:
 *
 *   VISIBILITY_TREE    The row attends to the cached tokens of its sequence at
 *                      lower positions than its root (its ancestor without a
 *                      parent), to its ancestors, and to itself. This kind is
 *                      for autoregressive decoding; a chain of tokens is a
 *                      special case of a tree. The position of a root is at
 *                      most the number of cached tokens. The position of a
 *                      child is the position of its parent + 1; the parent has
 *                      a lower row number. The rows are stored after the cached
 *                      tokens of the sequence until a path of rows is accepted.
 *   VISIBILITY_WINDOW  The row attends to its whole sequence, cached tokens
 *                      and rows, in both directions.
 *   VISIBILITY_BLOCK   The row attends to its sequence, cached tokens and
 *                      rows, up to `end`, where the row's block ends: to all
 *                      finished blocks and to its own block.
 *
 * Rows of windows and blocks are stored at their positions and overwrite the
 * tokens that are cached there. The positions of a sequence's rows ascend. Rows
 * beyond the cached tokens have the positions that follow the cached tokens,
 * without a gap.
 */
#ifndef HOST_SESSION_ROWS_H
#define HOST_SESSION_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#define ROWS_SEQUENCES 64 /* maximum number of sequences in a pass */

enum visibility { VISIBILITY_TREE, VISIBILITY_WINDOW, VISIBILITY_BLOCK };

struct row {
	int32_t token;
	uint32_t position, sequence;
	union {
		/* VISIBILITY_TREE: number of the parent row, or -1 for a
		 * root */
		int32_t parent;
		/* VISIBILITY_BLOCK: the position where the row's block ends */
		uint32_t end;
	};
	/* whether the row belongs to a prompt; the member affects counters
	 * only */
	bool prompt;
};

struct rows {
	enum visibility visibility;
	uint32_t n;
	const struct row *row;
	/* [n] input states, [n_embd] float32 each, instead of token embeddings.
	 * Required for a model whose layers follow another model's layers
	 * (model->layers_before); NULL for all other models. */
	const float *const *state;
};

/* Fill row[n] with a token tree that follows the first `position` tokens of the
 * sequence. parent[i] is the number of an earlier row, or -1 for a row that
 * directly follows these tokens. If `parent` is NULL, the rows form a chain. */
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
