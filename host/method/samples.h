/*
 * Many samples of one prompt: a pool of lanes (host/method/lanes.h) that are
 * forked from the lane of their request, the root, which has read the prompt.
 * The steps of a method with many samples (struct many_steps: best of N, votes,
 * beams) add samples or fork a sample at its current end, cut unpromising ones,
 * and read the statistics of each.
 *
 * Sample i draws with random stream i, counted from the request's stream. Its
 * tokens do not depend on the other samples, on the width of a pass, or on a
 * pause, because its rows have the same bytes as in a pass of their own. So
 * sample 0 is plain decoding.
 *
 * Cache slots are taken as samples grow; the prompt's slots are shared. If the
 * root's cache was dropped for lack of slots, a sample forks the prompt from
 * another sample or computes it again.
 *
 * If the session taps hidden states in the middle of the model
 * (session_opts.tap_layers), the states of all tokens that steps are scored by
 * are kept. A finished sample then takes part in one more pass, for the state
 * of its last token. Where samples wait for one another at the ends of steps, a
 * step ends when its last row is computed, and the next token is drawn from
 * that row.
 *
 * A pool belongs to a request and stays readable after the run. It borrows the
 * env, the generation, with whose sampler it draws, and during the run the
 * lanes and the root. One thread.
 */
#ifndef HOST_METHOD_SAMPLES_H
#define HOST_METHOD_SAMPLES_H

#include "base/err.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "host/method/lanes.h"
#include "host/method/method_stats.h"
#include "host/method/samples_options.h"
#include "host/method/tapped.h"
#include "host/text/generation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct method_env;
struct samples;
struct session;

/* likeliest tokens that a confidence is computed from */
#define SAMPLES_CONFIDENCE 20

/*
 * The tokens of each of n samples (at least as many as requested), up to the
 * one that ends the sample: a run replays what another run drew, for a session
 * that computes nothing (session_opts.idle). Log-probabilities and confidences
 * are unknown then. Not for methods that fork.
 */
struct samples_script {
	uint32_t n;
	const struct sample_tokens {
		const int32_t *token; /* [n], without the prompt */
		size_t n;
	} * sample; /* [n] */
};

struct sample {
	struct lane lane; /* holds its state; LANE_CUT: by the method */
	struct samples *pool;
	/* Its number, in the order of addition; the sample that it was forked
	 * from, -1: the prompt. */
	uint32_t index;
	int32_t parent;
	/* of its random numbers, from the token where it began */
	uint64_t stream;
	enum gen_stop stop;
	struct generation *gen; /* its tokens, prompt first; owned */
	struct strbuf text;     /* of its tokens, without the prompt's */

	/*
	 * Statistics of its n drawn tokens (those before a fork included), by
	 * the model's own distribution, whatever the sampling options: the sum
	 * of the log-probabilities; the sum of the self-certainty (Kang et al.,
	 * "Scalable best-of-N selection for large language models via
	 * self-certainty", 2025: the KL divergence from the uniform
	 * distribution); and the confidence of each token (Fu et al., "Deep
	 * think with confidence", 2025: minus the mean log-probability of the
	 * SAMPLES_CONFIDENCE likeliest tokens). See host/text/certainty.h.
	 */
	size_t n;
	double logprob, certainty;
	float *confidence; /* [n] */

	/* Its steps: the last token of each, as an index into all tokens, and a
	 * score that the method sets (NAN: none yet). When the text ends, the
	 * tokens after the last step are a step too. */
	uint32_t n_steps;
	uint32_t *step_end;
	float *score;
	/* of the whole text, set by the method; NAN: none */
	float value;
	float weight;         /* of its vote */
	struct strbuf answer; /* in canonical form; empty: none */
	struct err err;       /* of a failed sample */

	/* Begin and end (clock_ns, and picoseconds of the phone). */
	uint64_t began_ns, ended_ns, began_ps, ended_ps;

	struct tapped tapped; /* of its tokens after the prompt */

	/* For the pool only: */
	bool no_slot; /* there were no slots for its last token */
	/* logits to draw its next token from; NULL: those of its next row */
	float *ahead;
	size_t step_at; /* where in the text its current step begins */
	/* text before this was searched for the end of a step */
	size_t searched;
	size_t room; /* of confidence[] */
	uint32_t step_room;
};

