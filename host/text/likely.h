/*
 * The log-probability of a token and the likeliest ones in its place, from a
 * row of logits: of the model's own distribution (temperature 1, nothing cut
 * off), however the token was drawn. Any thread.
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
 * Of logits [n_vocab] the `most` likeliest to top[], descending, of equal ones
 * the lower id first; how many there are. *logprob is that of the token; NAN
 * where it is outside the vocabulary, or no logit is finite.
 */
unsigned likely_of(const float *logits, uint32_t n_vocab, int32_t token,
	unsigned most, struct likely top[LIKELY_TOP], float *logprob);

#endif
