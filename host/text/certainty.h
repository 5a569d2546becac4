/*
 * A model's certainty at a sampled token, from its row of logits. It is
 * computed from the model's own distribution (temperature 1, no tokens cut
 * off), regardless of how the token was sampled. Thread-safe.
 */
#ifndef HOST_TEXT_CERTAINTY_H
#define HOST_TEXT_CERTAINTY_H

#include <stdint.h>

#define CERTAINTY_TOP 64 /* most tokens that `confidence` covers */

struct certainty {
	double logprob; /* log-probability of the token */
	/* KL divergence of the uniform distribution from the model's, in nats.
	 * It is 0 if all tokens are equally likely (Kang et al., "Scalable
	 * best-of-N selection for large language models via self-certainty",
	 * 2025). */
	double self;
	/* Minus the mean log-probability of the `top` likeliest tokens (Fu et
	 * al., "Deep think with confidence", 2025). */
	double confidence;
};

/*
 * Compute the certainty at `token` from logits [n_vocab], which are read twice;
 * 1 <= top <= CERTAINTY_TOP. If the vocabulary has fewer than `top` tokens, all
 * of them are used. All results are 0 if no logit is finite or if the token is
 * outside the vocabulary.
 */
void certainty_of(struct certainty *, const float *logits, uint32_t n_vocab,
	int32_t token, unsigned top);

#endif
