/*
 * The private structures of a draft model, shared by its two files:
 * draft_model.c opens the model and keeps its cache, draft_pass.c computes.
 */
#ifndef HOST_DRAFT_DRAFT_IMPL_H
#define HOST_DRAFT_DRAFT_IMPL_H

#include "host/draft/draft_model.h"
#include "host/draft/draft_weights.h"
#include "tensor/soc/price.h"
#include "tensor/soc/price_layer.h"

#include <stdbool.h>

/* Tokens of a prompt that go through a layer together: the matmul kernels
 * decode and load a weight once for this many rows. */
#define PASS_ROWS 64

struct kern;
struct workers;

/* An uncommitted row: a token of a tree, stored in the cache slot after the
 * cached tokens and the earlier rows. */
struct draft_row {
	int32_t parent; /* row, or -1 */
	uint32_t depth; /* 0: directly after the cached tokens */
};

struct draft_model {
	const struct model *model;
	const struct kern *kern;
	struct workers *workers;
	struct draft_weights weights;
	/* only the cache is its own; the rest belongs to another draft_model */
	bool borrows;
	uint32_t q_dim, kv_dim; /* of all heads together */

	uint32_t context, n;
	uint32_t rows;  /* uncommitted, stored after the cached tokens */
	int32_t *token; /* [context] cached tokens, then those of the rows */
	struct draft_row *row; /* [context] */
	/* [threads][context] cache slots that a row attends to */
	uint32_t *slot;
	float *kv; /* [n_layer][K, V][context][kv_dim] */

	float *activations; /* owned; the arrays below are parts of it */
	float *x, *h;       /* [PASS_ROWS][n_embd] */
	float *q, *seen;    /* [PASS_ROWS][q_dim] */
	float *k, *v;       /* [PASS_ROWS][kv_dim] */
	float *gate, *up;   /* [PASS_ROWS][n_ff] */
	float *cos, *sin;   /* [PASS_ROWS][n_rot/2] */
	float *logits;      /* [n_vocab] */
	float *scratch;     /* [threads][scratch_floats] */
	size_t scratch_floats;
	bool int8;
	uint8_t *q8; /* [PASS_ROWS] int8-quantized input rows of a matmul */
	size_t q8_bytes;
	const struct soc *soc; /* NULL: nothing is priced */
	/* The shape whose cost is computed: one layer, without the types of its
	 * matrices. */
	struct price_layer priced;
	uint32_t priced_layers, priced_vocab;
	enum dtype priced_type; /* F32: the types of the weights that run */
	struct price price;
};

/* Rows of one model in a pass, from its uncommitted row `first` on; the rows
 * before `first` have been computed. */
struct draft_part {
	struct draft_model *d;
	uint32_t first, rows;
};

/* Compute the rows of n models opened by draft_open_like from the same first
 * one, 1 to PASS_ROWS rows in all. The cost is added to the first model's. */
void draft_pass(const struct draft_part *, unsigned n);

/* Write the logits [n][n_vocab] of n rows of the last pass. */
void draft_logits(
	struct draft_model *, const uint32_t *row, uint32_t n, float *logits);

#endif
