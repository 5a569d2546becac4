/*
 * Masked and block diffusion: a request whose text ends in masks, and what
 * decoding methods have in common that fill them. A pass predicts a token for
 * each mask; some of these guesses are kept (committed), the other positions
 * stay masks for the next pass, until the block has no mask left (Nie et al.,
 * "Large Language Diffusion Models", 2025).
 *
 * A method plans the rows of a pass and decides which guesses are kept, in its
 * struct denoising_steps. It runs no pass: lanes do (host/method/lanes.h), for
 * one request or many. This file decides which row predicts a position, what
 * blocks are, and when they become text; host/method/guesses.h computes the
 * guesses.
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

#define DENOISING_LENGTH 32 /* of a block, by default */

/* ---- options ------------------------------------------------------------- */

struct block_options {
	uint32_t length;
};
extern const struct opt_table block_table;

/* Masks after the prompt that every pass sees. */
struct canvas_options {
	uint32_t length; /* 0: only those of the current block */
};
extern const struct opt_table canvas_table;

/* A fixed number of passes for a block. */
struct steps_options {
	uint32_t steps; /* at most; 0: one for each position */
	int order;      /* enum guess_order */
};
extern const struct opt_table steps_table;

/* As many passes for a block as its guesses need to reach a confidence. */
struct threshold_options {
	double threshold; /* of confidence; below 0: not given */
};
extern const struct opt_table threshold_table;

uint32_t denoising_length(const struct method_env *);

/* State of a method that decodes blocks: their length, which is the model's if
 * it was trained with blocks (by_block), else --block. -EINVAL: --block
 * contradicts the model. */
struct block_state {
	uint32_t length;
	bool by_block;
};
int denoising_open_blocks(
	struct method_env *, const struct model *, struct err *);

/* For a method's table, rows of its decode graph. denoising_all_rows: the
 * largest graph. denoising_block_rows: a few blocks if the model was trained
 * with blocks, else the largest graph. */
uint32_t denoising_all_rows(const struct method_env *);
uint32_t denoising_block_rows(const struct method_env *);

/* --threshold, or `otherwise`. */
double denoising_threshold(const struct method_env *, double otherwise);

/* ---- a request ----------------------------------------------------------- */

struct denoising {
	struct session *session;
	struct method_env *env;
	struct generation *gen;
	uint32_t sequence;
	void *own; /* [lane_bytes] the method's state, zeroed at first */
	/* by confidence, unless the method changes it */
	struct guessing guessing;
	uint32_t limit; /* positions at most */
	uint32_t shift; /* 1: a row predicts the position after its own */
	int32_t mask;
	int32_t *x;          /* [limit] tokens of the text, and masks */
	uint32_t begin, end; /* the current block is x[begin, end) */
	uint32_t last;       /* end of the tokens and masks in x[] */
	/* the prompt is read first, in passes of its own */
	bool reads_prompt;

	/* The next pass, planned by the method: its rows (the lanes set their
	 * sequence), the positions to guess tokens for, ascending, and whether
	 * the sequence's cache is emptied before the pass. */
	enum visibility visibility;
	uint32_t n_rows, n_at;
	struct row *row; /* [limit] */
	uint32_t *at;    /* [limit] */
	bool clear_cache;
	uint32_t pass; /* its number in the block or the text, for draws */

	/* The last pass: its row that is row[0], and a guess for each at[]. */
	uint32_t first;
	struct guess *guess; /* [limit] */
	/* Logits from an earlier pass that predict position carried_at. With
	 * shift = 1 the first position of a window is predicted by the row
	 * before the window, which later passes do not compute. */
	float *carried; /* [n_vocab] */
	uint32_t carried_at;
};

/*
 * The steps of a diffusion method, for one request each. -errno and a message
 * fail the request.
 *
 *   start       reserves memory, and sets reads_prompt
 *   prompt      the prompt was read; `row` is its last token's row of the last
 *               pass. NULL if reads_prompt is never set
 *   plan        plans the next pass
 *   after_pass  the pass has ended, and guess[] is set: decides which guesses
 *               are kept, what is cached, and what becomes text
 *   finish      releases what start reserved; may be NULL
 */
struct denoising_steps {
	int (*start)(struct denoising *, struct err *);
	int (*prompt)(struct denoising *, uint32_t row, struct err *);
	int (*plan)(struct denoising *, struct err *);
	int (*after_pass)(struct denoising *, struct err *);
	void (*finish)(struct denoising *);
};

/* Open a request of env's method, and start it. Close it only if this returns
 * 0. */
int denoising_open(struct denoising **out, struct session *,
	struct method_env *, struct generation *, uint32_t sequence,
	struct err *);
void denoising_close(struct denoising *);

/* Cache slots that the request may still need. */
uint32_t denoising_growth(const struct session *, const struct method_env *,
	const struct generation *, uint32_t sequence);

/* ---- for start ---- */

/* Allocate for texts of at most `limit` positions. -EINVAL, naming the method:
 * a diffusion method cannot draw tokens with these sampling options. */
int denoising_reserve(struct denoising *, uint32_t limit, struct err *);

/* The longest text of a method whose passes compute all positions, in the
 * largest graph. */
uint32_t denoising_whole_limit(const struct session *);

/* -ENOSPC: there is no room for another block. */
int denoising_check_room(const struct denoising *, struct err *);

/* ---- for plan ---- */

/* Begin a block: `length` masks after the text so far, or as many as there is
 * room for. The text must be shorter than the limit. */
void denoising_begin(struct denoising *, uint32_t length);

/* Begin the next block if the current one is filled. -ENOSPC as above. */
int denoising_next_block(struct denoising *, uint32_t length, struct err *);

/* Append masks, or as many as there is room for. */
void denoising_extend(struct denoising *, uint32_t masks);

/* Append masks up to the length of --canvas after the prompt. */
void denoising_lay_canvas(struct denoising *);

/* Plan rows of positions [from, to), which attend to the whole text. With
 * VISIBILITY_BLOCK the method also sets row[].end. */
void denoising_rows(
	struct denoising *, enum visibility, uint32_t from, uint32_t to);

/* Plan a pass of all positions, with an empty cache. */
void denoising_whole_pass(struct denoising *);

/* Have tokens guessed for the masks in [from, to). */
void denoising_predict_masks(struct denoising *, uint32_t from, uint32_t to);

/* ---- after a pass ---- */

/* The index in row[] of the row that predicts at[i]. False: no row does, and
 * d->carried has the logits. */
bool denoising_row_of(const struct denoising *, uint32_t i, uint32_t *row);
void denoising_guess(struct denoising *, uint32_t i, const float *logits);

/* Keep the logits of row `row` of the last pass: they predict position `at` in
 * later passes (d->carried). */
int denoising_carry_logits(
	struct denoising *, uint32_t row, uint32_t at, struct err *);

/* Commit the first n of guess[] to x[]. */
void denoising_commit(struct denoising *, uint32_t n);

/* Choose among the n_at guesses, sort the chosen ones first, and return how
 * many: those of at least `threshold` or, if it is below 0, an even share for
 * each of the `left` passes of the block. */
uint32_t denoising_choose(struct denoising *, double threshold, uint32_t left);

/* Report the state of positions [from, to) to the generation's observer. That
 * may end the text. */
void denoising_report(const struct denoising *, uint32_t from, uint32_t to);

/* If the block has no mask left, or no more tokens are wanted, append its
 * tokens to the text. A stop token ends the text there, and the rest is
 * dropped. */
void denoising_end_block(struct denoising *);

#endif
