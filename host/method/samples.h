/*
 * Many samples of one prompt: a pool of lanes (host/method/lanes.h) that are
 * forked from the lane of their request, the root, which has read the prompt.
 * The steps of a method of samples (struct many_steps: best of n, votes, beams)
 * add samples or fork one at its present end, cut those that promise little,
 * and read what is known of each.
 *
 * Sample i draws by the random numbers of stream i behind the text's own, and
 * nothing of it depends on which others there are, on the width of a pass, or
 * on whether it was paused: its rows have the bytes that they have alone. So
 * sample 0 is plain decoding.
 *
 * Slots of the cache are taken as samples grow: the prompt's once. Where the
 * root was forgotten for want of slots, a sample forks the prompt from another
 * sample or computes it again.
 *
 * Where the session keeps states in the middle (session_opts.tap_layers) those
 * of all tokens that steps are judged by are kept, too: a text that is done is
 * in one pass more for that of its last token. A step that others are waited
 * for at ends when its last row is computed, and what follows is drawn from
 * that.
 *
 * A pool belongs to a request and stays readable after the run. It borrows the
 * env, the generation, whose sampler it draws with, and during the run the
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

/* Called after each pass of a pool that runs alone; NULL: nothing. */
struct samples_sink {
	void (*tell)(void *arg, const struct samples *);
	void *arg;
};

/* The samples of a request: none yet. Options and method are those of env. */
int samples_open(struct samples **out, struct method_env *, struct generation *,
	const struct samples_sink *, struct err *);
void samples_close(struct samples *);

/*
 * The request by its method's steps, with no other beside it. SESSION_TEXT,
 * which is the root's sequence, holds a beginning of the prompt and keeps the
 * prompt. No sequence beside that is left. -ECANCELED leaves as the text what
 * the method chooses then.
 */
int samples_run_alone(struct samples *, struct session *, struct err *);

/* ---- for who runs the passes ---- */

/* Rows [row, row + n) of the session's last pass are those of the prompt's
 * tokens from `at` on: their states are kept, where the session has any. */
void samples_read(struct samples *, struct session *, size_t at, uint32_t row,
	uint32_t n);
/* logits [n_vocab] of the prompt's last row, which is copied: all samples draw
 * their first token from it. */
void samples_read_all(struct samples *, const float *logits, uint32_t n_vocab);
/* Whether that was called. */
bool samples_are_read(const struct samples *);
/* The method's first step. The samples become lanes, placed between the root
 * and the lane after it; the root's owner counts their rows as the root's. To
 * be ended by samples_rest whatever this returns. */
int samples_begin(
	struct samples *, struct lanes *, struct lane *root, struct err *);
bool samples_have_begun(const struct samples *);
/* Between two passes: the method's next steps if no sample goes on. 0, or what
 * many_steps.next returns. */
int samples_next(struct samples *, struct err *);
/* Only what is known of them stays: no sequence, no lane. Samples that have not
 * ended never will. */
void samples_rest(struct samples *);
/* Drafted and accepted tokens of all lanes. */
void samples_count_drafts(
	const struct samples *, uint64_t *drafted, uint64_t *accepted);

/* ---- for the steps of a method ---- */

const struct method_env *samples_env(const struct samples *);
/* [many_steps.bytes] */
void *samples_own(const struct samples *);

/* From the next pass on samples wait for one another where a step ends, or do
 * not, which they do not at first. */
void samples_wait_at_steps(struct samples *, bool wait);

/* n more of the prompt, each with the stream of its index. */
int samples_add(struct samples *, uint32_t n, struct err *);
/* One more that holds what `from` does, which has not ended, and draws on by
 * the random numbers of a stream of its own. */
int samples_fork(struct samples *, struct sample *from, uint64_t stream,
	struct sample **out, struct err *);
/* It draws no more, and gives its slots back; nothing where it has ended. */
void samples_cut(struct samples *, struct sample *);

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
 * says as well that it is the best of them. False: who reads the text wants no
 * more of it.
 */
bool samples_deliver(struct samples *, const struct sample *);
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
