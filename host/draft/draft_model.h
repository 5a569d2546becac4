/*
 * A draft model: a small llama (or qwen2, qwen3) that the host runs by
 * itself, beside the device, to guess what the target will say. It has the
 * target's vocabulary and a key-value cache of its own that follows one path
 * of tokens.
 *
 * The arithmetic is float32 on dequantized rows, or bit for bit that of a
 * session of precision int8 with weights in tiles; results do not depend on the
 * number of threads, nor on how tokens were split over calls. Nothing is
 * allocated after opening. One caller at a time.
 */
#ifndef HOST_DRAFT_DRAFT_MODEL_H
#define HOST_DRAFT_DRAFT_MODEL_H

#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

struct draft_model;
struct err;
struct model;

enum draft_arithmetic { DRAFT_INT8, DRAFT_F32 };

/*
 * `model` must outlive it, with its embedding in memory
 * (model_keep_embedding). `target` (may be NULL) is compared: a draft whose
 * vocabulary differs in size is refused with both sizes. Of `context` tokens
 * (0: as many as possible) it holds no more than the model was trained for,
 * beyond which its guesses are noise. threads 0: all.
 */
int draft_open(struct draft_model **out, const struct model *model,
	const struct model *target, enum draft_arithmetic, uint32_t context,
	uint32_t threads, struct err *);
/*
 * Another cache and path of the same model, for one more request: with the
 * first one's context, prices, weights, workspace and threads, so it outlives
 * this.
 */
int draft_open_like(struct draft_model **out, const struct draft_model *first,
	struct err *);
void draft_close(struct draft_model *);

/* Price the passes from now on as work of a phone's CPU: of this model, or of
 * the shape `as` where it is not NULL (host/session/pricing.h); `soc` must
 * outlive the model. What they cost so far adds to *sum and is forgotten. */
struct price;
struct shape;
struct soc;
void draft_price_for(
	struct draft_model *, const struct soc *, const struct shape *as);
/* Of that shape, in matrices of this type. */
void draft_price_type(struct draft_model *, enum dtype);
void draft_take_price(struct draft_model *, struct price *sum);

/* The likeliest tokens were found in so many rows of logits, which is priced
 * as well. */
void draft_price_guesses(struct draft_model *, uint32_t rows);

/* Tokens that its cache can hold. */
uint32_t draft_context(const struct draft_model *);
uint32_t draft_n_vocab(const struct draft_model *);

/* Tokens in its cache, and their ids. */
const int32_t *draft_tokens(const struct draft_model *, uint32_t *n);

/*
 * Append n >= 1 tokens; *logits (owned by the model, valid until the next
 * call) is the distribution behind the last: float32 [n_vocab]. -ENOSPC when
 * the context has no room for all of them; then none was appended.
 */
int draft_append(struct draft_model *, const int32_t *token, size_t n,
	const float **logits, struct err *);

/* Forget all but the first `length` tokens. */
void draft_truncate(struct draft_model *, uint32_t length);

/*
 * Make the cache hold exactly `token`[n], n >= 1: what it has in common with
 * them stays, the rest is computed. *logits as above.
 */
int draft_follow(struct draft_model *, const int32_t *token, size_t n,
	const float **logits, struct err *);

/* ---- trees: rows on trial behind the cached tokens ---- */

/* What a pass computes for one of the models that share it. */
struct draft_ask {
	struct draft_model *draft;
	const int32_t *token; /* [n] */
	/* [n] of rows of a tree that hangs from the cached tokens: an earlier
	 * row, of this ask or of one since the last append, follow, keep or
	 * truncate, which forget them; or -1. NULL: the tokens are appended, as
	 * by draft_append, and only the logits after the last are wanted. */
	const int32_t *parent;
	uint32_t n;     /* >= 1 */
	uint32_t first; /* set: the number of the first row, others follow */
};
#define DRAFT_ASK_ROWS 64 /* of all asks together, at most */

/*
 * Compute the rows of n >= 1 models that were opened like one another
 * (draft_open_like) in one pass, which reads the weights once. A row stands at
 * the position of its depth after the cached tokens and sees them, its
 * ancestors and itself, so its logits are bit for bit those of appending its
 * path. They are written in the order of the asks: [][n_vocab]. -ENOSPC when
 * a context has no room; then nothing was computed.
 */
int draft_together(struct draft_ask *, unsigned n, float *logits, struct err *);

/* Rows on trial so far. */
uint32_t draft_branch_rows(const struct draft_model *);

/*
 * Keep row[0] < row[1] < ... [n], a path from a row without parent down: they
 * are cached tokens now. The other rows are forgotten. n may be 0.
 */
void draft_keep(struct draft_model *, const uint32_t *row, uint32_t n);

#endif
