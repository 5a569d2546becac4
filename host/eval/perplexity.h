/*
 * How well a causal model foretells given text: the negative log-likelihood
 * (nll, in nats) of tokens behind those before them, and its exponential, the
 * perplexity. Text is made into passages first; each is then read from an
 * empty cache in the one open session, and the tokens of its second part are
 * scored. Prints nothing. One thread.
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

/* Tokens [at, at + n) of the list; scored are those from `first` on, counted
 * from `at`: 1 <= first < n. */
struct passage {
	size_t at;
	uint32_t n, first;
	const char *id; /* the item's, borrowed; NULL: a window of a text */
};

/* Zero-initialise; passages_release in any case. */
struct passages {
	struct token_list tokens; /* of one passage behind the other */
	struct passage *passage;
	size_t n;
};

/*
 * Append a passage for each item: BOS where the model wants it, prompt,
 * answer, end token where there is one; scored are the answer and the end.
 * The answer's tokens are those behind the prompt's where prompt and answer,
 * tokenized together, begin with them, else those it has by itself.
 */
int passages_add_items(struct passages *, const struct tokenizer *,
	const struct eval_items *, struct err *);

/*
 * Append the windows of a text, of `window` >= 2 tokens each, as llama.cpp's
 * perplexity tool cuts them: BOS, where the model wants it, stands before the
 * text and in place of the first token of every other window; the tokens from
 * window / 2 + 1 on are scored; what is left behind the last whole window is
 * not read. A text shorter than a window is one, cut in the same way. Of
 * `most` > 0 windows no more. -EINVAL for less than two tokens, BOS counted.
 */
int passages_add_text(struct passages *, const struct tokenizer *,
	const char *text, size_t len, uint32_t window, uint64_t most,
	struct err *);

void passages_release(struct passages *);

/* Tokens of the longest one; 0 of none. */
uint32_t passages_longest(const struct passages *);

/* -EFBIG, naming it, for a passage whose tokens but for the last, which is
 * only foretold, have no room in a context of so many. */
int passages_check(const struct passages *, const struct model *,
	uint32_t context, struct err *);

/* clang-format off */
#define PERPLEXITY_SUMS(X)                                                    \
	X(uint64_t, tokens) /* scored */                                      \
	X(double, sum)      /* of their nll */                                \
	X(double, squares)  /* of that */                                     \
	X(uint64_t, read)   /* tokens the model read */                       \
	X(uint64_t, ns)     /* of the wall clock */
/* clang-format on */

struct perplexity {
	PERPLEXITY_SUMS(COUNTER_MEMBER)
};

/*
 * -log softmax(logits)[token], float32 logits [n], in double precision: not
 * finite where the token's or none of the logits are, or one is +inf or NaN.
 */
double token_nll(const float *logits, uint32_t n, int32_t token);

/*
 * Score all passages by passes of that model (tandem_session), with progress of
 * their tokens under this name. Also on failure
 * *p, added to, holds what was scored: -ECANCELED when interrupted, -EDOM for
 * logits without a likelihood.
 */
int perplexity_run(struct session *, const struct model *,
	const struct passages *, const char *name, const struct progress_sink *,
	struct perplexity *p, struct err *);

void perplexity_add(struct perplexity *, const struct perplexity *more);

double perplexity_mean(const struct perplexity *); /* nll; 0 of none */

/*
 * exp(mean nll), and the 95 % interval of it: the mean's normal approximation
 * over tokens, exponentiated. NaN without a token; the bounds also of one.
 */
double perplexity_value(const struct perplexity *);
void perplexity_interval(const struct perplexity *, double *low, double *high);

#endif
