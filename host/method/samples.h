/*
 * Many samples of one prompt: lanes (host/method/lanes.h) that are forked from
 * it. What methods of samples stand on (best of n, votes, beams): they add
 * samples or fork one at its present end, cut those that promise little, and
 * read what is known of each.
 *
 * Sample i draws by the random numbers of stream i behind the text's own, and
 * nothing of it depends on which others there are, on the width of a pass, or
 * on whether it was paused: its rows have the bytes that they have alone. So
 * sample 0 is plain decoding.
 *
 * Slots of the cache are taken as samples grow: the prompt's once. Where they
 * run out, samples are paused, the last ones first, and go on when others have
 * ended; where that is not enough, what is cached of a paused one is forgotten
 * and computed again later. One that has no room although no other holds any
 * ends as by a full context.
 *
 * Where the session keeps states in the middle (session_opts.tap_layers) those
 * of all tokens that steps are judged by are kept, too: a text that is done is
 * in one pass more for that of its last token. A step that others are waited
 * for at ends when its last row is computed, and what follows is drawn from
 * that.
 *
 * A pool belongs to the method_env (env->samples) and stays readable behind a
 * run, until the next or until the method is closed. It borrows the session,
 * whose SESSION_TEXT holds the prompt, and the generation, whose sampler it
 * draws with. One thread.
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

#define SAMPLES_CONFIDENCE 20 /* tokens that a confidence looks at */

/*
 * The tokens that each of n samples (of those asked for, at least) comes to, up
 * to the one that ends it: what was drawn in another run is gone through again,
 * as in a session that computes nothing (session_opts.idle) it can be. What the
 * model says of them is not known then. Not for what forks.
 */
struct samples_script {
	uint32_t n;
	const struct sample_tokens {
		const int32_t *token; /* [n], without the prompt */
		size_t n;
	} * sample; /* [n] */
};

struct sample {
	struct lane lane; /* its state; LANE_CUT: by who chooses */
	struct samples *pool;
	/* In the order in which they were added; whose end it was forked from,
	 * -1: the prompt's. */
	uint32_t index;
	int32_t parent;
	uint64_t stream; /* of its random numbers, from where it began */
	enum gen_stop stop;
	struct generation *gen; /* its tokens, prompt first; owned */
	struct strbuf text;     /* of them, without the prompt's */

	/*
	 * Of the n tokens drawn (or taken over by a fork), from the model's own
	 * distribution, whatever they were drawn by: the sum of their
	 * log-probabilities; that of the self-certainty where they were drawn
	 * (Kang et al., "Scalable best-of-N selection for large language models
	 * via self-certainty", 2025: KL from the uniform distribution); and of
	 * each the confidence (Fu et al., "Deep think with confidence", 2025:
	 * minus the mean log-probability of the SAMPLES_CONFIDENCE likeliest):
	 * host/text/certainty.h.
	 */
	size_t n;
	double logprob, certainty;
	float *confidence; /* [n] */

	/* Its steps: the token that ends each, as an index into all tokens, and
	 * a score that is the method's (NAN: none yet). What follows the last
	 * is a step as well when the text ends. */
	uint32_t n_steps;
	uint32_t *step_end;
	float *score;
	float value;          /* the method's word on the whole; NAN: none */
	float weight;         /* of its vote */
	struct strbuf answer; /* in canonical form; empty: none */
	struct err err;       /* of one that failed */

	/* When it began and ended (clock_ns, and picoseconds of the phone). */
	uint64_t began_ns, ended_ns, began_ps, ended_ps;

	struct tapped tapped; /* of its tokens behind the prompt */

	/* The pool's: */
	bool roomless;  /* there is no room for its last token */
	float *ahead;   /* what its next is drawn from; NULL: its next row */
	size_t step_at; /* where in the text its step begins */
	size_t looked;  /* as far as the text holds no end of it */
	size_t room;    /* of confidence */
	uint32_t step_room;
};

/* Told of every token as it is drawn; may cut, but not fork. */
typedef void samples_token(void *arg, struct samples *, struct sample *);

/*
 * Into env->samples, in the place of what was there: the prompt of the
 * generation is computed in SESSION_TEXT, which must be empty. Options are
 * those of env. On failure there is none.
 */
int samples_open(struct method_env *, struct session *, struct generation *,
	struct err *);
void samples_close(struct samples *);
/* Only what is known of them stays: no sequence, no session. Samples that have
 * not ended never will. */
void samples_rest(struct samples *);

void samples_watch(struct samples *, samples_token *, void *arg);

/* n more of the prompt, each with the stream of its index. */
int samples_add(struct samples *, uint32_t n, struct err *);
/* One more that holds what `from` does, which has not ended, and draws on by
 * the random numbers of a stream of its own. */
int samples_fork(struct samples *, struct sample *from, uint64_t stream,
	struct sample **out, struct err *);
/* It draws no more, and gives its slots back; nothing where it has ended. */
void samples_cut(struct samples *, struct sample *);

/*
 * Until all have ended, been cut or failed; or until each of them has ended one
 * step more. What befalls one sample is in that sample. -ECANCELED, a lost
 * device and the like end it for all; those that had not ended stay as they
 * are.
 */
int samples_run(struct samples *, struct err *);
int samples_run_step(struct samples *, struct err *);

/* -errno of the first, and what it says, where all of them failed. */
int samples_check(const struct samples *, struct err *);

/* How many there are; the i-th. */
uint32_t samples_count(const struct samples *);
struct sample *samples_at(const struct samples *, uint32_t i);
/* Those in that state. */
uint32_t samples_in(const struct samples *, enum lane_state);
bool sample_is_over(const struct sample *);
const char *sample_state_name(enum lane_state);

/*
 * The tokens of one are the text's: they are appended to the generation that
 * the pool was opened with, as far as this does not hold them yet. To choose it
 * says as well that it is the best of them.
 */
void samples_deliver(struct samples *, const struct sample *);
void samples_choose(struct samples *, const struct sample *);
/* That one; NULL: none was chosen. */
const struct sample *samples_chosen(const struct samples *);

void samples_stats(const struct samples *, struct samples_stats *out);

/* States of the prompt's tokens, where those of samples are kept; NULL. */
const float *samples_prompt_state(const struct samples *);

/* For a method's table: rows of a pass, and as many sequences where samples end
 * as they began; all samples, where they wait for one another. */
uint32_t samples_rows(const struct method_env *);
/* Where they are drafted for: of all their trees together. */
uint32_t samples_tree_rows(const struct method_env *);
uint32_t samples_all(const struct method_env *);
/* Of many samples to choose among: search-and-learn's 0.8, where equal ones
 * would leave no choice; one is greedy. */
double samples_temperature(const struct method_env *);

#endif
