/*
 * Perplexity of a causal model on given text: the negative log-likelihood (nll,
 * in nats) of tokens given those before them, and the exponential of its mean.
 * The text is first divided into passages; each is read with an empty cache in
 * the one open session, and the tokens of its second part are scored. Prints
 * nothing. One thread.
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

/* Tokens [at, at + n) of the list; those from `first` on, relative to `at`, are
 * scored: 1 <= first < n. */
struct passage {
	size_t at;
	uint32_t n, first;
	const char *id; /* of the item, borrowed; NULL: a window of a text */
};

/* Zero-initialise; passages_release in any case. */
struct passages {
	struct token_list tokens; /* of all passages, one after the other */
	struct passage *passage;
	size_t n;
};

/*
 * Append a passage for each item: BOS if the model uses it, prompt, answer, and
 * an end token if there is one; answer and end token are scored. The answer's
 * tokens are taken from the tokens of prompt and answer together if these begin
 * with the prompt's tokens; otherwise the answer is tokenized alone.
 */
int passages_add_items(struct passages *, const struct tokenizer *,
	const struct eval_items *, struct err *);

/*
 * Append the windows of a text, of `window` >= 2 tokens each, as llama.cpp's
 * perplexity tool does: BOS, if the model uses it, stands before the text and
 * replaces the first token of all later windows; the tokens from window / 2 + 1
 * on are scored; tokens after the last whole window are not read. A text
 * shorter than a window is one window. `most` > 0 limits the number of windows.
 * -EINVAL for fewer than two tokens including BOS.
 */
int passages_add_text(struct passages *, const struct tokenizer *,
	const char *text, size_t len, uint32_t window, uint64_t most,
	struct err *);

void passages_release(struct passages *);

/* Tokens of the longest passage; 0 without passages. */
uint32_t passages_longest(const struct passages *);

/* -EFBIG, with its name, for a passage that does not fit into the context; the
 * last token, which is only predicted, takes no room. */
int passages_check(const struct passages *, const struct model *,
	uint32_t context, struct err *);

/* clang-format off */
#define PERPLEXITY_SUMS(X)                                                    \
	X(uint64_t, tokens) /* scored */                                      \
	X(double, sum)      /* sum of the nll */                              \
	X(double, squares)  /* sum of the squared nll */                      \
	X(uint64_t, read)   /* tokens read by the model */                    \
	X(uint64_t, ns)     /* wall clock */
/* clang-format on */

struct perplexity {
	PERPLEXITY_SUMS(COUNTER_MEMBER)
};

/*
 * -log softmax(logits)[token], float32 logits [n], in double precision. The
 * result is not finite if any logit is +inf or NaN, or if the token's own logit
 * is -inf.
 */
double token_nll(const float *logits, uint32_t n, int32_t token);

/*
 * Score all passages with passes of that model (tandem_session); reports
 * progress in tokens under this name. On failure too the results so far are
 * added to *p: -ECANCELED when interrupted, -EDOM for logits without a
 * likelihood.
 */
int perplexity_run(struct session *, const struct model *,
	const struct passages *, const char *name, const struct progress_sink *,
	struct perplexity *p, struct err *);

void perplexity_add(struct perplexity *, const struct perplexity *more);

/* mean nll; 0 without tokens */
double perplexity_mean(const struct perplexity *);

/*
 * exp(mean nll), and its 95 % interval: the normal approximation of the mean
 * over tokens, exponentiated. NaN without a token; the bounds also with a
 * single one.
 */
double perplexity_value(const struct perplexity *);
void perplexity_interval(const struct perplexity *, double *low, double *high);

#endif
