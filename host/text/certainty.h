/*
 * A model's certainty at a sampled token, from the row of logits: by the
 * model's own distribution (temperature 1, nothing cut off), however the token
 * was sampled. Any thread.
 */
#ifndef HOST_TEXT_CERTAINTY_H
#define HOST_TEXT_CERTAINTY_H

#include <stdint.h>

#define CERTAINTY_TOP 64 /* tokens that a confidence covers, at most */

struct certainty {
	double logprob; /* of the token */
	/* KL divergence of the uniform distribution from the model's, in nats:
	 * 0 if all tokens are equally likely (Kang et al., "Scalable best-of-N
	 * selection for large language models via self-certainty", 2025). */
	double self;
	/* Minus the mean log-probability of the `top` likeliest (Fu et al.,
	 * "Deep think with confidence", 2025). */
	double confidence;
};

/*
 * From logits [n_vocab], which are read twice; 1 <= top <= CERTAINTY_TOP; a
 * smaller vocabulary counts wholly. All zero if no logit is finite or the token
 * is outside the vocabulary.
 */
void certainty_of(struct certainty *, const float *logits, uint32_t n_vocab,
	int32_t token, unsigned top);

#endif
