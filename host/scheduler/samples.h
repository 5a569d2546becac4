/*
 * Many samples of one prompt: a pool of lanes (host/scheduler/scheduler.h). All
 * samples are forked from the lane of their request, the root, which has read
 * the prompt. A method with many samples (best of N, votes, beams) adds
 * samples, forks a sample at its current end, cuts unpromising samples, and
 * reads the statistics of each sample. It does so in its steps (struct
 * many_steps).
 *
 * Sample i draws from random stream r + i, if r is the stream of the request.
 * Its tokens do not depend on other samples, on the width of a pass, or on
 * pauses, because a row is computed to the same bytes in a shared pass as in a
 * pass of its own. So sample 0 is the same as plain decoding.
 *
 * Samples take cache slots as they grow, and share the slots of the prompt. If
 * the cache of the root was dropped for lack of slots, a sample forks the
 * prompt from another sample, or computes it again.
 *
 * If the session keeps hidden states from the middle of the model
 * (session_opts.tap_layers), the pool stores the states of all tokens, from
 * which a reward model scores the steps. A finished sample then takes part in
 * one more pass, which computes the state of its last token. If samples wait
 * for each other at the ends of steps, a step ends only when the row of its
 * last token is computed; after the wait the next token is drawn from that row.
 *
 * A pool belongs to a request and can still be read after the run. The env, the
 * generation (whose sampler the pool uses), the lanes and the root belong to
 * the caller. The lanes and the root are used only during the run. All calls
 * come from one thread.
 */
#ifndef HOST_SCHEDULER_SAMPLES_H
#define HOST_SCHEDULER_SAMPLES_H

#include "base/err.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "host/scheduler/scheduler.h"
#include "host/scheduler/method_stats.h"
#include "host/scheduler/samples_options.h"
#include "host/scheduler/tapped.h"
#include "host/text/generation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct method_env;
struct samples;
struct session;

/* number of likeliest tokens from which a confidence is computed */
#define SAMPLES_CONFIDENCE 20

/*
 * A script: the tokens of each of n samples, including the token that ends it.
 * A run with a script repeats the tokens of another run in a session that
 * computes nothing (session_opts.idle). Log-probabilities and confidences are
 * unknown in such a run. n must be at least the number of samples requested.
 * Not for methods that fork.
 */
struct samples_script {
	uint32_t n;
	const struct sample_tokens {
		const int32_t *token; /* the n tokens after the prompt */
		size_t n;
	} * sample; /* the n samples */
};

struct sample {
	/* lane and state of the sample; LANE_CUT: cut by the method */
	struct lane lane;
	struct samples *pool;
	/*
	 * index: the sample's number, in the order of addition. parent: the
	 * number of the sample that this sample was forked from, or -1 if it
	 * was forked from the prompt.
	 */
	uint32_t index;
	int32_t parent;
	/* random stream of the tokens that the sample has drawn since it was
	 * forked */
	uint64_t stream;
	enum gen_stop stop;
	struct generation *gen; /* its tokens, prompt first; owned */
	struct strbuf text;     /* text of its tokens without the prompt */

	/*
	 * Statistics of the sample's n drawn tokens, including those before a
	 * fork. They are computed from the model's own distribution, whatever
	 * the sampling options are: the sum of the log-probabilities; the sum
	 * of the self-certainties (Kang et al., "Scalable best-of-N selection
	 * for large language models via self-certainty", 2025: the KL
	 * divergence from the uniform distribution); and the confidence of each
	 * token (Fu et al., "Deep think with confidence", 2025: minus the mean
	 * log-probability of the SAMPLES_CONFIDENCE likeliest tokens). See
	 * host/text/certainty.h.
	 */
	size_t n;
	double logprob, certainty;
	float *confidence; /* of each of the n tokens */

	/*
	 * The steps of the sample: for each step, the index of its last token
	 * among all tokens, and a score that the method sets (NAN until then).
	 * When the text ends, the tokens after the last step become a step as
	 * well.
	 */
	uint32_t n_steps;
	uint32_t *step_end;
	float *score;
	/* value of the whole text, set by the method; NAN if there is none */
	float value;
	float weight; /* weight of its vote */
	/* answer in canonical form; empty if there is none */
	struct strbuf answer;
	struct err err; /* error of a failed sample */

	/* Times when it began and ended, by clock_ns and in picoseconds of the
	 * simulated phone. */
	uint64_t began_ns, ended_ns, began_ps, ended_ps;

	struct tapped tapped; /* hidden states of its tokens after the prompt */

	/*
	 * For a method with beams: the sample's position among the beams of the
	 * round.
	 *
	 */
	uint32_t place;
	/*
	 * children: number of continuations that began early
	 * (samples_fork_early). child: if the sample is such a continuation
	 * itself, its number among those of its parent.
	 */
	uint32_t children, child;
	/* the sample is an early continuation that was not taken yet */
	bool early;

	/* The following members are private to the pool. */
	bool no_slot; /* there was no cache slot for its last token */
	/* the sample has also completed its step of the next round */
	bool ready;
	/* logits from which to draw the next token after a wait; NULL if the
	 * next pass computes these logits */
	float *ahead;
	size_t step_at; /* offset in the text where its current step begins */
	/* end of the text that was already searched for the end of a step */
	size_t searched;
	size_t room; /* allocated elements of confidence[] */
	uint32_t step_room;
};

/* Callback after each pass of samples_run_alone; may be NULL. */
struct samples_sink {
	void (*after_pass)(void *arg, const struct samples *);
	void *arg;
};

/* Create a pool without samples, for env's method and options. Returns 0 or
 * -ENOMEM. */
