/*
 * How sure a model was where it drew a token, from the row of logits: of the
 * model's own distribution (temperature 1, nothing cut off), however it was
 * drawn from. Any thread.
 */
#ifndef HOST_TEXT_CERTAINTY_H
#define HOST_TEXT_CERTAINTY_H

#include <stdint.h>

#define CERTAINTY_TOP 64 /* tokens that a confidence looks at, at most */

struct certainty {
	double logprob; /* of the token */
	/* KL divergence of the uniform distribution from it, in nats: 0 where
	 * all tokens are as likely (Kang et al., "Scalable best-of-N selection
	 * for large language models via self-certainty", 2025). */
	double self;
	/* Minus the mean log-probability of the `top` likeliest (Fu et al.,
	 * "Deep think with confidence", 2025). */
	double confidence;
};

/*
 * Of logits [n_vocab], which are read twice; 1 <= top <= CERTAINTY_TOP, of
 * which a smaller vocabulary has all. All zero where there is no finite
 * logit or the token is outside the vocabulary.
 */
void certainty_of(struct certainty *, const float *logits, uint32_t n_vocab,
	int32_t token, unsigned top);

#endif
