/*
 * A draft model: a small llama (or qwen2, qwen3) that the host computes; the
 * device computes the target model. The draft model has the target's
 * vocabulary, and its own key-value cache for one token sequence. A pass is one
 * run of the model; each row of a pass is one token.
 *
 * The arithmetic is either float32 on dequantized weights, or int8. With int8
 * the results are bit for bit those that the device computes in a session
 * (host/session/session.h) with precision int8 and weights in tiles. Results
 * depend neither on the number of threads nor on how tokens were split over
 * calls. Nothing is allocated after opening. Only one thread may use a draft
 * model at a time.
 *
 * EAGLE heads. A draft model may also be the head of EAGLE (Li et al., 2024;
 * EAGLE-3, 2025): one layer that predicts from the target's final states, and
 * thus uses the target's own computation. At position i >= 1, with token x_i
 * and the state g_{i-1} of the position before, the head computes
 *
 *   u_i = fc [norm(embedding(x_i)), g_{i-1}]
 *   s_i = output_norm(layer(u_i))
 *   logits of token i + 1 = output matrix times s_i
 *
 * with a matrix fc of the head, and with the target's embedding and output
 * matrix. The layer attends to positions 1 to i; position 0 has no row. For
 * cached tokens g is the target's state after its final norm (draft_put_state).
 * For rows of a drafted tree the target has computed no states, so g is the
 * head's own s of the parent row. In training, too, the head computes several
 * steps from its own states s (training-time test of EAGLE-3; HASS, Zhang et
 * al., 2024).
 */
#ifndef HOST_DRAFT_DRAFT_MODEL_H
#define HOST_DRAFT_DRAFT_MODEL_H

#include "host/model/shape_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shape;
struct draft_model;
struct err;
struct model;

enum draft_arithmetic { DRAFT_INT8, DRAFT_F32 };

/*
 * Open a draft model. `model` must outlive the draft model, and must have its
 * embedding in memory (model_keep_embedding). The cache holds `context` tokens
 * (0: as many as possible), but never more than the model's training length,
 * because predictions beyond this length are useless. threads 0 means all CPUs.
 * Returns 0, -ENOMEM, or -EINVAL if the model is not causal or if its
 * vocabulary is not as large as that of `target`. If `target` is NULL, the
 * vocabulary is not checked.
 */
int draft_open(struct draft_model **out, const struct model *model,
	const struct model *target, enum draft_arithmetic, uint32_t context,
	uint32_t threads, struct err *);
/*
 * Open a draft model with a cache of its own, to serve one more request. The
 * new draft model shares the weights, workspace, threads, context size and cost
 * settings of `first`. `first` must outlive the new draft model.
 */
int draft_open_like(struct draft_model **out, const struct draft_model *first,
	struct err *);
void draft_close(struct draft_model *);

/* Compute the cost of each pass after this call as the time on a phone's CPU.
 * The cost is computed for this model, or, if `as` is not NULL, for a model
 * with the layer sizes `as` (host/session/pricing.h). `soc` must outlive the
 * draft model. draft_take_price adds the cost since its last call to *sum.
 * `type` has the types of the matrices of the model `as`; F32 means the types
 * of the loaded weights. */
struct price;
struct soc;
void draft_price_for(struct draft_model *, const struct soc *,
	const struct shape *as, struct shape_type type);
void draft_take_price(struct draft_model *, struct price *sum);

/* Add the cost of selecting the likeliest tokens from `rows` rows of logits to
 * the cost that draft_take_price returns. */
void draft_price_guesses(struct draft_model *, uint32_t rows);

/*
 * Functions for EAGLE heads only. draft_put_state sets g of position `at` from
 * the target's last hidden state at this position, before the target's final
 * norm, float32 [n_embd]. Before tokens at positions p to q are appended, g
 * must be set for positions p - 1 to q - 1. draft_begin appends the token of
 * position 0, which has no row, to an empty cache; all other tokens are
 * appended after it. Drafted rows cannot be kept, so draft_keep must be called
 * with n == 0. The parent of a row must have been computed in an earlier pass.
 */
bool draft_is_eagle(const struct draft_model *);
void draft_put_state(struct draft_model *, uint32_t at, const float *hidden);
void draft_begin(struct draft_model *, int32_t token);

/* Number of tokens that the cache can hold. */
uint32_t draft_context(const struct draft_model *);
uint32_t draft_n_vocab(const struct draft_model *);

/* Returns the ids of the cached tokens, and their number in *n. */
const int32_t *draft_tokens(const struct draft_model *, uint32_t *n);

/*
 * Append token[n], n >= 1, to the cache. *logits are the logits after the last
 * token, float32 [n_vocab]; the model owns them, and they are valid until the
 * next call. Returns 0, -EINVAL for an invalid token, or -ENOSPC if the context
 * has no room for all n tokens; after an error no token was appended.
 */
int draft_append(struct draft_model *, const int32_t *token, size_t n,
	const float **logits, struct err *);

/* Remove all cached tokens after the first `length`. */
void draft_truncate(struct draft_model *, uint32_t length);

/*
 * Make the cache hold exactly token[n], n >= 1. The common prefix with the
 * cached tokens is kept; the other tokens are computed. *logits and the return
 * value are as in draft_append.
 */
int draft_follow(struct draft_model *, const int32_t *token, size_t n,
	const float **logits, struct err *);

/* ---- trees: uncommitted rows after the cached tokens --------------------- */

/* The rows of one model in a pass that several models share. */
struct draft_ask {
	struct draft_model *draft;
	const int32_t *token; /* [n] */
	/* [n] for rows of a tree that continues the cached tokens: the index of
	 * each row's parent among the model's uncommitted rows, or -1 for no
	 * parent. The parent is an earlier row of this pass, or a row of any
	 * pass since the last call that drops all rows (append, follow, keep,
	 * truncate). `parent` is NULL if the tokens are appended as by
	 * draft_append; then only the logits after the last token are
	 * computed. */
	const int32_t *parent;
	uint32_t n; /* number of rows, at least 1 */
	/* output: index of the first of these rows among the model's
	 * uncommitted rows; the other rows have the next indices */
	uint32_t first;
};
/* maximum number of rows in one pass, over all models */
#define DRAFT_ASK_ROWS 64

/*
 * Compute rows of n >= 1 models in one pass, which reads the weights once. The
 * models must share their weights (draft_open_like). A row attends to the
 * cached tokens, its ancestors and itself, and its position is the number of
 * cached tokens plus its depth. Its logits are therefore bit for bit those that
 * draft_append computes for the row's path. `logits` receives the rows of
 * logits, n_vocab each, in the order of `ask`. Returns 0, -EINVAL for an
 * invalid token, or -ENOSPC if a context has no room; after an error nothing
 * was computed.
 */
int draft_together(struct draft_ask *, unsigned n, float *logits, struct err *);

/* Number of uncommitted rows. */
uint32_t draft_branch_rows(const struct draft_model *);

/*
 * Append the n rows row[0] < row[1] < ... to the cached tokens, and drop all
 * other rows. The rows are a path: row[0] has no parent, and each other row is
 * a child of the row before it. n may be 0.
 */
void draft_keep(struct draft_model *, const uint32_t *row, uint32_t n);

#endif
