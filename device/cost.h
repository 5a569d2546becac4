/*
 * What running an operator, or taking a request, costs on the phone that the
 * host named with WIRE_SOC (tensor/price.h). The graph is static: padding is
 * paid for. Attention costs as much as its longest row.
 */
#ifndef DEVICE_COST_H
#define DEVICE_COST_H

#include <stdint.h>

struct graph;
struct op;
struct price;
struct soc;
struct wire_done;

/* Adds to *sum. `longest`: slots that the row which sees the most sees. */
void cost_op(const struct soc *, const struct graph *, const struct op *,
	uint32_t longest, struct price *sum);

/* The request that *done answers: its round trip and the upkeep of the cache
 * that it asked for. Adds to *sum. */
void cost_request(
	const struct soc *, const struct wire_done *done, struct price *sum);

/* A mapping or a graph with so many bytes of weights made ready. */
void cost_map(const struct soc *, uint64_t bytes, struct price *sum);
void cost_graph_load(const struct soc *, uint64_t bytes, struct price *sum);

#endif
