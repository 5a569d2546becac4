/*
 * What running an operator, or taking a request, costs on the phone that the
 * host named with WIRE_SOC (tensor/soc/price.h). The graph is static: padding
 * is paid for, but for what a profile says of rows (price_matmul_rows).
 * Attention is priced piece by piece of what rows see in common
 * (tensor/visibility.h): of one sequence as much as its longest row.
 */
#ifndef DEVICE_COST_H
#define DEVICE_COST_H

#include <stdbool.h>
#include <stdint.h>

struct graph;
struct op;
struct price;
struct rowset;
struct visibility_piece;
struct soc;
struct wire_done;

/* The attention of one layer of a run; `apart`: each row by itself. */
void cost_attention(const struct soc *, const struct graph *,
	const struct rowset *, bool apart, struct visibility_piece *room,
	struct price *out);

/* Adds to *sum. `attention`: of one layer; `rows`: those that are real. */
void cost_op(const struct soc *, const struct graph *, uint32_t rows,
	const struct op *, const struct price *attention, struct price *sum);

/* What a run costs more where its weights lie in the extended region: matrices
 * come by DMA from wherever they lie, vectors do from there alone. */
void cost_extended(const struct soc *, const struct graph *, struct price *sum);

/* The request that *done answers: its round trip and the maintenance of the
 * cache that it asked for. Adds to *sum. */
void cost_request(
	const struct soc *, const struct wire_done *done, struct price *sum);

#endif
