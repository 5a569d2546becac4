/*
 * The rows of one run, as the host described them in shared memory: copied
 * once, then checked, then used. The host may write that memory at any time;
 * after rowset_take nobody looks at it again.
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
	struct wire_row *row;              /* [rows] */
	struct kern_span *span;            /* [n_spans] */
	uint64_t *mask;                    /* [rows][mask_words] */
	struct row_visibility *visibility; /* [rows]: what each sees */
	uint32_t *order;     /* [rows]: as visibility_order has it */
	uint64_t seen_slots; /* of all rows: a slot for each that sees it */
	uint64_t *seen;      /* bit a slot: some row attends to it */
	uint64_t *written;   /* bit a slot: some row's own */
};

/* Bytes that WIRE_REF_ROWS must hold for this run. */
uint64_t rowset_bytes(const struct wire_graph_run *);

/* Check the run's own numbers against the graph. */
int rowset_check_run(
	const struct wire_graph_run *, const struct graph *, struct err *);

/*
 * Copy rowset_bytes() from `from` into the graph's places in `arena` and
 * check the copy: slots and spans exist, no two rows share a slot, every row
 * sees at least one slot and no more than there can be.
 */
int rowset_take(struct rowset *, const struct wire_graph_run *,
	const struct graph *, void *arena, const void *from, struct err *);

/* The slots of the rows that row i sees, into slot[]; it sees them behind those
 * of its spans. */
uint32_t rowset_own(const struct rowset *, uint32_t i, uint32_t *slot);

/* What rows see in common, or each `apart`: into piece[2 * rows], how many. */
uint32_t rowset_pieces(
	const struct rowset *, bool apart, struct visibility_piece *piece);

/* The next run of set bits at or behind *run's end; start with {0, 0}. */
bool rowset_next(
	const struct rowset *, const uint64_t *bits, struct wire_span *run);

#endif
