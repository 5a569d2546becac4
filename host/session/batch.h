/*
 * The rows of a pass in the form that the device receives: for each row its
 * position, the slot for its keys and values, and its attention mask (struct
 * wire_graph_run has the layout). This file defines how the three kinds of
 * visibility are encoded:
 *
 *   Rows of a tree are stored after their sequence, in their order; each
 *   attends to spans of the cache up to its root and, by a bit mask, to rows
 *   of the batch: its ancestors and itself.
 *   All others are stored at their own positions and attend to spans alone,
 *   which include the pass's other rows. So sums are in order of positions.
 */
#ifndef HOST_SESSION_BATCH_H
#define HOST_SESSION_BATCH_H

#include "host/session/rows.h"
#include "host/session/sequence.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct wire_graph_run;

/* The rows of a sequence. */
struct batch_part {
	uint32_t length; /* cached before */
	uint32_t rows;
	int32_t last;               /* its last row so far; -1: none */
	uint32_t end, first, spans; /* the last list of spans */
};

struct batch {
	struct rows rows; /* borrowed */
	uint32_t n_parts;
	struct batch_part part[ROWS_SEQUENCES];
	/* [n_parts] to be satisfied first */
	struct claim claim[ROWS_SEQUENCES];
};

struct batch_limits {
	/* The model's attention: causal models take trees, others the other
	 * kinds; models with blocks take trees, and blocks of at most
	 * block_length positions. */
	bool causal;
	uint32_t block_length;
	uint32_t rows; /* of the largest graph */
	uint32_t n_vocab, context;
};

/* Check the rows against rows.h; -EINVAL, or -ENOSPC when the context is too
 * short even with an empty cache. */
int batch_init(struct batch *, const struct rows *, const struct batch_limits *,
	const struct sequences *, struct err *);

/*
 * For each row the position of its keys and values in its sequence, and the row
 * that must be accepted before it: its parent or, without one, the row before
 * it in its sequence; -1: none. at[n], above[n].
 */
void batch_place(struct batch *, uint32_t *at, int32_t *above);

/* Bytes of `rows` rows and `spans` spans. */
size_t batch_bytes(uint32_t rows, uint32_t spans);

/*
 * Write the batch to dst, which has room for batch_bytes() of `room` spans;
 * sets run's rows, n_spans and mask_words. -ENOSPC when there are more spans.
 */
int batch_fill(void *dst, struct batch *, const struct sequences *,
	const uint32_t *at, uint32_t room, struct wire_graph_run *run,
	struct err *);

/* Number of slots that the row with the most attends to, in a batch that
 * batch_fill has written for `run`. */
uint32_t batch_longest(const void *filled, const struct wire_graph_run *run);

/*
 * Cut the rows' masks into common pieces (tensor/visibility.h), at the start of
 * `room`, which has batch_cut_bytes(); returns the number of pieces.
 */
size_t batch_cut_bytes(uint32_t rows, uint32_t spans);
uint32_t batch_cut(
	const void *filled, const struct wire_graph_run *run, void *room);

/* Whether the rows are one sequence's, each the child of the one before it. */
bool batch_is_chain(const struct batch *);
/*
 * Rows [first, first + n) of a chain as a batch of their own, which finds the
 * rows before them in the cache. The rows are written to row[n]; *out can be
 * filled once the claims are satisfied.
 */
void batch_part_of(const struct batch *chain, uint32_t first, uint32_t n,
	struct row *row, struct batch *out);

#endif
