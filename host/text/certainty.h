/*
 * Measures of how certain a model was of a sampled token, computed from the
 * token's row of logits. The measures use the model's own distribution
 * (temperature 1, no tokens cut off), regardless of how the token was sampled.
 * Thread-safe.
 */
#ifndef HOST_TEXT_CERTAINTY_H
#define HOST_TEXT_CERTAINTY_H

#include <stdint.h>

/* maximum number of tokens over which `confidence` averages */
#define CERTAINTY_TOP 64

struct certainty {
	double logprob; /* log-probability of the token */
	/* KL divergence of the model's distribution from the uniform
	 * distribution, in nats: 0 if all tokens are equally likely (Kang et
	 * al., "Scalable best-of-N selection for large language models via
	 * self-certainty", 2025). */
	double self;
	/* Minus the mean log-probability of the `top` likeliest tokens (Fu et
	 * al., "Deep think with confidence", 2025). */
	double confidence;
};

/*
 * Compute the certainty at `token` from logits [n_vocab], which are read twice;
 * 1 <= top <= CERTAINTY_TOP. If the vocabulary has fewer than `top` tokens, all
 * tokens are used. All results are 0 if any logit is infinite or NaN, or if the
 * token is outside the vocabulary.
 */
void certainty_of(struct certainty *, const float *logits, uint32_t n_vocab,
	int32_t token, unsigned top);

#endif
