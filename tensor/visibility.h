/*
 * What the rows of a pass see of a cache, and what of it they see in common.
 * Rows see slots: those of spans, and behind them some of their own. Where
 * sequences were forked from one another their rows' spans begin with the same
 * slots, which kernels read once for rows that stand beside one another, and
 * whoever prices attention counts once (Juravsky et al., "Hydragen", 2024; its
 * tree of shared prefixes).
 *
 * It refuses nothing: what a row says was checked by who took it. No
 * allocation, no state, any thread.
 */
#ifndef TENSOR_VISIBILITY_H
#define TENSOR_VISIBILITY_H

#include <stdint.h>

struct kern_span;

struct row_visibility {
	const struct kern_span *span; /* [n_spans] */
	uint32_t n_spans;
	uint32_t own; /* slots behind those of the spans */
};

/* Slots that one row sees. */
uint64_t row_visibility_slots(const struct row_visibility *);

/*
 * The rows 0 .. n - 1 such that those whose spans begin with the same slots
 * stand beside one another, in the order of their numbers where all spans are
 * the same.
 */
void visibility_order(
	const struct row_visibility *, uint32_t n, uint32_t *order);

/* `rows` rows see these slots in common, and no other row does. */
struct visibility_piece {
	uint32_t rows, slots;
};

/*
 * All that n >= 1 rows see, cut up, into piece[2 * n]; how many pieces. Rows
 * are one and see what the one that sees the most sees if the spans of each
 * begin with those of the one before: rows of one sequence, in a tree or not,
 * whose visibility are masks on the same stretch of slots.
 */
uint32_t visibility_cut(const struct row_visibility *, const uint32_t *order,
	uint32_t n, struct visibility_piece *piece);

#endif
