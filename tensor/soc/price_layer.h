/*
 * The cost of a transformer layer on a phone, for a layer that the device does
 * not run. The cost is the sum over the operators of the graph that the device
 * would run for the layer (device/graph.c), computed with tensor/soc/price.h.
 * The device computes the cost of the operators that it runs itself
 * (device/cost.h); for the same shape, the cost computed here and the device's
 * cost are equal to the last picosecond.
 *
 * Types are the types of weights in DDR. A format that price_matmul does not
 * support costs as much as the most similar supported format. The functions
 * have no state; any thread may call them.
 */
#ifndef TENSOR_SOC_PRICE_LAYER_H
#define TENSOR_SOC_PRICE_LAYER_H

#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stdint.h>

struct visibility_piece;
struct soc;

/*
 * The launches of a layer, in order. Each launch runs several fused operators;
 * only its first operator counts as a launch and costs operator_s, the
 * profile's time to start an operator (price_join). The quantization of a
 * result belongs to the launch that computes the result.
 */
enum price_launch {
	/* norm; products with Q, K and V; norms of heads; rotation; writing to
	 * the KV cache */
	PRICE_PROJECT,
	PRICE_ATTEND,
	PRICE_OUTPUT,   /* product with O, addition of the residual */
	PRICE_WIDEN,    /* norm, products with gate and up */
	PRICE_ACTIVATE, /* SwiGLU */
	PRICE_NARROW,   /* product with down, addition of the residual */
	PRICE_LAUNCHES
};

enum price_matrix {
	PRICE_Q,
	PRICE_K,
	PRICE_V,
	PRICE_O,
	PRICE_GATE,
	PRICE_UP,
	PRICE_DOWN,
	/* matrices of the shared expert; their size is 0 if the layer has no
	 * shared expert */
	PRICE_SHARED_GATE,
	PRICE_SHARED_UP,
	PRICE_SHARED_DOWN,
	PRICE_MATRICES
};

struct price_layer {
	uint32_t n_embd, n_head, n_kv_head, head_dim, n_ff;
	/* true: the queries and keys of each head are normalized */
	bool head_norm;
	/* true: input rows are quantized for products with int8 weights */
	bool int8;
	bool bias[PRICE_MATRICES];
	enum price_exp exp;
	enum dtype type[PRICE_MATRICES];
	/*
	 * If n_expert > 0, gate, up and down are the matrices of one of
	 * n_expert experts. Each row passes through n_used experts, which a
	 * router with weights of type `router` chooses. If n_shared > 0, all
	 * rows also pass through a shared expert of this width.
	 */
	uint32_t n_expert, n_used, n_shared;
	enum dtype router;
};

/* The expected number of different experts for `rows` rows, if each row chooses
 * its experts independently and with equal probabilities. */
double price_experts(const struct price_layer *, uint64_t rows);

/* Get the number of rows and columns of a matrix. */
void price_layer_matrix(const struct price_layer *, enum price_matrix,
	uint64_t *n, uint64_t *k);

/* The rows of a static graph: graph_rows counts all rows, `rows` the rows
 * without padding. The pieces of the KV cache are those to which the rows
 * without padding attend (tensor/visibility.h). */
struct price_batch {
	uint64_t graph_rows, rows;
	const struct visibility_piece *piece;
	uint32_t pieces;
	/* true: the weights lie in memory that only DMA can read, so weight
	 * vectors (norms, biases) are copied by DMA too */
	bool extended;
};

/* Add the price of a layer to *sum. */
void price_layer(const struct soc *, const struct price_layer *,
	const struct price_batch *, struct price *sum);

/*
 * Add the price of a forward pass of a small model on the CPU to *sum: `layers`
 * layers with the widths and types of struct price_layer, and n_vocab logits by
 * a matrix of type `output`. Each matrix is read once for all rows. Attention
 * and the operators on rows are not counted, because in such a small model they
 * are negligible.
 */
void price_cpu_model(const struct soc *, const struct price_layer *,
	uint32_t layers, uint64_t n_vocab, enum dtype output, uint64_t rows,
	struct price *sum);

/* Returns the type whose cost price_layer uses for weights of the given type.
 * price_matmul supports the returned type. */
enum dtype price_type(enum dtype);

#endif
