/*
 * The inside of a pool of samples (host/method/samples.h), for its own files
 * only: samples.c keeps the pool, samples_draw.c draws the tokens of samples
 * and answers their lanes, sample_record.c keeps what is known of one.
 */
#ifndef HOST_METHOD_SAMPLES_IMPL_H
#define HOST_METHOD_SAMPLES_IMPL_H

#include "host/method/samples.h"

struct samples {
	struct lanes *lanes; /* of the run, as the root; NULL: none */
	struct lane *root;
	struct generation *gen; /* the request's */
	struct samples_options opts;
	struct method_env *env;
	const struct many_steps *many;
	void *own; /* the method's */
	struct samples_sink sink;
	struct lanes_stats stats; /* of the lanes, when the run was over */
	uint64_t stream;          /* of sample 0 */
	float *prompt_logits;     /* [n_vocab]; NULL: no token is wanted */
	struct tapped prompt;
	uint32_t n, room;
	struct sample **sample; /* [n] */
	const struct sample *chosen;
	bool by_step; /* samples wait for one another */
	bool no_memory;
	uint64_t tokens; /* drawn */
};

/* ---- sample_record.c ----------------------------------------------------- */

int sample_keep_text(void *sample, int32_t id, const char *text, size_t len);
void sample_free(struct sample *);
/* Room for one token more of what is known of each. */
int sample_grow_tokens(struct sample *);
/* Whether its text goes on behind the last step with more than blanks. */
bool sample_is_begun(const struct sample *);
/* The last token ends a step; one that there is no room for is no part of it.
 */
int sample_end_step(struct sample *);
/* Whether the text holds the end of a step that it did not hold before the last
 * token. A step of nothing but blanks is the beginning of the next. */
bool sample_step_ends(struct sample *, const char *end);
/* What is known of one is known of the other; -ENOMEM. */
int sample_copy(
	const struct samples *, struct sample *to, const struct sample *from);

/* ---- samples_draw.c ------------------------------------------------------ */

/* Its time begins. */
void sample_begin(const struct samples *, struct sample *);
/* It is over, as `state` says; its slots are given back. */
void sample_end(struct samples *, struct sample *, enum lane_state);
/* Its text is done, and only the state of its last token is wanted. */
bool sample_is_whole(const struct sample *);
/* The next token from the row that it was held with; nothing without one. */
void sample_draw_ahead(struct samples *, struct sample *);
/* What a pool does for the lanes of its samples. */
extern const struct lane_owner samples_owner;

#endif
