/*
 * The inside of a pool of samples (host/method/samples.h), for its own files
 * only: samples.c holds the pool, samples_draw.c draws tokens and implements
 * the lane callbacks, sample_record.c records statistics, text and steps of a
 * sample.
 */
#ifndef HOST_METHOD_SAMPLES_IMPL_H
#define HOST_METHOD_SAMPLES_IMPL_H

#include "host/method/samples.h"

struct samples {
	struct lanes *lanes; /* of the run, as is the root; NULL: no run */
	struct lane *root;
	struct generation *gen; /* of the request */
	struct samples_options opts;
	struct method_env *env;
	const struct many_steps *many;
	void *own; /* the method's state */
	struct samples_sink sink;
	struct lanes_stats stats; /* of the lanes, after the run */
	uint64_t stream;          /* of sample 0 */
	/* [n_vocab]; NULL: not read yet, or no token is wanted */
	float *prompt_logits;
	struct tapped prompt;
	uint32_t n, room;
	struct sample **sample; /* [n] */
	const struct sample *chosen;
	bool by_step; /* samples wait for one another at the ends of steps */
	bool no_memory;
	uint64_t tokens; /* drawn tokens */
};

/* ---- sample_record.c ----------------------------------------------------- */

int sample_keep_text(void *sample, int32_t id, const char *text, size_t len);
void sample_free(struct sample *);
/* Make room for the statistics of one more token. */
int sample_grow_tokens(struct sample *);
/* Whether the text after the last step has more than blanks. */
bool sample_is_begun(const struct sample *);
/* The last token ends a step. A token without a cache slot is no part of the
 * step. */
int sample_end_step(struct sample *);
/* Whether the last token completed the end of a step. Blanks alone are no step;
 * they belong to the next one. */
bool sample_step_ends(struct sample *, const char *end);
/* Copy text, statistics and steps; -ENOMEM. */
int sample_copy(
	const struct samples *, struct sample *to, const struct sample *from);

/* ---- samples_draw.c ------------------------------------------------------ */

/* Record the time when it began. */
void sample_begin(const struct samples *, struct sample *);
/* End the sample with this state; its slots are freed. */
void sample_end(struct samples *, struct sample *, enum lane_state);
/* Whether its text is finished and only the state of its last token is
 * missing. */
bool sample_is_whole(const struct sample *);
/* Draw the next token from the logits that the sample was held with, if any. */
void sample_draw_ahead(struct samples *, struct sample *);
/* The lane callbacks of a sample. */
extern const struct lane_ops samples_lane_ops;

#endif
