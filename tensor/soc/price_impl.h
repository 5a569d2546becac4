/* Functions that the files of the cost model (tensor/soc/price*.c) share: they
 * compute times from counts, and a price from times. */
#ifndef TENSOR_SOC_PRICE_IMPL_H
#define TENSOR_SOC_PRICE_IMPL_H

#include "tensor/soc/hvx.h"
#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"
#include "tensor/tile.h"

#include <stdbool.h>

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

static inline uint64_t price_bytes_ps(uint64_t bytes, double per_s)
{
	return price_ps((double)bytes / per_s);
}

static inline uint64_t price_matrix_ps(const struct soc *soc, uint64_t tiles)
{
	return price_ps(
		(double)tiles * soc->matrix_cycles_per_tile / soc->clock_hz);
}

static inline uint64_t price_dma_ps(
	const struct soc *soc, uint64_t bytes, uint64_t descriptors)
{
	return price_ps((double)bytes / soc->dma_bytes_per_s +
		(double)descriptors * soc->dma_descriptor_s);
}

/* The time of vector work that is divided into `parts` equal parts, each for
 * one vector unit. A unit that has no part is idle while the other units
 * process the last parts. */
uint64_t price_vector_ps(
	const struct soc *, uint64_t packets, uint64_t gathers, uint64_t parts);

/* The time of vector work that can be divided evenly among the units. */
static inline uint64_t price_vector_even_ps(
	const struct soc *soc, uint64_t packets, uint64_t gathers)
{
	return price_vector_ps(
		soc, packets, gathers, (uint64_t)soc->vector_units);
}

/*
 * Compute the total time and the energy of an operator, including its launch.
 * The engines form a pipeline over the pieces of the operator. Each engine
 * waits until the engines before it have processed the first piece; afterwards
 * the slowest engine determines the time. *first has the time of each engine
 * for the first piece, which is at most the engine's time in *p. All times in
 * *first are 0 if no engine waits for another engine.
 */
void price_finish(
	const struct soc *, struct price *p, const struct price *first);

/* Add to *p the cost of `seconds` in which only the vector units work.
 *  */
void price_add_vector(const struct soc *, double seconds, struct price *p);

/* Add to *p the cost of passing `bytes` of results from one operator to the
 * next. The data stay in L2 if they fit into L2; otherwise they are written to
 * DDR and read from DDR. */
void price_spill(const struct soc *, uint64_t bytes, struct price *p);

/* The price of a CPU that is busy for `seconds`. */
void price_cpu_busy(const struct soc *, double seconds, struct price *out);

/* price_to_tile: the instructions that convert two rows of 32 float32 values to
 * one fp16 vector of a tile; price_from_tile: the reverse. price_row_packets
 * returns the number of packets that a conversion of [rows][n] values takes. */
extern const struct hvx price_to_tile, price_from_tile;
static inline uint64_t price_row_packets(const struct soc *soc,
	const struct hvx *body, uint64_t rows, uint64_t n)
{
	return ceil_div(rows, 2) * ceil_div(n, TILE) * hvx_packets(soc, body);
}

/* Get the loop body that dequantizes weights of this type; *bodies becomes the
 * number of iterations for a tile. Returns NULL if price_matmul refuses the
 * type. */
const struct hvx *price_dequant(enum dtype, unsigned *bodies);

#endif