/* Called after each pass of a pool that runs alone; may be NULL. */
struct samples_sink {
	void (*after_pass)(void *arg, const struct samples *);
	void *arg;
};

/* A pool without samples. Options and method are those of env. */
int samples_open(struct samples **out, struct method_env *, struct generation *,
	const struct samples_sink *, struct err *);
void samples_close(struct samples *);

/*
 * Run the request with its method's steps, as the only one. SESSION_TEXT, the
 * root's sequence, holds a beginning of the prompt and afterwards all of it. No
 * other sequence is left. At -ECANCELED the text is what the method's `stop`
 * chose.
 */
int samples_run_alone(struct samples *, struct session *, struct err *);

/* ---- for the code that runs the passes ---- */

/* Rows [row, row + n) of the session's last pass are those of the prompt's
 * tokens from `at` on: keep their states, if the session taps any. */
void samples_read(struct samples *, struct session *, size_t at, uint32_t row,
	uint32_t n);
/* The prompt is read; logits [n_vocab] of its last row are copied. All samples
 * draw their first token from them. */
void samples_read_all(struct samples *, const float *logits, uint32_t n_vocab);
/* Whether samples_read_all was called. */
bool samples_are_read(const struct samples *);
/* Call the method's first step. The samples become lanes after the root; the
 * root's owner is told their rows as the root's. Call samples_detach at the
 * end, whatever this returns. */
int samples_begin(
	struct samples *, struct lanes *, struct lane *root, struct err *);
bool samples_have_begun(const struct samples *);
/* Between two passes: call the method's next steps, if no sample is active. 0,
 * or what many_steps.next returns. */
int samples_next(struct samples *, struct err *);
/* End the run: drop all sequences and lanes; what is recorded about the samples
 * stays. Unfinished samples never continue. */
void samples_detach(struct samples *);
/* Drafted and accepted tokens of all lanes. */
void samples_count_drafts(
	const struct samples *, uint64_t *drafted, uint64_t *accepted);

/* ---- for the steps of a method ---- */

const struct method_env *samples_env(const struct samples *);
/* [many_steps.bytes] */
void *samples_own(const struct samples *);

/* Whether samples wait for one another at the ends of steps, from the next pass
 * on; at first they do not. */
void samples_wait_at_steps(struct samples *, bool wait);

/* Add n samples of the prompt, each with the random stream of its index. */
int samples_add(struct samples *, uint32_t n, struct err *);
/* Add a sample that continues `from`, which has not ended, with another random
 * stream. */
int samples_fork(struct samples *, struct sample *from, uint64_t stream,
	struct sample **out, struct err *);
/* End a sample and free its slots. No effect if it has ended. */
void samples_cut(struct samples *, struct sample *);

/* If all samples failed: the error of the first one. */
int samples_check(const struct samples *, struct err *);

uint32_t samples_count(const struct samples *);
struct sample *samples_at(const struct samples *, uint32_t i);
/* Number of samples in that state. */
uint32_t samples_in(const struct samples *, enum lane_state);

const char *sample_state_name(enum lane_state);

/* samples_deliver: append the sample's tokens to the generation of the request,
 * as far as it does not have them yet. False: the reader of the text wants no
 * more. samples_choose: also record that this sample was chosen. */
bool samples_deliver(struct samples *, const struct sample *);
void samples_choose(struct samples *, const struct sample *);
/* NULL: none was chosen. */
const struct sample *samples_chosen(const struct samples *);

void samples_stats(const struct samples *, struct samples_stats *out);

/* States of the prompt's tokens, if the session taps any; else NULL. */
const float *samples_prompt_state(const struct samples *);

/* For a method's table. samples_rows: rows of a pass, and the number of
 * sequences of a method whose samples run independently. samples_all: the
 * number of sequences where samples wait for one another. */
uint32_t samples_rows(const struct method_env *);
/* Rows of all trees together, where samples are drafted for. */
uint32_t samples_tree_rows(const struct method_env *);
uint32_t samples_all(const struct method_env *);
/* Default temperature: 0.8 as in search-and-learn, since greedy samples would
 * all be equal; 0 for one sample. */
double samples_temperature(const struct method_env *);

#endif
