/*
 * From a row of logits to a token. The random number is drawn by counter
 * from (seed, stream, position), so the token at a position does not depend
 * on how or in what order positions were computed (see base/rng.h).
 *
 * Order: repetition penalty, top-k, top-p, min-p, temperature, draw.
 * Temperature 0 is greedy: after the penalty the largest logit wins, the
 * lowest id among equals, and nothing is drawn.
 */
#ifndef HOST_TEXT_SAMPLER_H
#define HOST_TEXT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct sampler;

struct sampler_opts {
	double temperature;    /* 0: greedy */
	uint32_t top_k;        /* 0: all */
	double top_p;          /* 1: all */
	double min_p;          /* 0: all */
	double repeat_penalty; /* 1: none */
	uint32_t repeat_last;  /* tokens looked back on */
	uint64_t seed, stream;
};

extern const struct sampler_opts sampler_defaults;

int sampler_open(struct sampler **out, const struct sampler_opts *,
	uint32_t n_vocab, struct err *);
void sampler_close(struct sampler *);

/* As given at opening, for methods that draw in another way. */
const struct sampler_opts *sampler_options(const struct sampler *);

/*
 * The token for absolute position `position`, by the random numbers of this
 * stream; `history` is all tokens before it, for the penalty. `logits`
 * [n_vocab] is not changed.
 */
int32_t sampler_draw_from(struct sampler *, uint64_t stream,
	const float *logits, const int32_t *history, size_t n_history,
	uint64_t position);

#endif
