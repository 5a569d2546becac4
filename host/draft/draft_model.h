/*
 * A draft model: a small llama (or qwen2, qwen3) that the host computes while
 * the device runs the target. It has the target's vocabulary and a key-value
 * cache of its own, which holds one path of tokens.
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
 * `model` must outlive the draft model, with its embedding in memory
 * (model_keep_embedding). `target` may be NULL; a vocabulary of another size
 * than its is refused with both sizes. The cache holds `context` tokens (0: as
 * many as possible), at most as many as the model was trained for: beyond them
 * its guesses are noise. threads 0: all CPUs.
 */
int draft_open(struct draft_model **out, const struct model *model,
	const struct model *target, enum draft_arithmetic, uint32_t context,
	uint32_t threads, struct err *);
/*
 * Another cache and path of the same model, for one more request. It uses the
 * first one's context, prices, weights, workspace and threads, so the first one
 * must outlive it.
 */
int draft_open_like(struct draft_model **out, const struct draft_model *first,
	struct err *);
void draft_close(struct draft_model *);

/* From now on compute the cost of each pass on a phone's CPU: for this model,
 * or for the shape `as` where that is not NULL (host/session/pricing.h); `soc`
 * must outlive the model. draft_take_price adds the cost so far to *sum and
 * resets it; draft_price_type sets the type of the shape's matrices. */
struct price;
struct shape;
struct soc;
void draft_price_for(
	struct draft_model *, const struct soc *, const struct shape *as);
void draft_price_type(struct draft_model *, enum dtype);
void draft_take_price(struct draft_model *, struct price *sum);

/* Add the cost of finding the likeliest tokens in `rows` rows of logits. */
void draft_price_guesses(struct draft_model *, uint32_t rows);

/* Tokens that the cache can hold. */
uint32_t draft_context(const struct draft_model *);
uint32_t draft_n_vocab(const struct draft_model *);

/* Ids of the cached tokens; *n is their number. */
const int32_t *draft_tokens(const struct draft_model *, uint32_t *n);

/*
 * Append n >= 1 tokens; *logits (owned by the model, valid until the next call)
 * are those after the last one: float32 [n_vocab]. -ENOSPC when the context has
 * no room for all of them; then none was appended.
 */
int draft_append(struct draft_model *, const int32_t *token, size_t n,
	const float **logits, struct err *);

/* Drop all cached tokens but the first `length`. */
void draft_truncate(struct draft_model *, uint32_t length);

/*
 * Make the cache hold exactly `token`[n], n >= 1: the common prefix stays, the
 * rest is computed. *logits as in draft_append.
 */
int draft_follow(struct draft_model *, const int32_t *token, size_t n,
	const float **logits, struct err *);

/* ---- trees: uncommitted rows after the cached tokens --------------------- */

/* The rows of one model in a pass that several models share. */
struct draft_ask {
	struct draft_model *draft;
	const int32_t *token; /* [n] */
	/* [n] for rows of a tree that continues the cached tokens: an earlier
	 * row, of this pass or of one since the last append, follow, keep or
	 * truncate (which drop all rows), or -1. NULL: the tokens are appended
	 * as by draft_append, and only the logits after the last one are
	 * computed. */
	const int32_t *parent;
	uint32_t n;     /* >= 1 */
	uint32_t first; /* output: number of the first row; the others follow */
};
#define DRAFT_ASK_ROWS 64 /* in one pass, over all models */

/*
 * Compute rows of n >= 1 models opened like one another (draft_open_like) in
 * one pass, which reads the weights once. A row has the position of its depth
 * after the cached tokens and attends to them, its ancestors and itself, so its
 * logits are bit for bit those of appending its path. Logits are written in the
 * order of `ask`: [][n_vocab]. -ENOSPC when a context has no room; then nothing
 * was computed.
 */
int draft_together(struct draft_ask *, unsigned n, float *logits, struct err *);

/* Number of uncommitted rows. */
uint32_t draft_branch_rows(const struct draft_model *);

/*
 * Append row[0] < row[1] < ... [n], a path that begins at a row without parent,
 * to the cached tokens. All other rows are dropped. n may be 0.
 */
void draft_keep(struct draft_model *, const uint32_t *row, uint32_t n);

#endif