int samples_open(struct samples **out, struct method_env *, struct generation *,
	const struct samples_sink *, struct err *);
void samples_close(struct samples *);

/*
 * Run the request as the only one, with the steps of its method. SESSION_TEXT,
 * the sequence of the root, may hold the first tokens of the prompt; afterwards
 * it holds the whole prompt, and no other sequence is left. Returns 0 or a
 * negative errno. If it returns -ECANCELED, the text is what the method's
 * `stop` chose.
 */
int samples_run_alone(struct samples *, struct session *, struct err *);

/* ---- called by the code that runs the passes ---- */

/*
 * Store the hidden states of n tokens of the prompt, from token `at` on, which
 * were rows [row, row + n) of the session's last pass. Does nothing if the
 * session keeps no such states.
 */
void samples_read(struct samples *, struct session *, size_t at, uint32_t row,
	uint32_t n);
/* Record that the prompt is read. Copies the logits [n_vocab] of its last row,
 * from which all samples draw their first token. */
void samples_read_all(struct samples *, const float *logits, uint32_t n_vocab);
/* Whether samples_read_all was called. */
bool samples_are_read(const struct samples *);
/*
 * Call the method's `begin`. The samples become lanes after the root; the
 * callback `computed` for rows of samples is called for the root. Returns 0 or
 * a negative errno. Call samples_detach at the end in both cases.
 */
int samples_begin(
	struct samples *, struct scheduler *, struct lane *root, struct err *);
bool samples_have_begun(const struct samples *);
/*
 * Called between two passes. Calls the method's `next` if no sample is active,
 * otherwise the method's `between`. Returns 0, or what many_steps.next returns.
 */
int samples_next(struct samples *, struct err *);
/* End the run: remove all sequences and lanes. The texts and statistics of the
 * samples remain. Unfinished samples cannot continue. */
void samples_detach(struct samples *);
/* Number of drafted and of accepted tokens of all samples. */
void samples_count_drafts(
	const struct samples *, uint64_t *drafted, uint64_t *accepted);

/* ---- called by the steps of a method ---- */

/*
 * Number of steps that can be scored because the rows of all their tokens have
 * been computed. The row of a running sample's last token is computed only in
 * the next pass.
 */
uint32_t sample_steps_read(const struct sample *);

const struct method_env *samples_env(const struct samples *);
/* The method's state for the request, many_steps.bytes long. */
void *samples_own(const struct samples *);

/* Set whether samples wait for each other at the ends of steps, from the next
 * pass on. Initially they do not wait. */
void samples_wait_at_steps(struct samples *, bool wait);

/* Add n samples that start at the end of the prompt, each with the random
 * stream of its index. Returns 0 or a negative errno. */
int samples_add(struct samples *, uint32_t n, struct err *);
/* Add a sample that continues `from` with another random stream. `from` must
 * not have ended. Returns 0 or a negative errno. */
int samples_fork(struct samples *, struct sample *from, uint64_t stream,
	struct sample **out, struct err *);
/* End a sample and its early continuations, and free their slots. Does nothing
 * if the sample has ended. */
void samples_cut(struct samples *, struct sample *);

/*
 * Begin a continuation of `from`, which waits at the end of a step, before it
 * is known whether `from` is kept. The first continuation continues `from`
 * itself and must have its stream (from->stream); later ones must have other
 * streams. Other samples do not wait for a continuation. Sets *began to false
 * if no sequence was free. Returns 0 or a negative errno.
 */
int samples_fork_early(struct samples *, struct sample *from, uint64_t stream,
	bool *began, struct err *);
/*
 * Make early continuation number `child` of `from` an ordinary sample. Returns
 * NULL if this continuation did not begin. Continuation 0 replaces `from`,
 * which is cut.
 */
struct sample *samples_take_early(
	struct samples *, struct sample *from, uint32_t child);
/* Cut the early continuations of `from` that were not taken. If `from` is NULL,
 * cut such continuations of all samples. */
void samples_drop_early(struct samples *, const struct sample *from);

/* Returns the error of the first sample if all samples failed, otherwise 0. */
int samples_check(const struct samples *, struct err *);

uint32_t samples_count(const struct samples *);
struct sample *samples_at(const struct samples *, uint32_t i);
/* Number of samples in this state. */
uint32_t samples_in(const struct samples *, enum lane_state);

const char *sample_state_name(enum lane_state);

/*
 * samples_deliver appends the sample's tokens to the request's generation,
 * except those that were appended before. Returns false if the reader of the
 * text has stopped reading. samples_choose does the same and records that the
 * sample was chosen.
 */
bool samples_deliver(struct samples *, const struct sample *);
void samples_choose(struct samples *, const struct sample *);
/* The sample that was chosen, or NULL if none was. */
const struct sample *samples_chosen(const struct samples *);

void samples_stats(const struct samples *, struct samples_stats *out);

/* Hidden states of the prompt's tokens, or NULL if the session keeps none. */
const float *samples_prompt_state(const struct samples *);

/*
 * Operations of struct method. samples_rows returns the number of rows of a
 * pass; it is also the number of sequences if samples run independently.
 * samples_all returns the number of sequences if samples wait for each other.
 */
uint32_t samples_rows(const struct method_env *);
/* Maximum number of rows of all trees of a pass together, if the samples are
 * drafted for. */
uint32_t samples_tree_rows(const struct method_env *);
uint32_t samples_all(const struct method_env *);
/* Default temperature: 0.8, as in search-and-learn, because all greedy samples
 * would be equal; 0 if there is only one sample. */
double samples_temperature(const struct method_env *);

#endif
