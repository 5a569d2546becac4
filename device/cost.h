/*
 * The time of an operator or a request on the phone whose profile the host sent
 * with WIRE_SOC, by the cost model (tensor/soc/price.h). The graph is static,
 * so padding rows cost as much as real ones, unless the profile makes the cost
 * depend on the real rows (price_matmul_rows). An expert runs on few of the
 * graph's rows, padded to whole tiles. Attention is priced by pieces of
 * slots that several rows see (tensor/visibility.h): rows of one sequence cost
 * as much as the longest of them.
 */
#ifndef DEVICE_COST_H
#define DEVICE_COST_H

#include <stdbool.h>
#include <stdint.h>

struct graph;
struct op;
struct packet;
struct price;
struct rowset;
struct visibility_piece;
struct soc;
struct wire_done;

/* The attention of one layer of a run; `apart`: rows share no reads of keys and
 * values. */
void cost_attention(const struct soc *, const struct graph *,
	const struct rowset *, bool apart, struct visibility_piece *room,
	struct price *out);

/* Add the operator's cost to *sum. `padded`: rows with padding; `rows`:
 * without; `attention`: the cost of one layer's attention. */
void cost_op(const struct soc *, const struct graph *, uint32_t padded,
	uint32_t rows, const struct op *, const struct price *attention,
	struct price *sum);

/* Add the extra cost of a run whose weights lie in the extended region.
 * Matrices are read by DMA in either case; vectors only from there. */
void cost_extended(const struct soc *, const struct graph *, struct price *sum);

/* Add the cost of a request with completion *done: its round trip and its cache
 * maintenance. A whole call costs as much as a ranged one of the L2's size. */
void cost_request(
	const struct soc *, const struct wire_done *done, struct price *sum);

/* Add the maintenance of the rings for request *p (--coherence-ctrl) to the
 * counters of its completion, which counts as if it had no text. `priced`: it
 * has a price. */
void cost_rings(const struct packet *p, bool priced, bool two_levels,
	struct wire_done *done);

#endif
