/*
 * A request whose text ends in masks, and how passes of a diffusion model fill
 * them: a pass predicts a token for each mask; some of these guesses stay, the
 * others are masks again (Nie et al., "Large Language Diffusion Models", 2025).
 *
 * The method plans the rows of a pass and decides which guesses stay, by its
 * struct denoising_steps. It runs no pass: lanes do (host/method/lanes.h), for
 * one request or many. Which row predicts a position, what is guessed
 * (host/method/guesses.h), and what blocks have in common stands here.
 *
 * One thread; the session and the generation are borrowed.
 */
#ifndef HOST_METHOD_DENOISING_H
#define HOST_METHOD_DENOISING_H

#include "base/opt.h"
#include "host/method/guesses.h"
#include "host/session/rows.h"

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

/* ---- a request ----------------------------------------------------------- */

struct denoising {
	struct session *session;
	struct method_env *env;
	struct generation *gen;
	uint32_t sequence;
	void *own; /* [lane_bytes] the method's, zeroed at first */
	struct guessing guessing; /* by confidence, unless the method says */
	uint32_t limit;           /* positions there may be */
	uint32_t shift; /* 1: a row predicts the position after its own */
	int32_t mask;
	int32_t *x;          /* [limit] the text, with masks */
	uint32_t begin, end; /* of the block */
	uint32_t last;       /* where what is in x[] ends */
	bool reads_prompt;   /* in passes of its own, before all others */

	/*
	 * The next pass, which the method plans: its rows, whose sequence the
	 * lanes set; the positions for which a token is to be guessed,
	 * ascending; and whether the sequence's cache is emptied before it.
	 */
	enum visibility visibility;
	uint32_t n_rows, n_at;
	struct row *row; /* [limit] */
	uint32_t *at;    /* [limit] */
	bool anew;
	uint32_t pass; /* its number in the block or the text, for draws */

	/* The last pass: its row that is row[0], and a guess for each at[]. */
	uint32_t first;
	struct guess *guess; /* [limit] */
	/* What predicts the position `behind_at` though no row does. */
	float *behind; /* [n_vocab] */
	uint32_t behind_at;
};

/*
 * The steps of a method that fills masks, for one request each. -errno and a
 * message fail the request.
 *
 *   start   reserves memory, and sets reads_prompt
 *   prompt  the prompt was read; the last token's row of the last pass. NULL
 *           where reads_prompt is never set
 *   plan    the pass to come
 *   took    the pass has ended, and guess[] is there: which guesses stay, what
 *           is kept in the cache, what is text now
 *   finish  releases what start reserved; NULL: nothing
 */
struct denoising_steps {
	int (*start)(struct denoising *, struct err *);
	int (*prompt)(struct denoising *, uint32_t row, struct err *);
	int (*plan)(struct denoising *, struct err *);
	int (*took)(struct denoising *, struct err *);
	void (*finish)(struct denoising *);
};

/* A request of env's method, started; to be closed only if this is 0. */
int denoising_open(struct denoising **out, struct session *,
	struct method_env *, struct generation *, uint32_t sequence,
	struct err *);
void denoising_close(struct denoising *);

/* Slots of the cache that such a request may still take. */
uint32_t denoising_growth(const struct session *, const struct method_env *,
	const struct generation *, uint32_t sequence);

/* ---- for start ---- */

/* Texts of at most `limit` positions. -EINVAL, naming the method, where tokens
 * are to be drawn in a way that a diffusion method cannot. */
int denoising_reserve(struct denoising *, uint32_t limit, struct err *);

/* Where passes compute all positions, in the largest graph: how long a text may
 * be. */
uint32_t denoising_whole_limit(const struct session *);

/* -ENOSPC where there is no room for a block more. */
int denoising_check_room(const struct denoising *, struct err *);

/* ---- for plan ---- */

/* The block: masks after the text so far, which is shorter than the limit.
 * `length` of them, or what there is room for. */
void denoising_begin(struct denoising *, uint32_t length);

/* Where the block is filled the next one begins. -ENOSPC as above. */
int denoising_next_block(struct denoising *, uint32_t length, struct err *);

/* So many masks more, or what there is room for, after all there is. */
void denoising_extend(struct denoising *, uint32_t masks);

/* Masks after the block as far as an answer's canvas goes. */
void denoising_lay_canvas(struct denoising *);

/* Rows of positions [from, to), which attend to the whole text both ways; with
 * VISIBILITY_BLOCK the method sets the end of each. */
void denoising_rows(
	struct denoising *, enum visibility, uint32_t from, uint32_t to);

/* A pass of all positions, which uses nothing that was cached. */
void denoising_whole_pass(struct denoising *);

/* Masks in [from, to) are asked for. */
void denoising_ask(struct denoising *, uint32_t from, uint32_t to);

/* ---- after a pass ---- */

/* The i-th guess comes from a row: its index in row[]. False: it comes from
 * d->behind, which denoising_keep_behind kept. */
bool denoising_row_of(const struct denoising *, uint32_t i, uint32_t *row);
void denoising_guess(struct denoising *, uint32_t i, const float *logits);

/* Row `row` of the last pass predicts position `at` from now on. */
int denoising_keep_behind(
	struct denoising *, uint32_t row, uint32_t at, struct err *);

/* The first n rows' keys and values are cached. */
int denoising_accept(struct denoising *, uint32_t n, struct err *);

/* The first n of guess[] stay. */
void denoising_take(struct denoising *, uint32_t n);

/* Of the n_at guesses, with `left` passes of the block still to come: those
 * that are confident enough, or where the threshold is below 0 an even share.
 * They come first. */
uint32_t denoising_choose(struct denoising *, double threshold, uint32_t left);

/* What watches sees what is filled of positions [from, to). The text may have
 * ended then. */
void denoising_report(const struct denoising *, uint32_t from, uint32_t to);

/* Where the block has no mask left, or nothing is wanted any more, it is text:
 * what ends a text ends it here, the rest is dropped. */
void denoising_end_block(struct denoising *);

#endif
