/*
 * A pool of samples of one prompt. Each sample has a lane
 * (host/scheduler/scheduler.h), a sequence that is decoded together with
 * others. All samples are forked from the lane of their request, the root,
 * which has read the prompt. In its callbacks (struct many_steps), a method
 * with many samples (best of N, votes, beams) adds samples, forks a sample at
 * its current end, cuts unpromising samples, and reads the statistics of each
 * sample.
 *
 * Sample i draws from random stream r + i, where r is the stream of the
 * request. A row has the same logits, byte for byte, in a shared pass and in a
 * separate pass. So the tokens of a sample do not depend on other samples, on
 * the width of a pass, or on pauses, and sample 0 has the same text as plain
 * decoding.
 *
 * Samples take cache slots as they grow; all samples share the slots of the
 * prompt. If the root's cache was dropped for lack of slots, a new sample forks
 * the prompt's cache from another sample, or computes the prompt again.
 *
 * If the session keeps hidden states from the middle of the model
 * (session_opts.tap_layers), the pool stores the hidden states of all tokens; a
 * reward model computes from these states the scores of a sample's steps
 * (consecutive pieces of its text; --step-end sets where they end). In this
 * case a finished sample takes part in one more pass, which computes the hidden
 * state of its last token. If samples wait for each other at the ends of steps,
 * a sample waits after the pass in which the last token of its step is an
 * input. After the wait, its next token is drawn from the logits that this pass
 * computed.
 *
 * A pool belongs to a request and can still be read after the run. The caller
 * owns the env, the generation, the scheduler and the root. The pool uses the
 * generation's sampler, and uses the scheduler and the root only during the
 * run. All calls come from one thread.
 */
#ifndef HOST_SCHEDULER_SAMPLES_H
#define HOST_SCHEDULER_SAMPLES_H

#include "base/err.h"
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

/* number of likeliest tokens from which the confidence of a token is
 * computed */
#define SAMPLES_CONFIDENCE 20

/*
 * A script holds the tokens of n samples of an earlier run, including the last
 * token, with which a sample ends. A run with a script repeats these tokens, in
 * a session that computes nothing (session_opts.idle). Log-probabilities and
 * confidences are unknown in a run with a script. n must be at least the number
 * of samples requested. Scripts are not for methods that fork samples.
 */
struct samples_script {
	uint32_t n;
	const struct sample_tokens {
		const int32_t *token; /* the n tokens after the prompt */
		size_t n;
	} * sample; /* the n samples */
};

struct sample {
	/*
	 * lane of the sample; lane.state is LANE_CUT if the method has cut the
	 * sample
	 */
	struct lane lane;
	struct samples *pool;
	/*
	 * index: the sample's number, in the order of addition. parent: the
	 * number of the sample that this sample was forked from, or -1 if it
	 * was forked from the prompt.
	 */
	uint32_t index;
	int32_t parent;
	/* random stream from which the sample draws; tokens before a fork came
	 * from the stream of its parent */
	uint64_t stream;
	enum gen_stop stop;
	struct generation *gen; /* the sample's tokens, prompt first; owned */
	/* text of the sample's tokens after the prompt */
	struct strbuf text;

	/*
	 * Statistics of the n tokens that the sample has drawn, including the
	 * tokens before a fork. They are computed from the model's own
	 * distribution, without the sampling options (host/text/certainty.h).
	 * logprob: sum of the tokens' log-probabilities. certainty: sum of the
	 * tokens' self-certainty, the KL divergence from the uniform
	 * distribution (Kang et al., "Scalable best-of-N selection for large
	 * language models via self-certainty", 2025). confidence: for each
	 * token, minus the mean log-probability of the SAMPLES_CONFIDENCE
	 * likeliest tokens (Fu et al., "Deep think with confidence", 2025).
	 */
	size_t n;
	double logprob, certainty;
	float *confidence; /* confidence of each of the n tokens */

	/*
	 * The steps of the sample's text. step_end: for each step, the index of
	 * its last token, counted from the first token of the prompt. score:
	 * for each step, a score that the method sets; NAN until then. When the
	 * text ends, the tokens after the last step become a step as well.
	 */
	uint32_t n_steps;
	uint32_t *step_end;
	float *score;
	/* value of the whole text, which the method sets; NAN until then */
	float value;
	float weight; /* weight of the sample's vote */
	/* the answer in canonical form; empty if the text contains no answer */
	struct strbuf answer;
	struct err err; /* error of a failed sample */

	/* Times when the sample began and ended: _ns by clock_ns, _ps by the
	 * clock of the simulated phone. */
	uint64_t began_ns, ended_ns, began_ps, ended_ps;

	/* hidden states of the sample's tokens after the prompt */
	struct tapped tapped;

	/*
	 * For a method with beams: index of the sample among the beams of the
	 * current round, which extends each beam by one step.
	 */
	uint32_t place;
	/*
	 * children: number of early continuations of this sample, that is,
	 * continuations that samples_fork_early began. child: if this sample is
	 * itself an early continuation, its number, from 0, among the early
	 * continuations of its parent.
	 */
	uint32_t children, child;
	/* the sample is an early continuation and samples_take_early was not
	 * called for it yet */
	bool early;

	/* The following members are private to the pool. */
	bool no_slot; /* the sample's last token has no cache slot */
	/* true: the sample is an early continuation (samples_fork_early) that
	 * has already completed the step which the samples that waited begin
	 * now, so this sample goes on waiting */
	bool ready;
	/* logits that are stored when the sample begins to wait for other
	 * samples: after the wait, its next token is drawn from these logits.
	 * NULL if no logits are stored */
	float *ahead;
	/* offset in the text at which the current step begins */
	size_t step_at;
	/* text before this offset was already searched for the end of a step */
	size_t searched;
	size_t room; /* allocated elements of confidence[] */
	uint32_t step_room;
};

