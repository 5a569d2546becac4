/*
 * The rows of one run, which the host describes in shared memory: copied once,
 * then checked, then used. The host may write that memory at any time, so it is
 * not read again after rowset_take.
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
	struct row_visibility *visibility; /* [rows]: slots that each sees */
	uint32_t *order;                   /* [rows]: by visibility_order */
	uint64_t seen_slots; /* sum over the rows of the slots that each sees */
	uint64_t *seen;      /* a bit for each slot: some row attends to it */
	uint64_t *written;   /* a bit for each slot: some row writes it */
};

/* Bytes of WIRE_REF_ROWS for this run, at least. */
uint64_t rowset_bytes(const struct wire_graph_run *);

/* Check the run's own numbers against the graph. */
int rowset_check_run(
	const struct wire_graph_run *, const struct graph *, struct err *);

/*
 * Copy rowset_bytes() bytes at `from` to the graph's offsets in `arena` and
 * check the copy: slots and spans exist, no two rows write the same slot, every
 * row sees at least one slot and at most as many as exist.
 */
int rowset_take(struct rowset *, const struct wire_graph_run *,
	const struct graph *, void *arena, const void *from, struct err *);

/* Write the slots of the request's rows that row i sees to slot[] and return
 * their number. In the order of attention they follow the slots of its spans.
 */
uint32_t rowset_own(const struct rowset *, uint32_t i, uint32_t *slot);

/* Write the pieces of slots that rows share, or with `apart` one piece for each
 * row, to piece[2 * rows] and return their number. */
uint32_t rowset_pieces(
	const struct rowset *, bool apart, struct visibility_piece *piece);

/* The next run of set bits at or after *run's end; start with {0, 0}. */
bool rowset_next(
	const struct rowset *, const uint64_t *bits, struct wire_span *run);

#endif
