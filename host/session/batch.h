/*
 * Rows as the device is told them: for each where it stands, where its keys and
 * values go, and what it sees (struct wire_graph_run has the layout). Here it
 * is decided what the three kinds of visibility are on the wire:
 *
 *   A tree's rows go behind their sequence, in their order; each sees spans of
 *   the cache up to its root, and rows of the batch by their bits: its
 *   ancestors and itself.
 *   All others go to their own positions and see spans alone, for there they
 *   find one another as well. So the order of summation is that of positions.
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
	int32_t last;               /* row of it seen so far; -1: none */
	uint32_t end, first, spans; /* the list of spans made last */
};

struct batch {
	struct rows rows; /* borrowed */
	uint32_t n_parts;
	struct batch_part part[ROWS_SEQUENCES];
	struct claim claim[ROWS_SEQUENCES]; /* [n_parts] to be met first */
};

struct batch_limits {
	/* The model's attention: trees, or the others; of a model with blocks
	 * trees, and blocks of so many positions at most. */
	bool causal;
	uint32_t block_length;
	uint32_t rows; /* of the largest graph */
	uint32_t n_vocab, context;
};

/* Rows as rows.h wants them; else -EINVAL, or -ENOSPC when the context is full
 * whatever else is cached. */
int batch_init(struct batch *, const struct rows *, const struct batch_limits *,
	const struct sequences *, struct err *);

/*
 * Of each row the position of its keys and values in its sequence, and the row
 * that it is kept behind: its parent or, where there is none, the row before it
 * in its sequence; -1: none. at[n], above[n].
 */
void batch_place(struct batch *, uint32_t *at, int32_t *above);

/* Bytes of so many rows and spans. */
size_t batch_bytes(uint32_t rows, uint32_t spans);

/*
 * Write it to dst, which holds batch_bytes() of `room` spans; fills run's rows,
 * n_spans and mask_words. -ENOSPC when there are more spans.
 */
int batch_fill(void *dst, struct batch *, const struct sequences *,
	const uint32_t *at, uint32_t room, struct wire_graph_run *run,
	struct err *);

/* Slots that the row which sees the most sees, of what batch_fill has written
 * and told `run`. */
uint32_t batch_longest(const void *filled, const struct wire_graph_run *run);

/*
 * What the rows see, cut up (tensor/visibility.h), into the beginning of
 * `room`, which holds batch_cut_bytes(); how many pieces.
 */
size_t batch_cut_bytes(uint32_t rows, uint32_t spans);
uint32_t batch_cut(
	const void *filled, const struct wire_graph_run *run, void *room);

/* Whether it is one sequence's rows, each behind the one before it. */
bool batch_is_chain(const struct batch *);
/*
 * Rows [first, first + n) of a chain as a batch of their own, which finds those
 * before them in the cache. Their rows are put into row[n]; *out may be filled
 * once what is claimed is.
 */
void batch_part_of(const struct batch *chain, uint32_t first, uint32_t n,
	struct row *row, struct batch *out);

#endif
