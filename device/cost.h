/*
 * The time of an operator or a request on the phone whose profile the host sent
 * with WIRE_SOC, by the cost model (tensor/soc/price.h). The graph has a fixed
 * number of rows, so padding rows cost as much as real rows, unless the profile
 * makes the cost depend on the number of real rows (price_matmul_rows). An
 * expert runs only on the rows that picked it, padded to whole tiles. The cost
 * of attention is a sum over pieces of the KV cache; a piece is a set of slots
 * to which the same rows attend (tensor/visibility.h). For this sum, every row
 * of a sequence is assumed to attend to as many slots as the row of the
 * sequence that attends to the most.
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

/* Compute the cost of attention in one layer of a run. `apart` means that rows
 * do not share reads of keys and values. `room` is scratch memory for two
 * pieces for each row of the run. */
void cost_attention(const struct soc *, const struct graph *,
	const struct rowset *, bool apart, struct visibility_piece *room,
	struct price *out);

/* Add the operator's cost to *sum. `padded` is the number of rows including
 * padding, `rows` the number of rows without padding, and `attention` the cost
 * of attention in one layer. */
void cost_op(const struct soc *, const struct graph *, uint32_t padded,
	uint32_t rows, const struct op *, const struct price *attention,
	struct price *sum);

/* Add the extra cost of a run whose weights lie in the extended region (memory
 * that only DMA can read): DMA must read the weight vectors (norms, biases)
 * too. Weight matrices are always read by DMA. */
void cost_extended(const struct soc *, const struct graph *, struct price *sum);

/* Add the cost of the request that *done completes: its round trip and its
 * cache maintenance. A maintenance call for the whole cache costs as much as a
 * call for a range of the size of the L2 cache. */
void cost_request(
	const struct soc *, const struct wire_done *done, struct price *sum);

/*
 * Add to the counters of *done, the completion of request *p, the cache
 * maintenance that the rings need for this request (--coherence-ctrl). With
 * `two_levels` (the device's cache has two levels), calls for the whole cache
 * are counted. Otherwise cache lines are counted: those of the completion's
 * member `price` only if `priced` is set, and those of its member `text` never.
 */
void cost_rings(const struct packet *p, bool priced, bool two_levels,
	struct wire_done *done);

#endif
