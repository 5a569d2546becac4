/*
 * The rows of a pass in the form in which they are sent to the device: for each
 * row its position, the cache slot for its keys and values, and its attention
 * mask (struct wire_graph_run describes the layout). The three kinds of
 * visibility (the rules by which rows attend to positions, rows.h) are encoded
 * as follows:
 *
 *   - VISIBILITY_TREE: the rows are stored after the end of their sequence, in
 *     the order of the batch. Each row attends to spans (ranges of adjacent
 *     slots) of the cache that end before the row's root (its ancestor without
 *     a parent) and, by a bit mask, to rows of the batch: the row's ancestors
 *     and the row itself.
 *   - VISIBILITY_WINDOW and VISIBILITY_BLOCK: each row is stored at its own
 *     position. The rows attend to spans of the cache only. The spans also
 *     contain the other rows of the pass, so attention sums values in the order
 *     of positions.
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

/* The rows of a pass that belong to one sequence. */
struct batch_part {
	/* number of cached tokens of the sequence before the pass */
	uint32_t length;
	uint32_t rows;
	/* index of the sequence's last row among the rows processed so far; -1
	 * if there is none */
	int32_t last;
	/* The list of spans that was written last for this sequence. end: the
	 * position where the last span ends. first: index of the first span.
	 * spans: number of spans. */
	uint32_t end, first, spans;
};

struct batch {
	struct rows rows; /* the array rows.row belongs to the caller */
	uint32_t n_parts;
	struct batch_part part[ROWS_SEQUENCES];
	/* [n_parts] for each sequence, the positions whose cache slots the
	 * caller must claim (sequences_claim) before batch_fill */
	struct claim claim[ROWS_SEQUENCES];
};

struct batch_limits {
	/* The kinds of visibility (rows.h) that the model allows. Causal
	 * models: trees. Models with a block_length: trees, and blocks of up to
	 * block_length positions. All other models: windows and blocks. */
	bool causal;
	uint32_t block_length;
	uint32_t rows; /* number of rows of the largest graph */
	uint32_t n_vocab, context;
};

/* Check the rows against the rules in rows.h. Returns 0, -EINVAL, or -ENOSPC if
 * a sequence would become longer than the context. */
int batch_init(struct batch *, const struct rows *, const struct batch_limits *,
	const struct sequences *, struct err *);

/*
 * Set at[i] to the position of row i's keys and values in its sequence. Set
 * above[i] to the row that must be accepted directly before row i: in a tree
 * its parent, otherwise the previous row of its sequence; -1 if there is none.
 * Both arrays have one entry per row.
 */
void batch_place(struct batch *, uint32_t *at, int32_t *above);

/* Size in bytes of a batch of `rows` rows and `spans` spans. */
size_t batch_bytes(uint32_t rows, uint32_t spans);

/*
 * Write the batch to dst, which must have space for all rows and for `room`
 * spans (batch_bytes). Sets run's rows, n_spans and mask_words. Returns 0, or
 * -ENOSPC if the batch has more than `room` spans.
 */
int batch_fill(void *dst, struct batch *, const struct sequences *,
	const uint32_t *at, uint32_t room, struct wire_graph_run *run,
	struct err *);

/* Return the largest number of cache slots that a row of the batch attends to.
 * `filled` and `run` are results of batch_fill. */
uint32_t batch_longest(const void *filled, const struct wire_graph_run *run);

/*
 * Divide the cache slots to which the rows attend into pieces: the same rows
 * attend to all slots of a piece (tensor/visibility.h). The pieces are written
 * to the start of `room`, which the caller allocates with batch_cut_bytes()
 * bytes. Returns the number of pieces.
 */
size_t batch_cut_bytes(uint32_t rows, uint32_t spans);
uint32_t batch_cut(
	const void *filled, const struct wire_graph_run *run, void *room);

/* Whether all rows belong to one sequence, the first row follows the cached
 * tokens of the sequence, and each other row is the child of the previous
 * row. */
bool batch_is_chain(const struct batch *);
/*
 * Make rows [first, first + n) of a chain into a separate batch. The rows of
 * this batch attend to the chain's earlier rows through the cache, not through
 * the bit mask. The rows are written to row[n]. Call batch_fill on *out only
 * after the slots in out->claim have been claimed (sequences_claim).
 */
void batch_part_of(const struct batch *chain, uint32_t first, uint32_t n,
	struct row *row, struct batch *out);

#endif
