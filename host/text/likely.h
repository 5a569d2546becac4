/*
 * The log-probabilities of a token and of the likeliest tokens at the same
 * position, computed from a row of logits. The log-probabilities are those of
 * the model's own distribution (temperature 1, no tokens cut off), regardless
 * of how the token was sampled. Thread-safe.
 */
#ifndef HOST_TEXT_LIKELY_H
#define HOST_TEXT_LIKELY_H

#include <stdint.h>

#define LIKELY_TOP 20 /* largest value of the argument `most` of likely_of */

struct likely {
	int32_t id;
	float logprob;
};

/*
 * Store the `most` likeliest tokens of logits[n_vocab] in top[], in descending
 * order of probability; of equal probabilities, the lower id comes first.
 * Returns the number of stored tokens. *logprob receives the log-probability of
 * `token`. If the token is outside the vocabulary or no logit is finite,
 * *logprob is NAN and the return value 0.
 */
unsigned likely_of(const float *logits, uint32_t n_vocab, int32_t token,
	unsigned most, struct likely top[LIKELY_TOP], float *logprob);

#endif
