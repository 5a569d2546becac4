/*
 * Sampling a token from a row of logits. The random number is a function of
 * (seed, stream, position), so the token at a position does not depend on the
 * order in which positions are computed (base/rng.h).
 *
 * The order of operations is: biases, repetition penalty, presence and
 * frequency penalties, top-k, top-p, min-p, temperature, sampling. Temperature
 * 0 is greedy: after the penalties, the token with the largest logit is chosen,
 * the lowest id among equal ones, without a random number.
 */
#ifndef HOST_TEXT_SAMPLER_H
#define HOST_TEXT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct sampler;

/* A value that is added to the logit of a token. */
struct token_bias {
	int32_t id;
	float bias;
};

struct sampler_opts {
	double temperature;    /* 0 means greedy */
	uint32_t top_k;        /* 0 means no limit */
	double top_p;          /* 1 means no limit */
	double min_p;          /* 0 means no limit */
	double repeat_penalty; /* 1 means no penalty */
	/* number of most recent tokens to which the repetition penalty
	 * applies */
	uint32_t repeat_last;
	uint64_t seed, stream;
	/* Amounts that are subtracted from the logit of a token that was
	 * already generated: presence_penalty once, frequency_penalty once per
	 * occurrence. 0 means no penalty. */
	double presence_penalty, frequency_penalty;
	/* [n_bias] If a token has several biases, these are added up. The array
	 * is needed only during sampler_open. */
	const struct token_bias *bias;
	uint32_t n_bias;
};

extern const struct sampler_opts sampler_defaults;

/* Returns 0, -EINVAL for an option out of its range, or -ENOMEM. */
int sampler_open(struct sampler **out, const struct sampler_opts *,
	uint32_t n_vocab, struct err *);
void sampler_close(struct sampler *);

/* The options given at opening, without the biases, for decoding methods that
 * sample tokens themselves. */
const struct sampler_opts *sampler_options(const struct sampler *);

/*
 * Returns the token for the position `position` of the sequence, with the
 * random numbers of `stream`. history[n_history] has all tokens before this
 * position, for the penalties; the first n_prompt of them are the prompt.
 * `logits` [n_vocab] is not changed.
 */
int32_t sampler_draw_from(struct sampler *, uint64_t stream,
	const float *logits, const int32_t *history, size_t n_prompt,
	size_t n_history, uint64_t position);

#endif
