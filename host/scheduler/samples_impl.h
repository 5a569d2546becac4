/*
 * Private state of a pool of samples (host/scheduler/samples.h), shared by
 * these files: samples.c manages the pool, samples_draw.c draws tokens and
 * implements the lane callbacks, sample_record.c records the statistics, text
 * and steps of a sample.
 */
#ifndef HOST_SCHEDULER_SAMPLES_IMPL_H
#define HOST_SCHEDULER_SAMPLES_IMPL_H

#include "host/scheduler/samples.h"

struct samples {
	/* the scheduler and the root (the lane of the request) from
	 * samples_begin until samples_detach; NULL at other times */
	struct scheduler *scheduler;
	struct lane *root;
	struct generation *gen; /* generation of the request */
	struct samples_options opts;
	struct method_env *env;
	const struct many_steps *many;
	void *own; /* the method's state */
	/* the scheduler's statistics when the samples began */
	struct scheduler_stats before;
	struct samples_stats stats; /* set at the end of the run */
	uint64_t stream;            /* random stream of sample 0 */
	/* [n_vocab] logits of the prompt's last row; NULL until the prompt is
	 * read, and always NULL if no token is to be generated */
	float *prompt_logits;
	bool is_read; /* samples_read_all was called */
	struct tapped prompt;
	uint32_t n, room;
	struct sample **sample; /* the n samples */
	/* [room] the n_to_score samples that must be scored before the next
	 * call of the method; is_scored: the reward model has scored them */
	struct sample **to_score;
	uint32_t n_to_score;
	bool is_scored;
	const struct sample *chosen;
	bool by_step; /* samples wait for each other at the ends of steps */
	bool no_memory;
	uint64_t tokens; /* number of drawn tokens */
};

/* ---- sample_record.c ----------------------------------------------------- */

int sample_keep_text(void *sample, int32_t id, const char *text, size_t len);
void sample_free(struct sample *);
/* Make room for the statistics of one more token. Returns 0 or -ENOMEM. */
int sample_grow_tokens(struct sample *);
/*
 * Whether the text after the last step has a character other than white space.
 */
bool sample_is_begun(const struct sample *);
/* Record that the last token ends a step. If that token has no cache slot
 * (no_slot), the step ends with the token before it. Returns 0 or -ENOMEM. */
int sample_end_step(struct sample *);
/*
 * Whether the last token ends a step: the token completes the text of
 * --step-end, or the step has --step-tokens tokens. White space alone is not a
 * step; it becomes the beginning of the next step.
 */
bool sample_step_ends(struct sample *, const struct samples_options *);
/* Copy text, statistics and steps of a sample. Returns 0 or -ENOMEM. */
int sample_copy(
	const struct samples *, struct sample *to, const struct sample *from);

/* ---- samples_draw.c ------------------------------------------------------ */

/* Record the time at which the sample began. */
void sample_begin(const struct samples *, struct sample *);
/* End the sample with this state, and free its cache slots. */
void sample_end(struct samples *, struct sample *, enum lane_state);
/* Whether the text of the sample is finished and only the hidden state of its
 * last token is missing. */
bool sample_is_whole(const struct sample *);
/* If the sample has waited for other samples at the end of a step, draw its
 * next token from `ahead`, the logits stored before the wait. */
void sample_draw_ahead(struct samples *, struct sample *);
/* The lane callbacks of a sample. */
extern const struct lane_ops samples_lane_ops;

#endif
