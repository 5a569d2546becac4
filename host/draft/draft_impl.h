/*
 * The private structures of a draft model, for the two files that implement it:
 * draft_model.c opens the model and manages its key-value cache, draft_pass.c
 * computes passes. A pass is one run of the model; each row of a pass is one
 * token.
 */
#ifndef HOST_DRAFT_DRAFT_IMPL_H
#define HOST_DRAFT_DRAFT_IMPL_H

#include "host/draft/draft_model.h"
#include "host/draft/draft_weights.h"
#include "tensor/soc/price.h"
#include "tensor/soc/price_layer.h"

#include <stdbool.h>

/* maximum number of rows of a pass; the matmul kernels read and decode each
 * weight only once for all rows of a pass */
#define PASS_ROWS 64

struct kern;
struct workers;

/* An uncommitted row: a token of a draft tree. Its keys and values are in the
 * cache slot after the slots of the cached tokens and of the earlier rows. */
struct draft_row {
	/* index of the parent in draft_model.row; -1: the row has no parent */
	int32_t parent;
	/* number of the row's ancestors; 0 if the row directly follows the
	 * cached tokens */
	uint32_t depth;
};

struct draft_model {
	const struct model *model;
	const struct kern *kern;
	struct workers *workers;
	struct draft_weights weights;
	/* Set by draft_open_like: only the arrays token, row, kv and state
	 * belong to this draft model. All other arrays belong to the draft
	 * model that was passed to draft_open_like. */
	bool borrows;
	/* q_dim: total width of the queries of all heads. kv_dim: total width
	 * of the keys of all heads, and also of the values. */
	uint32_t q_dim, kv_dim;

	uint32_t context, n;
	/* number of uncommitted rows, stored after the cached tokens */
	uint32_t rows;
	/* [context] cached tokens, then the tokens of the uncommitted rows */
	int32_t *token;
	struct draft_row *row; /* [context] */
	/* [threads][context] memory of each thread for the list of cache slots
	 * to which a row attends */
	uint32_t *slot;
	/* [n_layer][K, V][context][kv_dim] the key-value cache: fp16 if `int8`
	 * is set, else float32 */
	uint8_t *kv;
	size_t kv_row; /* bytes of kv_dim values */
	/* [context][n_embd] the state g (see draft_model.h) of each cache slot;
	 * NULL unless the model is an EAGLE head */
	float *state;

	/* one owned allocation that contains all arrays from x to scratch, and
	 * q8 */
	float *activations;
	/* [PASS_ROWS][n_embd] x: the residual stream. h: input or output of a
	 * matrix. */
	float *x, *h;
	/* [PASS_ROWS][2 * n_embd] inputs of fc, the first matrix of an EAGLE
	 * head */
	float *pair;
	/* [PASS_ROWS][q_dim] the queries, and the results of attention */
	float *q, *seen;
	float *k, *v;     /* [PASS_ROWS][kv_dim] */
	float *gate, *up; /* [PASS_ROWS][n_ff] */
	float *cos, *sin; /* [PASS_ROWS][n_rot/2] */
	float *logits;    /* [n_vocab] */
	float *scratch;   /* [threads][scratch_floats] */
	size_t scratch_floats;
	bool int8;
	/* [PASS_ROWS] input rows of a matmul, quantized to int8, at most
	 * q8_bytes each */
	uint8_t *q8;
	size_t q8_bytes;
	/* the simulated phone for whose CPU the time of each pass (its cost) is
	 * computed; NULL if no costs are computed */
	const struct soc *soc;
	/* Costs may be computed for a model of other sizes than the model that
	 * runs (draft_price_for). These members are the sizes of its layers,
	 * the number of its layers and the size of its vocabulary. */
	struct price_layer priced;
	uint32_t priced_layers, priced_vocab;
	/* types of the matrices in the computation of costs; where a type is
	 * F32, the type of the loaded weights is used instead */
	struct shape_type priced_type;
	struct price price;
};

/* The uncommitted rows of one model that a pass computes: row[first] to
 * row[first + rows - 1]. Earlier passes have computed the rows before
 * row[first]. */
struct draft_part {
	struct draft_model *d;
	uint32_t first, rows;
};

/* Compute a total of 1 to PASS_ROWS rows of n models that share weights: a
 * model and models opened from it by draft_open_like. The cost of the whole
 * pass is added to part[0].d->price. */
void draft_pass(const struct draft_part *, unsigned n);

/* Write the logits [n][n_vocab] of n rows of the latest pass. row[n] are
 * indices of rows in that pass. */
void draft_logits(
	struct draft_model *, const uint32_t *row, uint32_t n, float *logits);

#endif
