/*
 * The slots of a KV cache that the rows of a pass see, and the slots that
 * several rows share. A row sees the slots of its spans, followed by slots of
 * its own. The spans of rows of forked sequences begin with the same slots,
 * which kernels read once for adjacent rows and the cost model counts once (the
 * tree of shared prefixes of Juravsky et al., "Hydragen", 2024).
 *
 * Nothing is checked: callers check rows when they receive them. No allocation,
 * no state, any thread.
 */
#ifndef TENSOR_VISIBILITY_H
#define TENSOR_VISIBILITY_H

#include <stdint.h>

struct kern_span;

struct row_visibility {
	const struct kern_span *span; /* [n_spans] */
	uint32_t n_spans;
	uint32_t own; /* slots after those of the spans */
};

/* Slots that one row sees. */
uint64_t row_visibility_slots(const struct row_visibility *);

/*
 * Sort the rows 0 .. n - 1 so that rows whose spans begin with the same slots
 * are adjacent; rows with equal spans stay in order.
 */
void visibility_order(
	const struct row_visibility *, uint32_t n, uint32_t *order);

/* Slots that exactly `rows` rows see. */
struct visibility_piece {
	uint32_t rows, slots;
};

/*
 * Divide the slots that n >= 1 rows see into pieces, to piece[2 * n]; returns
 * their number. Rows of which each row's spans begin with those of the row
 * before form one group, which counts as seeing the most slots of any of them:
 * rows of one sequence, in a tree or not, which differ only in their masks.
 */
uint32_t visibility_cut(const struct row_visibility *, const uint32_t *order,
	uint32_t n, struct visibility_piece *piece);

#endif
