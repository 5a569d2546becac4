/* The tokens that a pass of a diffusion model predicts for masked positions,
 * and which of these guesses are kept. Plain data and arithmetic; any
 * thread. */
#ifndef HOST_METHOD_GUESSES_H
#define HOST_METHOD_GUESSES_H

#include <stdbool.h>
#include <stdint.h>

struct sampler_opts;

/* Which guesses are kept first. */
enum guess_order {
	ORDER_CONFIDENCE, /* largest probability of the token */
	/* largest distance to the second likeliest token's probability */
	ORDER_MARGIN,
	ORDER_ENTROPY, /* least entropy of the distribution */
	ORDER_RANDOM,
};
extern const char *const guess_orders[];

struct guess {
	uint32_t at; /* position in the text */
	int32_t token;
	double confidence; /* probability of the token */
	/* by the order: larger is better; the negative entropy, in nats */
	double score;
};

struct guessing {
	const struct sampler_opts *sampling; /* temperature, seed, stream */
	uint32_t n_vocab;
	/* never guessed; probabilities are normalized without it */
	int32_t mask;
	enum guess_order order;
	/* Probabilities are computed at the sampling temperature (Dream), not
	 * from the plain logits (LLaDA). */
	bool tempered;
};

/*
 * Guess a token for position `at` from logits [n_vocab] in pass number `pass`
 * of its block. At temperature 0 the likeliest token, the lowest id among
 * equals; else a draw, with Gumbel noise that differs in each pass. From NaN
 * logits: some token with confidence 0.
 */
void guess_from(const struct guessing *, const float *logits, uint32_t at,
	uint32_t pass, struct guess *out);

/* Sort by descending score; ties by position. */
void guesses_sort(struct guess *, uint32_t n);

/*
 * Sort n > 0 guesses by descending confidence, ties by position, and return how
 * many to keep (Wu et al., "Fast-dLLM", 2025): those of at least `threshold`;
 * or the longest prefix whose k-th guess, from 1, has at least 1 - factor / (k
 * + 1). At least 1.
 */
uint32_t guesses_over(struct guess *, uint32_t n, double threshold);
uint32_t guesses_by_factor(struct guess *, uint32_t n, double factor);

#endif