/* Create a pool without samples, for env's method and options. Returns 0 or
 * -ENOMEM. */
int samples_open(struct samples **out, struct method_env *, struct generation *,
	struct err *);
void samples_close(struct samples *);

/* ---- called by the code that runs the passes ---- */

/*
 * Store the hidden states of n tokens of the prompt, from token `at` on, which
 * were rows [row, row + n) of the session's last pass. Does nothing if the
 * session keeps no hidden states.
 */
void samples_read(struct samples *, struct session *, size_t at, uint32_t row,
	uint32_t n);
/* Record that the prompt is read. Copies the logits [n_vocab] of the prompt's
 * last row; all samples draw their first token from these logits. `logits` is
 * NULL if no token is to be generated. */
void samples_read_all(struct samples *, const float *logits, uint32_t n_vocab);
/* Whether samples_read_all was called. */
bool samples_are_read(const struct samples *);
/*
 * Call the method's `begin`. From now on the scheduler's list has a lane for
 * each sample, after the root. After a pass with rows of samples, the root's
 * callback `computed` is called for each of these samples, with the root as its
 * argument. Returns 0 or a negative errno. Call samples_detach at the end in
 * both cases.
 */
int samples_begin(
	struct samples *, struct scheduler *, struct lane *root, struct err *);
bool samples_have_begun(const struct samples *);
/*
 * The scheduler's caller calls samples_next between two passes. samples_next
 * calls the method's `next` until there is a sample that has not ended and
 * waits for no other sample, and then calls the method's `between`. Returns 0,
 * MANY_DONE or a negative errno, like many_steps.next, or MANY_SCORE: then
 * score the samples that samples_to_score returns, call samples_scored, and
 * call samples_next again.
 */
int samples_next(struct samples *, struct err *);
/* After MANY_SCORE and until the next call of samples_next: the *n samples to
 * score. At other times *n is 0. */
struct sample *const *samples_to_score(const struct samples *, uint32_t *n);
void samples_scored(struct samples *);
/* The request was canceled: let the method choose a sample (many_steps.stop).
 */
void samples_stop(struct samples *);
/* End the run: remove all sequences and lanes. The texts and statistics of the
 * samples remain. Unfinished samples cannot continue. */
void samples_detach(struct samples *);
/* Number of drafted and of accepted tokens of all samples. */
void samples_count_drafts(
	const struct samples *, uint64_t *drafted, uint64_t *accepted);

/* ---- called by the callbacks of a method (struct many_steps) ---- */

/*
 * Number of steps of the sample that can be scored, because passes have
 * computed the hidden states of all tokens of these steps. The last token of a
 * running sample has no hidden state yet: it is an input of the next pass.
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
/* Cut the early continuations of a sample, and also the sample itself unless
 * its text is finished. Frees the cache slots of the samples that are cut. */
void samples_cut(struct samples *, struct sample *);

/*
 * Sample `from` waits at the end of a step. Begin a continuation of `from`
 * before the method has decided whether to keep `from`. The first continuation
 * must have the stream from->stream; each later one must have another stream.
 * Other samples do not wait for an early continuation. Sets *began to false if
 * no sequence was free. Returns 0 or a negative errno.
 */
int samples_fork_early(struct samples *, struct sample *from, uint64_t stream,
	bool *began, struct err *);
/*
 * Make early continuation number `child` of `from` an ordinary sample and
 * return it. Returns NULL if this continuation has not begun. If `child` is 0,
 * the continuation gets the index and the parent of `from`, and `from` is cut.
 */
struct sample *samples_take_early(
	struct samples *, struct sample *from, uint32_t child);
/* Cut the early continuations of `from`, or of all samples if `from` is NULL,
 * for which samples_take_early was not called. */
void samples_drop_early(struct samples *, const struct sample *from);

/* Returns the error of the first sample if all samples failed, otherwise 0. */
int samples_check(const struct samples *, struct err *);

uint32_t samples_count(const struct samples *);
struct sample *samples_at(const struct samples *, uint32_t i);
/* Number of samples in this state. */
uint32_t samples_in(const struct samples *, enum lane_state);

const char *sample_state_name(enum lane_state);

/*
 * samples_deliver appends the tokens of a sample to the request's generation,
 * except the tokens that an earlier call has appended. Returns false if an
 * error has ended the generation, for example because the client has stopped
 * reading. samples_choose also appends the tokens, and records that the sample
 * was chosen.
 */
bool samples_deliver(struct samples *, const struct sample *);
void samples_choose(struct samples *, const struct sample *);
/* The chosen sample, or NULL if no sample was chosen. */
const struct sample *samples_chosen(const struct samples *);

void samples_stats(const struct samples *, struct samples_stats *out);

/* Hidden states of the prompt's tokens; NULL if the session keeps no states. */
const float *samples_prompt_state(const struct samples *);

/*
 * samples_rows returns the number of rows of a pass: the value of --parallel,
 * but at most that of -N (--samples). Methods use samples_rows as `decode_rows`
 * and, if samples run independently, as `sequences`. samples_all (below)
 * returns the value of -N, which methods use as `sequences` if their samples
 * wait for each other.
 */
uint32_t samples_rows(const struct method_env *);
/* Maximum number of rows of all draft trees in a pass together, for methods
 * that draft for their samples. */
uint32_t samples_tree_rows(const struct method_env *);
uint32_t samples_all(const struct method_env *);
/* Default temperature: 0 if there is only one sample. Otherwise 0.8, as in
 * Hugging Face's search-and-learn, because at temperature 0 all samples would
 * be equal. */
double samples_temperature(const struct method_env *);

#endif
