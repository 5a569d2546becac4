/*
 * What the files of a pool of samples share: samples.c keeps what is known of
 * each, samples_pass.c decides who is in a pass, and runs it. Nobody else
 * includes it.
 */
#ifndef HOST_METHOD_SAMPLES_IMPL_H
#define HOST_METHOD_SAMPLES_IMPL_H

#include "host/method/samples.h"
#include "host/session/rows.h"

struct samples {
	struct session *session; /* NULL: at rest */
	struct generation *gen;  /* the user's; of the run, as the session */
	struct samples_options opts;
	struct samples_sink *sink; /* the env's */
	uint64_t stream;           /* of sample 0 */
	size_t n_prompt;
	uint32_t n_vocab;
	uint32_t width;       /* rows of a pass */
	float *prompt_logits; /* [n_vocab]; NULL: no token is wanted */
	float *logits;        /* [LOGITS_ROWS][n_vocab] */

	uint32_t n, room;
	struct sample **sample; /* [n] */
	uint32_t over;          /* of them */
	const struct sample *chosen;
	samples_token *told;
	void *told_arg;
	bool by_step; /* samples wait for one another */

	/* Of the pass to come: */
	uint32_t n_in;
	struct sample *in[ROWS_SEQUENCES];
	struct row row[ROWS_SEQUENCES];
	struct samples_stats stats;
};

/* The next token of a sample from its row of logits, and what is known by it;
 * it may end the sample. */
void sample_draw(struct samples *, struct sample *, const float *logits);

/* It is over, as `state` says; its slots are given back. */
void sample_end(struct samples *, struct sample *, enum sample_state state);

/* What is cached of it is given back. */
void sample_forget(struct samples *, struct sample *);

#endif
