/*
 * What the files of a draft model share: its insides. draft_model.c opens it
 * and keeps the books of its cache, draft_pass.c computes. Private to them.
 */
#ifndef HOST_DRAFT_DRAFT_IMPL_H
#define HOST_DRAFT_DRAFT_IMPL_H

#include "host/draft/draft_model.h"
#include "host/draft/draft_weights.h"
#include "tensor/price.h"

#include <stdbool.h>

/* Tokens of a prompt that go through a layer together: the matmul kernels
 * decode and load a weight once for so many. */
#define PASS_ROWS 64

struct kern;
struct workers;

struct draft_model {
	const struct model *model;
	const struct kern *kern;
	struct workers *workers;
	struct draft_weights weights;
	uint32_t q_dim, kv_dim; /* of all heads together */

	uint32_t context, n;
	int32_t *token; /* [context], n of them in the cache */
	uint32_t *slot; /* [context] 0, 1, 2 ...: as kernels want it */
	float *kv;      /* [n_layer][K, V][context][kv_dim] */

	float *activations; /* owned; the rest lies in it */
	float *x, *h;       /* [PASS_ROWS][n_embd] */
	float *q, *seen;    /* [PASS_ROWS][q_dim] */
	float *gate, *up;   /* [PASS_ROWS][n_ff] */
	float *cos, *sin;   /* [PASS_ROWS][n_rot/2] */
	float *logits;      /* [n_vocab] */
	float *scratch;     /* [threads][scratch_floats] */
	size_t scratch_floats;
	bool int8;
	uint8_t *q8; /* [PASS_ROWS] quantized rows of what is multiplied */
	size_t q8_bytes;
	const struct soc *soc; /* NULL: nothing is priced */
	struct price price;
};

/* Append up to PASS_ROWS tokens, checked, that fit the context. */
void draft_pass(struct draft_model *, const int32_t *token, uint32_t rows);

/* d->logits from row `row` of the last pass. */
void draft_logits(struct draft_model *, uint32_t row);

#endif
