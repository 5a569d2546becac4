/*
 * What a layer of a transformer costs on a phone: the operators that the
 * device's plan of such a layer has (device/graph.c), each priced as in
 * tensor/soc/price.h, for a layer that need not exist. The cost of what the
 * device runs is counted operator by operator where it runs (device/cost.h);
 * of the same shape both are the same to the last picosecond.
 *
 * Types are as weights lie in DDR. Formats that price_matmul does not have
 * cost what the nearest one does. No state, any thread.
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
	bool head_norm; /* queries and keys are normed, head by head */
	bool int8;      /* rows are quantized for weights that take them so */
	bool bias[PRICE_MATRICES];
	enum price_exp exp;
	enum dtype type[PRICE_MATRICES];
};

/* Rows and columns of a matrix. */
void price_layer_matrix(const struct price_layer *, enum price_matrix,
	uint64_t *n, uint64_t *k);

/* Rows of a static graph and of them the real ones, and what these see, cut up
 * (tensor/visibility.h). */
struct price_batch {
	uint64_t graph_rows, rows;
	const struct visibility_piece *piece;
	uint32_t pieces;
	/* Weights lie where DMA alone reaches: their vectors come by it. */
	bool extended;
};

/* Adds to *sum. */
void price_layer(const struct soc *, const struct price_layer *,
	const struct price_batch *, struct price *sum);

/*
 * A pass of a small model on the CPU: so many layers of these widths and types,
 * and logits of n_vocab in a matrix of type `output`, each matrix read once for
 * all rows. Attention and what is done row by row are left out: of a model so
 * small they are next to nothing. Adds to *sum.
 */
void price_cpu_model(const struct soc *, const struct price_layer *,
	uint32_t layers, uint64_t n_vocab, enum dtype output, uint64_t rows,
	struct price *sum);

/* The type that price_matmul has for this one. */
enum dtype price_type(enum dtype);

#endif
