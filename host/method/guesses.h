/*
 * What a pass of a diffusion model says of masked positions, and which of that
 * stays. Plain data and arithmetic on it; any thread.
 */
#ifndef HOST_METHOD_GUESSES_H
#define HOST_METHOD_GUESSES_H

#include <stdbool.h>
#include <stdint.h>

struct sampler_opts;

/* Which guesses come first. */
enum guess_order {
	ORDER_CONFIDENCE, /* probability of the token */
	ORDER_MARGIN,     /* of the likeliest over the next one's */
	ORDER_ENTROPY,    /* least entropy of all tokens */
	ORDER_RANDOM,
};
extern const char *const guess_orders[];

struct guess {
	uint32_t at; /* a position of the text */
	int32_t token;
	double confidence; /* the token's probability */
	double score;      /* by the order; more is sooner. Entropy is negative,
			    * in nats */
};

struct guessing {
	const struct sampler_opts *sampling; /* temperature, seed, stream */
	uint32_t n_vocab;
	int32_t mask; /* never guessed: probabilities are of the others */
	enum guess_order order;
	/* Probabilities are those of the temperature that is drawn by (Dream),
	 * not of the logits as they are (LLaDA). */
	bool tempered;
};

/*
 * What logits [n_vocab] say of position `at` in a pass of so many before it in
 * its block. Without a temperature the likeliest token, the lowest id among
 * equals; with one a draw, by Gumbel noise that is new in each pass. Logits
 * that are no numbers give some token and a confidence of nothing.
 */
void guess_from(const struct guessing *, const float *logits, uint32_t at,
	uint32_t pass, struct guess *out);

/* By score, the first position among equals; by confidence likewise. */
void guesses_by_score(struct guess *, uint32_t n);
void guesses_by_confidence(struct guess *, uint32_t n);

/* How many of n > 0 by confidence stay (Wu et al., "Fast-dLLM", 2025): those of
 * at least the threshold; the longest beginning whose k-th, from 1, has
 * 1 - factor / (k + 1). The first one stays in any case. */
uint32_t guesses_over(const struct guess *, uint32_t n, double threshold);
uint32_t guesses_by_factor(const struct guess *, uint32_t n, double factor);

#endif
