/*
 * The rows (tokens) of one run, which the host describes in shared memory. The
 * description is copied once, then checked, then used. The host may write
 * shared memory at any time, so this memory is not read again after
 * rowset_take.
 */
#ifndef DEVICE_ROWSET_H
#define DEVICE_ROWSET_H

#include "ipc/wire.h"
#include "tensor/kern.h"
#include "tensor/visibility.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct graph;

struct rowset {
	uint32_t rows, n_spans, mask_words, kv_slots;
	struct wire_row *row;   /* [rows] */
	struct kern_span *span; /* [n_spans] */
	/* [rows][mask_words] bit j of the mask of row i is set if row i attends
	 * to row j */
	uint64_t *mask;
	/* [rows] the slots to which each row attends */
	struct row_visibility *visibility;
	/* [rows] the rows in the order of visibility_order: rows with common
	 * slots are adjacent */
	uint32_t *order;
	/* sum over the rows of the number of slots to which a row attends */
	uint64_t seen_slots;
	/* one bit for each KV slot: 1 if at least one row attends to the
	 * slot */
	uint64_t *seen;
	/* one bit for each KV slot: 1 if a row writes the slot */
	uint64_t *written;
};

/* The number of bytes that the reference WIRE_REF_ROWS of this run must have at
 * least. */
uint64_t rowset_bytes(const struct wire_graph_run *);

/* Check the numbers in the run's message against the graph. */
int rowset_check_run(
	const struct wire_graph_run *, const struct graph *, struct err *);

/*
 * Copy rowset_bytes() bytes from `from` to `arena`, at the offsets that the
 * graph's layout gives, and check the copy: slots and spans (ranges of slots)
 * exist, no two rows write the same slot, every row attends to at least one
 * slot, and to at most kv_slots + rows slots.
 */
int rowset_take(struct rowset *, const struct wire_graph_run *,
	const struct graph *, void *arena, const void *from, struct err *);

/* Row i attends to the rows of this run that its mask selects. Write the KV
 * slots of the selected rows to slot[], and return their number. Attention
 * reads these slots after the slots of the row's spans. */
uint32_t rowset_own(const struct rowset *, uint32_t i, uint32_t *slot);

/* Divide the slots to which the rows attend into pieces. The slots of a piece
 * are read once for all rows that attend to them (tensor/visibility.h). Write
 * the pieces to piece[2 * rows], and return their number. With `apart`, each
 * row reads all of its slots: there is one piece for each row. */
uint32_t rowset_pieces(
	const struct rowset *, bool apart, struct visibility_piece *piece);

/* Find the next range of adjacent set bits that begins at or after the end of
 * the range *run, and write it to *run. Start with {0, 0}. Returns false if no
 * set bit is left. */
bool rowset_next(
	const struct rowset *, const uint64_t *bits, struct wire_span *run);

#endif
