/*
 * The block of masks that ends a text, and how it is filled: a pass says for
 * each mask what would stand there; the surest of these guesses stay for good,
 * the others are masks again (low-confidence remasking; Nie et al., "Large
 * Language Diffusion Models", 2025). What a pass computes, and which of its
 * rows speaks of a position, is the method's.
 *
 * The mask itself is never guessed: probabilities are those of the other
 * tokens. One thread; the session and the generation are borrowed.
 */
#ifndef HOST_METHOD_DENOISING_H
#define HOST_METHOD_DENOISING_H

#include "base/opt.h"

#include <stdint.h>

struct err;
struct generation;
struct guess;
struct method_env;
struct sampler_opts;
struct session;

#define DENOISING_LENGTH 32 /* where nothing is said */

struct denoising_options {
	uint32_t length; /* of a block, in positions */
	uint32_t steps;  /* passes it takes at most; 0: one each */
};
extern const struct opt_table denoising_table;

const struct denoising_options *denoising_options(const struct method_env *);

struct denoising {
	struct session *session;
	struct generation *gen;
	const struct sampler_opts *sampling;
	uint32_t n_vocab, limit; /* limit: positions there may be */
	int32_t mask;
	float *logits;
	int32_t *x; /* [limit] the text, with masks */
	struct guess *guess;
	uint32_t begin, end; /* of the block, which ends the text */
	void *arg;           /* the method's, for its pass */
};

/*
 * Texts of at most `limit` positions. -EINVAL, naming the method, where tokens
 * are to be drawn in a way that it cannot. To be released whatever this
 * returns.
 */
int denoising_init(struct denoising *, const char *method, struct session *,
	struct generation *, uint32_t limit, struct err *);
void denoising_release(struct denoising *);

/* Masks behind the text so far, which is shorter than the limit: `length` of
 * them, or what there is room for. */
void denoising_begin(struct denoising *, uint32_t length);

struct denoising_pass {
	/* Compute x[]. */
	int (*forward)(struct denoising *, struct err *);
	/* d->logits: what that says of position `at` of the block. */
	int (*logits)(struct denoising *, uint32_t at, struct err *);
};

/* Fill the masks in at most `steps` passes, which share them out evenly; the
 * first ones take what is left over. */
int denoising_fill(struct denoising *, uint32_t steps,
	const struct denoising_pass *, struct err *);

/* The filled block is text: what ends a text ends it here, the rest is
 * dropped. */
void denoising_append(struct denoising *);

#endif
