/*
 * The log-probability of a token and of the likeliest ones at its place, from a
 * row of logits: by the model's own distribution (temperature 1, nothing cut
 * off), however the token was sampled. Any thread.
 */
#ifndef HOST_TEXT_LIKELY_H
#define HOST_TEXT_LIKELY_H

#include <stdint.h>

#define LIKELY_TOP 20 /* at most */

struct likely {
	int32_t id;
	float logprob;
};

/*
 * Store the `most` likeliest of logits [n_vocab] in top[], descending, equal
 * ones by lower id; returns their number. *logprob is the token's; NAN if the
 * token is outside the vocabulary, or no logit is finite.
 */
unsigned likely_of(const float *logits, uint32_t n_vocab, int32_t token,
	unsigned most, struct likely top[LIKELY_TOP], float *logprob);

#endif
