/*
 * Perplexity of a causal model on given text. Perplexity is the exponential of
 * the mean negative log-likelihood (nll, in nats) of tokens given the tokens
 * before them. The text is divided into passages. Each passage is processed
 * with an empty KV cache in the same session, and the tokens of its second part
 * are scored. Prints nothing. Single-threaded.
 */
#ifndef HOST_EVAL_PERPLEXITY_H
#define HOST_EVAL_PERPLEXITY_H

#include "base/counters.h"
#include "host/text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct err;
struct eval_items;
struct model;
struct progress_sink;
struct session;

/* A passage: tokens [at, at + n) of passages.tokens. The passage's tokens from
 * index `first` on are scored; 1 <= first < n. */
struct passage {
	size_t at;
	uint32_t n, first;
	/* id of the item from which the passage was made; the item owns the
	 * string. NULL if the passage is a window of a text */
	const char *id;
};

/* The caller zeroes the struct, and releases it with passages_release() even on
 * failure. */
struct passages {
	struct token_list tokens; /* tokens of all passages, concatenated */
	struct passage *passage;
	size_t n;
};

/*
 * Append a passage for each item. A passage consists of BOS if the model uses
 * BOS, the prompt, the answer, and an end token if the model has an end token;
 * the answer and the end token are scored. Prompt and answer are tokenized
 * together. If the result begins with the tokens of the prompt, its remaining
 * tokens are those of the answer; otherwise the answer is tokenized alone.
 * Returns 0 or a negative errno.
 */
int passages_add_items(struct passages *, const struct tokenizer *,
	const struct eval_items *, struct err *);

/*
 * Append windows of a text, of `window` >= 2 tokens each, in the same way as
 * llama.cpp's perplexity tool. If the model uses BOS, a BOS token is inserted
 * before the text, and the first token of each later window is replaced by BOS.
 * In a window of n tokens, the tokens from index n / 2 + 1 on are scored; if n
 * is 2, the token with index 1. Tokens after the last complete window are not
 * used. A text shorter than a window is one window. `most` limits the number of
 * windows; 0 means no limit. Returns 0 on success, -EINVAL if the text has
 * fewer than two tokens including BOS, or another negative errno.
 */
int passages_add_text(struct passages *, const struct tokenizer *,
	const char *text, size_t len, uint32_t window, uint64_t most,
	struct err *);

void passages_release(struct passages *);

/* Return the number of tokens of the longest passage; 0 if there is none. */
uint32_t passages_longest(const struct passages *);

/* Check that all passages fit into the context. The last token of a passage
 * needs no room, because it is only predicted. Returns 0, or -EFBIG if a
 * passage does not fit; the message names the passage. */
int passages_check(const struct passages *, const struct model *,
	uint32_t context, struct err *);

/* clang-format off */
#define PERPLEXITY_SUMS(X)                                                    \
	X(uint64_t, tokens) /* number of scored tokens */                     \
	X(double, sum)      /* sum of the nll */                              \
	X(double, squares)  /* sum of the squared nll */                      \
	X(uint64_t, read)   /* tokens that the model processed */             \
	X(uint64_t, ns)     /* wall-clock time */
/* clang-format on */

struct perplexity {
	PERPLEXITY_SUMS(COUNTER_MEMBER)
};

/*
 * Return -log softmax(logits)[token] for float32 logits [n], computed in double
 * precision. The result is not finite if any logit is +inf or NaN, or if the
 * logit of `token` is -inf.
 */
double token_nll(const float *logits, uint32_t n, int32_t token);

/*
 * Score all passages with passes of the model in the session (tandem_session).
 * Reports progress in tokens under the name `name`. If the call fails, the
 * results up to the failure are added to *p. Returns 0 on success, -ECANCELED
 * if interrupted, -EDOM if logits give no finite likelihood, or another
 * negative errno.
 */
int perplexity_run(struct session *, const struct model *,
	const struct passages *, const char *name, const struct progress_sink *,
	struct perplexity *p, struct err *);

void perplexity_add(struct perplexity *, const struct perplexity *more);

/* Return the mean nll; 0 if no token was scored. */
double perplexity_mean(const struct perplexity *);

/*
 * perplexity_value() returns exp(mean nll), or NaN if no token was scored.
 * perplexity_interval() computes the 95 % interval of this value, by a normal
 * approximation of the mean nll over the tokens. The bounds are NaN if fewer
 * than two tokens were scored.
 */
double perplexity_value(const struct perplexity *);
void perplexity_interval(const struct perplexity *, double *low, double *high);

#endif
