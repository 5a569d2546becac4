/*
 * The log-probabilities of a token and of the likeliest tokens at its position,
 * from a row of logits. They are those of the model's own distribution
 * (temperature 1, no tokens cut off), regardless of how the token was sampled.
 * Thread-safe.
 */
#ifndef HOST_TEXT_LIKELY_H
#define HOST_TEXT_LIKELY_H

#include <stdint.h>

#define LIKELY_TOP 20 /* largest value of `most` below */

struct likely {
	int32_t id;
	float logprob;
};

/*
 * Store the `most` likeliest tokens of logits [n_vocab] in top[], in descending
 * order, equal ones by lower id. Returns their number. *logprob is set to the
 * log-probability of `token`, or to NAN, with the return value 0, if the token
 * is outside the vocabulary or if no logit is finite.
 */
unsigned likely_of(const float *logits, uint32_t n_vocab, int32_t token,
	unsigned most, struct likely top[LIKELY_TOP], float *logprob);

#endif
