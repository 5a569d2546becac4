/*
 * What the files of the cost model share. Counts to times, and times to a
 * price.
 */
#ifndef TENSOR_SOC_PRICE_IMPL_H
#define TENSOR_SOC_PRICE_IMPL_H

#include "tensor/soc/price.h"

#include <stdbool.h>

struct hvx;

static inline uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static inline uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool price_fits(uint64_t v)
{
	return v > 0 && v <= PRICE_MAX;
}

uint64_t price_bytes_ps(uint64_t bytes, double per_s);
uint64_t price_matrix_ps(const struct soc *, uint64_t tiles);
uint64_t price_dma_ps(const struct soc *, uint64_t bytes, uint64_t descriptors);

/*
 * Vector work that divides into `parts` equal ones, each on one unit: units
 * that find no part in the last round are idle in it.
 */
uint64_t price_vector_ps(
	const struct soc *, uint64_t packets, uint64_t gathers, uint64_t parts);

/* Work that can be cut anywhere. */
uint64_t price_vector_even_ps(
	const struct soc *, uint64_t packets, uint64_t gathers);

/*
 * Total, energy and launch of an operator. The engines work on pieces, one
 * behind the other: each waits for its first piece to come through those
 * before it, and from then on the slowest sets the pace. `first` has the times
 * of one piece, none longer than in *p; all zero when nothing waits.
 */
void price_finish(
	const struct soc *, struct price *p, const struct price *first);

/* Time of the vector units that nothing hides, added. */
void price_add_vector(const struct soc *, double seconds, struct price *p);

/* What lies between operators stays in L2 if it fits there, and is read from
 * and written to DDR if it does not. */
void price_spill(const struct soc *, uint64_t bytes, struct price *p);

/* The CPU, busy for so long. */
void price_cpu_busy(const struct soc *, double seconds, struct price *out);

/* Two rows of 32 float32 to a vector of a tile, and the way back; the packets
 * of [rows][n]. */
extern const struct hvx price_to_tile, price_from_tile;
uint64_t price_row_packets(
	const struct soc *, const struct hvx *body, uint64_t rows, uint64_t n);

#endif
