/*
 * A text that ends in masks, and how passes of a diffusion model fill them:
 * a pass says for each mask what would stand there; some of these guesses stay,
 * the others are masks again (Nie et al., "Large Language Diffusion Models",
 * 2025). What a pass computes is the method's; which of its rows speaks of a
 * position, what is guessed (host/method/guesses.h) and how a block is filled
 * one pass after another stands here.
 *
 * One thread; the session and the generation are borrowed.
 */
#ifndef HOST_METHOD_DENOISING_H
#define HOST_METHOD_DENOISING_H

#include "base/opt.h"
#include "host/method/guesses.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct generation;
struct method_env;
struct model;
struct session;

#define DENOISING_LENGTH 32 /* of a block, where nothing is said */

/* ---- options ------------------------------------------------------------- */

struct block_options {
	uint32_t length; /* of a block, in positions */
};
extern const struct opt_table block_table;

/* What of the answer is there from the start. */
struct canvas_options {
	uint32_t length; /* masks; 0: those of a block alone */
};
extern const struct opt_table canvas_table;

/* A set number of passes for a block. */
struct steps_options {
	uint32_t steps; /* at most; 0: one for each position */
	int order;      /* enum guess_order */
};
extern const struct opt_table steps_table;

/* As many as it takes until all guesses were sure. */
struct threshold_options {
	double threshold; /* of confidence; below 0: not said */
};
extern const struct opt_table threshold_table;

uint32_t denoising_length(const struct method_env *);

/* *length: of the blocks of a model that has such, which --block may not
 * contradict; or --block. */
int denoising_choose_length(const struct method_env *, const struct model *,
	uint32_t *length, struct err *);

/* --threshold, or `otherwise`. */
double denoising_threshold(const struct method_env *, double otherwise);

/* ---- a text -------------------------------------------------------------- */

struct denoising {
	struct session *session;
	struct generation *gen;
	struct guessing guessing; /* by confidence, unless the method says */
	uint32_t limit;           /* positions there may be */
	uint32_t shift; /* 1: a row speaks of the position behind its own */
	int32_t mask;
	int32_t *x;          /* [limit] the text, with masks */
	uint32_t *at;        /* [limit] positions, for the method's use */
	struct guess *guess; /* [limit] */
	uint32_t *row;       /* [limit] of a pass, that speak of at[] */
	uint32_t begin, end; /* of the block */
	uint32_t last;       /* where what is in x[] ends */
	/* What speaks of the position `behind_at` though no row of a pass
	 * does. */
	float *behind; /* [n_vocab] */
	uint32_t behind_at;
	float *logits; /* some rows */
	void *arg;     /* the method's */
};

/*
 * Texts of at most `limit` positions. -EINVAL, naming the method, where tokens
 * are to be drawn in a way that it cannot. To be released whatever this
 * returns.
 */
int denoising_init(struct denoising *, const struct method_env *,
	struct session *, struct generation *, uint32_t limit, struct err *);
void denoising_release(struct denoising *);

/*
 * A pass of all positions, which keeps nothing of what was cached; and where
 * such are computed, in the largest graph: how long a text may be, and
 * -ENOSPC that tells that this one has no room for a block more.
 */
int denoising_whole_pass(struct denoising *, uint32_t *from, struct err *);
uint32_t denoising_whole_limit(const struct session *);
int denoising_check_room(const struct denoising *, struct err *);

/* The block: masks behind the text so far, which is shorter than the limit.
 * `length` of them, or what there is room for. */
void denoising_begin(struct denoising *, uint32_t length);

/* Masks behind the block as far as an answer's canvas goes. */
void denoising_lay_canvas(struct denoising *, const struct method_env *);

/* So many masks more, or what there is room for, behind all there is. */
void denoising_extend(struct denoising *, uint32_t masks);

/* The filled block is text: what ends a text ends it here, the rest is
 * dropped. */
void denoising_append(struct denoising *);

/* ---- passes -------------------------------------------------------------- */

/* Masks in [from, to), into at[]; their number. */
uint32_t denoising_masks(
	const struct denoising *, uint32_t from, uint32_t to, uint32_t *at);

/*
 * guess[i] of at[i], ascending, from the last pass, whose rows are positions
 * from `from` on. `pass`: how many passes the block had before.
 */
int denoising_guess(struct denoising *, uint32_t from, const uint32_t *at,
	uint32_t n, uint32_t pass, struct err *);

/* A pass of positions [from, to), which see all there is both ways. */
int denoising_window_pass(
	struct denoising *, uint32_t from, uint32_t to, struct err *);

/* Row `row` of the pass behind us is what speaks of position `at` from now
 * on. */
int denoising_keep_behind(
	struct denoising *, uint32_t row, uint32_t at, struct err *);

/* The first n of guess[] stay. */
void denoising_take(struct denoising *, uint32_t n);

/* To who watches: what is filled of positions [from, to) stays. The text may
 * have ended then. */
void denoising_tell(const struct denoising *, uint32_t from, uint32_t to);

/* What of the guesses stays. */
struct denoising_rule {
	uint32_t steps;   /* that share out a block evenly, the first
			   * ones taking what is left over; 0: one for
			   * each position */
	double threshold; /* instead, as many as it takes; < 0: not */
};

struct denoising_pass {
	/* Compute x[], rows being positions from *from on. */
	int (*forward)(struct denoising *, uint32_t *from, struct err *);
};

/* Fill the masks of the block. */
int denoising_fill(struct denoising *, const struct denoising_rule *,
	const struct denoising_pass *, struct err *);

#endif
