/*
 * The slots of a KV cache that the rows of a forward pass see, and the slots
 * that several rows share. A row sees the slots of its spans, followed by slots
 * that only it sees. The rows of sequences with a common prefix have spans that
 * begin with the same slots. Kernels read these slots once for adjacent rows,
 * and the cost model counts them once (the tree of shared prefixes of Juravsky
 * et al., "Hydragen", 2024).
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
	uint32_t own; /* number of slots that only this row sees */
};

/* The number of slots that one row sees. */
uint64_t row_visibility_slots(const struct row_visibility *);

/* Write to `order` the rows 0 .. n - 1, sorted so that rows whose spans begin
 * with the same slots are adjacent. Rows with equal spans keep their order. */
void visibility_order(
	const struct row_visibility *, uint32_t n, uint32_t *order);

/* A piece of the cache: `slots` slots that are seen by the same `rows` rows. */
struct visibility_piece {
	uint32_t rows, slots;
};

/*
 * Divide the slots that n >= 1 rows see into pieces, written to piece[2 * n],
 * and return the number of pieces. Consecutive rows form one group if each
 * row's spans begin with all spans of the row before it. Such rows belong to
 * one sequence (possibly to a tree of drafts) and differ only in their masks.
 * In a group, every row counts as if it saw as many slots as the row that sees
 * most.
 */
uint32_t visibility_cut(const struct row_visibility *, const uint32_t *order,
	uint32_t n, struct visibility_piece *piece);

#endif
