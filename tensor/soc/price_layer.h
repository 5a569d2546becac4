/*
 * The cost of a transformer layer on a phone, for layers that are not run: the
 * sum over the operators of the device's graph of such a layer
 * (device/graph.c), by tensor/soc/price.h. The device computes the cost of the
 * operators that it runs itself (device/cost.h); for the same shape both are
 * equal to the last picosecond.
 *
 * Types are those of the weights in DDR. Formats that price_matmul does not
 * have cost as much as the nearest one. No state, any thread.
 */
#ifndef TENSOR_SOC_PRICE_LAYER_H
#define TENSOR_SOC_PRICE_LAYER_H

#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stdint.h>

struct visibility_piece;
struct soc;

enum price_matrix {
	PRICE_Q,
	PRICE_K,
	PRICE_V,
	PRICE_O,
	PRICE_GATE,
	PRICE_UP,
	PRICE_DOWN,
	PRICE_MATRICES
};

struct price_layer {
	uint32_t n_embd, n_head, n_kv_head, head_dim, n_ff;
	bool head_norm; /* queries and keys are normalized, head by head */
	bool int8;      /* rows are quantized for weights with int8 products */
	bool bias[PRICE_MATRICES];
	enum price_exp exp;
	enum dtype type[PRICE_MATRICES];
};

/* Rows and columns of a matrix. */
void price_layer_matrix(const struct price_layer *, enum price_matrix,
	uint64_t *n, uint64_t *k);

/* Rows of a static graph, the real ones among them, and the pieces of the cache
 * that these see (tensor/visibility.h). */
struct price_batch {
	uint64_t graph_rows, rows;
	const struct visibility_piece *piece;
	uint32_t pieces;
	/* Weights lie in the extended region: vectors are read by DMA too. */
	bool extended;
};

/* Adds to *sum. */
void price_layer(const struct soc *, const struct price_layer *,
	const struct price_batch *, struct price *sum);

/*
 * A pass of a small model on the CPU: `layers` layers of these widths and
 * types, and n_vocab logits by a matrix of type `output`, each matrix read once
 * for all rows. Attention and operators by row are not counted, because they
 * are negligible in a model so small. Adds to *sum.
 */
void price_cpu_model(const struct soc *, const struct price_layer *,
	uint32_t layers, uint64_t n_vocab, enum dtype output, uint64_t rows,
	struct price *sum);

/* The type whose cost price_matmul uses for this one. */
enum dtype price_type(enum dtype);

#endif
