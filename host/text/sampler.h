/*
 * Sampling a token from a row of logits. The random number is a function of
 * (seed, stream, position), so the token at a position does not depend on how
 * or in what order positions were computed (see base/rng.h).
 *
 * The order of operations is: repetition penalty, top-k, top-p, min-p,
 * temperature, sampling. Temperature 0 is greedy: after the penalty, the token
 * with the largest logit is chosen, the lowest id among equal ones, without a
 * random number.
 */
#ifndef HOST_TEXT_SAMPLER_H
#define HOST_TEXT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct sampler;

struct sampler_opts {
	double temperature;    /* 0 means greedy */
	uint32_t top_k;        /* 0 means no limit */
	double top_p;          /* 1 means no limit */
	double min_p;          /* 0 means no limit */
	double repeat_penalty; /* 1 means no penalty */
	/* number of last tokens that the penalty applies to */
	uint32_t repeat_last;
	uint64_t seed, stream;
};

extern const struct sampler_opts sampler_defaults;

int sampler_open(struct sampler **out, const struct sampler_opts *,
	uint32_t n_vocab, struct err *);
void sampler_close(struct sampler *);

/* The options given at opening, for methods that sample themselves. */
const struct sampler_opts *sampler_options(const struct sampler *);

/*
 * Returns the token for the position `position` of the sequence, with the
 * random numbers of `stream`. history[n_history] is all tokens before it, for
 * the penalty. `logits` [n_vocab] is not changed.
 */
int32_t sampler_draw_from(struct sampler *, uint64_t stream,
	const float *logits, const int32_t *history, size_t n_history,
	uint64_t position);

#endif
