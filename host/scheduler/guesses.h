/*
 * Guesses: the tokens that a pass of a diffusion model predicts for masked
 * positions, and the choice of which guesses are kept. Pure functions, which
 * any thread may call.
 */
#ifndef HOST_SCHEDULER_GUESSES_H
#define HOST_SCHEDULER_GUESSES_H

#include <stdbool.h>
#include <stdint.h>

struct sampler_opts;

/* The measure by which guesses are sorted; the best guesses are kept first. */
enum guess_order {
	ORDER_CONFIDENCE, /* by the probability of the guess, largest first */
	/* by the difference between the two largest probabilities of the
	 * guess's position, largest first */
	ORDER_MARGIN,
	/* by the entropy of the distribution of the guess's position, smallest
	 * first */
	ORDER_ENTROPY,
	ORDER_RANDOM,
};
extern const char *const guess_orders[];

struct guess {
	uint32_t at; /* position in the text */
	int32_t token;
	double confidence; /* probability of the token */
	/* value by which guesses are sorted (enum guess_order); larger is
	 * better. With ORDER_ENTROPY: the negative entropy, in nats */
	double score;
};

struct guessing {
	/* sampling options; only temperature, seed and stream are used */
	const struct sampler_opts *sampling;
	uint32_t n_vocab;
	/* the mask token, which is never guessed; probabilities are normalized
	 * without this token */
	int32_t mask;
	enum guess_order order;
	/*
	 * true: probabilities are computed at the sampling temperature, as for
	 * the model Dream. false: from the plain logits, as for the model
	 * LLaDA.
	 */
	bool tempered;
};

/*
 * Guess a token for position `at` from its logits [n_vocab], in pass number
 * `pass` of its block. At temperature 0 the guess is the likeliest token; of
 * equally likely tokens, the token with the lowest id. At other temperatures
 * the guess is drawn, with Gumbel noise that differs from pass to pass. If
 * logits are NaN, the guess is an arbitrary token with confidence 0.
 */
void guess_from(const struct guessing *, const float *logits, uint32_t at,
	uint32_t pass, struct guess *out);

static inline void guesses_exchange(struct guess *g, uint32_t i, uint32_t k)
{
	const struct guess other = g[i];

	g[i] = g[k];
	g[k] = other;
}

/* Sort guesses by descending score; equal scores by position. */
void guesses_sort(struct guess *, uint32_t n);

/*
 * Sort n > 0 guesses by descending confidence; guesses with equal confidence by
 * position. Returns how many guesses to keep, at least 1 (Wu et al.,
 * "Fast-dLLM", 2025). guesses_over keeps the guesses whose confidence is at
 * least `threshold`. guesses_by_factor keeps the longest prefix in which the
 * confidence of the k-th guess (k from 1) is at least 1 - factor / (k + 1).
 */
uint32_t guesses_over(struct guess *, uint32_t n, double threshold);
uint32_t guesses_by_factor(struct guess *, uint32_t n, double factor);

#endif
