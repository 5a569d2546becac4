/*
 * What the files of a draft model share: its insides. draft_model.c opens it
 * and keeps the books of its cache, draft_pass.c computes. Private to them.
 */
#ifndef HOST_DRAFT_DRAFT_IMPL_H
#define HOST_DRAFT_DRAFT_IMPL_H

#include "host/draft/draft_model.h"
#include "host/draft/draft_weights.h"
#include "tensor/soc/price.h"
#include "tensor/soc/price_layer.h"

#include <stdbool.h>

/* Tokens of a prompt that go through a layer together: the matmul kernels
 * decode and load a weight once for so many. */
#define PASS_ROWS 64

struct kern;
struct workers;

/* A token on trial, in the slot behind the cached tokens and the rows before
 * it. */
struct draft_row {
	int32_t parent; /* row, or -1 */
	uint32_t depth; /* 0: right behind the cached tokens */
};

struct draft_model {
	const struct model *model;
	const struct kern *kern;
	struct workers *workers;
	struct draft_weights weights;
	bool borrows; /* all but the cache, of the one that it is like */
	uint32_t q_dim, kv_dim; /* of all heads together */

	uint32_t context, n;
	uint32_t rows;         /* on trial */
	int32_t *token;        /* [context] in the cache, then on trial */
	struct draft_row *row; /* [context] */
	uint32_t *slot;        /* [threads][context] that a row sees */
	float *kv;             /* [n_layer][K, V][context][kv_dim] */

	float *activations; /* owned; the rest lies in it */
	float *x, *h;       /* [PASS_ROWS][n_embd] */
	float *q, *seen;    /* [PASS_ROWS][q_dim] */
	float *k, *v;       /* [PASS_ROWS][kv_dim] */
	float *gate, *up;   /* [PASS_ROWS][n_ff] */
	float *cos, *sin;   /* [PASS_ROWS][n_rot/2] */
	float *logits;      /* [n_vocab] */
	float *scratch;     /* [threads][scratch_floats] */
	size_t scratch_floats;
	bool int8;
	uint8_t *q8; /* [PASS_ROWS] quantized rows of what is multiplied */
	size_t q8_bytes;
	const struct soc *soc; /* NULL: nothing is priced */
	/* What is: of a layer all but the types. */
	struct price_layer priced;
	uint32_t priced_layers, priced_vocab;
	enum dtype priced_type; /* F32: those of what runs */
	struct price price;
};

/* Rows of one model in a pass, from its row on trial `first` on; those before
 * them are computed. */
struct draft_part {
	struct draft_model *d;
	uint32_t first, rows;
};

/* Compute the rows of n models that are like one another, 1 to PASS_ROWS of all
 * together. The price is the first one's. */
void draft_pass(const struct draft_part *, unsigned n);

/* logits [n][n_vocab] of n of the last pass's rows. */
void draft_logits(
	struct draft_model *, const uint32_t *row, uint32_t n, float *logits);

#endif
