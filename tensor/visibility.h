/*
 * The slots of a KV cache to which the rows of a forward pass attend, and the
 * slots that several rows share. A row attends to the slots of its spans
 * (ranges of adjacent slots), then to slots that rows of the same pass write,
 * such as earlier nodes of a tree of drafts. The rows of sequences with a
 * common prefix have spans that begin with the same slots. Kernels read these
 * common slots once for adjacent rows, and the cost model counts a common slot
 * once, as in the tree of shared prefixes of Juravsky et al., "Hydragen", 2024.
 *
 * Arguments are not checked, because callers check rows when they receive them.
 * The functions allocate nothing and have no state; any thread may call them.
 */
#ifndef TENSOR_VISIBILITY_H
#define TENSOR_VISIBILITY_H

#include <stdint.h>

struct kern_span;

struct row_visibility {
	const struct kern_span *span; /* [n_spans] */
	uint32_t n_spans;
	/* number of slots to which the row attends after its spans: slots that
	 * rows of the same pass write */
	uint32_t own;
};

/* The number of slots to which one row attends. */
uint64_t row_visibility_slots(const struct row_visibility *);

/* Write to `order` the rows 0 .. n - 1, sorted so that rows whose spans begin
 * with the same slots are adjacent. Rows with equal spans keep their order. */
void visibility_order(
	const struct row_visibility *, uint32_t n, uint32_t *order);

/* A piece of the KV cache: `slots` slots, to each of which the same `rows` rows
 * attend. */
struct visibility_piece {
	uint32_t rows, slots;
};

/*
 * Divide the slots to which n >= 1 rows attend into pieces, and return the
 * number of pieces. The array `piece` has room for 2 * n pieces. Consecutive
 * rows (in the order of visibility_order) form one group if each row's spans
 * begin with all spans of the row before it. Such rows belong to one sequence
 * (possibly to a tree of drafts) and differ only in their masks. Every row of a
 * group is assumed to attend to as many slots as the row of the group that
 * attends to most.
 */
uint32_t visibility_cut(const struct row_visibility *, const uint32_t *order,
	uint32_t n, struct visibility_piece *piece);

#endif
