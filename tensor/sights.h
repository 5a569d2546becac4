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
#ifndef TENSOR_SIGHTS_H
#define TENSOR_SIGHTS_H

#include <stdint.h>

struct kern_span;

struct row_sight {
	const struct kern_span *span; /* [n_spans] */
	uint32_t n_spans;
	uint32_t own; /* slots behind those of the spans */
};

/* Slots that one row sees. */
uint64_t row_sight_slots(const struct row_sight *);

/*
 * The rows 0 .. n - 1 such that those whose spans begin with the same slots
 * stand beside one another, in the order of their numbers where all spans are
 * the same.
 */
void sights_order(const struct row_sight *, uint32_t n, uint32_t *order);

/* `rows` rows see these slots in common, and no other row does. */
struct sight_piece {
	uint32_t rows, slots;
};

/*
 * All that n >= 1 rows see, cut up, into piece[2 * n]; how many pieces. Rows
 * are one and see what the one that sees the most sees if the spans of each
 * begin with those of the one before: rows of one sequence, in a tree or not,
 * whose sights are masks on the same stretch of slots.
 */
uint32_t sights_cut(const struct row_sight *, const uint32_t *order, uint32_t n,
	struct sight_piece *piece);

#endif
