/*
 * Shared by the files of the cost model: from counts to times, and from times
 * to a price.
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
 * Vector work of `parts` equal parts, each on one unit: in the last round units
 * without a part are idle.
 */
uint64_t price_vector_ps(
	const struct soc *, uint64_t packets, uint64_t gathers, uint64_t parts);

/* Work that can be divided anywhere. */
uint64_t price_vector_even_ps(
	const struct soc *, uint64_t packets, uint64_t gathers);

/*
 * Total, energy and launch of an operator. The engines form a pipeline over
 * pieces: each waits until the first piece has passed the engines before it,
 * and then the slowest engine sets the pace. `first` has the times of one
 * piece, none longer than in *p; all zero when nothing waits.
 */
void price_finish(
	const struct soc *, struct price *p, const struct price *first);

/* Add time of the vector units that overlaps with nothing. */
void price_add_vector(const struct soc *, double seconds, struct price *p);

/* Data passed between operators stays in L2 if `bytes` fit there, else it is
 * written to and read from DDR. */
void price_spill(const struct soc *, uint64_t bytes, struct price *p);

/* The CPU, busy for `seconds`. */
void price_cpu_busy(const struct soc *, double seconds, struct price *out);

/* Two rows of 32 float32 values to a vector of a tile, and back; and the
 * packets for [rows][n] values. */
extern const struct hvx price_to_tile, price_from_tile;
uint64_t price_row_packets(
	const struct soc *, const struct hvx *body, uint64_t rows, uint64_t n);

#endif
