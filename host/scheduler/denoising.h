/*
 * Masked and block diffusion: the state of a request, and the code that all
 * diffusion methods share. The text of a request ends in a block of mask
 * tokens. A pass guesses a token for each mask. Some guesses are kept
 * (committed); the other positions stay masks for the next pass, until the
 * block has no mask left (Nie et al., "Large Language Diffusion Models", 2025).
 *
 * A method plans the rows of a pass and decides which guesses are kept, in its
 * struct denoising_steps. The scheduler (host/scheduler/scheduler.h) runs the
 * passes, for one request or many. denoising.c decides which row predicts a
 * position, where blocks begin and end, and when blocks become text;
 * host/scheduler/guesses.h computes the guesses.
 *
 * All calls come from one thread. The session and the generation belong to the
 * caller.
 */
#ifndef HOST_SCHEDULER_DENOISING_H
#define HOST_SCHEDULER_DENOISING_H

#include "base/opt.h"
#include "host/scheduler/guesses.h"
#include "host/session/rows.h"
#include "host/text/json_machine.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct generation;
struct method_env;
struct model;
struct session;

#define DENOISING_LENGTH 32 /* default length of a block */

/* ---- options ------------------------------------------------------------- */

struct block_options {
	uint32_t length;
};
extern const struct opt_table block_table;

/* Option --canvas: number of positions after the prompt that every pass
 * computes. */
struct canvas_options {
	/* 0 means only the masks of the current block, without later blocks */
	uint32_t length;
};
extern const struct opt_table canvas_table;

/* Options of methods that decode a block in a fixed number of passes. */
struct steps_options {
	/* maximum number of passes for a block; 0 means one pass for each
	 * position of the block */
	uint32_t steps;
	int order; /* enum guess_order */
};
extern const struct opt_table steps_table;

/* Option of methods that keep every guess whose confidence is at least a
 * threshold; the number of passes of a block depends on the guesses. */
struct threshold_options {
	/* minimum confidence of a guess that is kept; negative if the option is
	 * not given */
	double threshold;
};
extern const struct opt_table threshold_table;

/* Option --refresh-every of methods that cache keys and values which become
 * stale. */
struct refresh_options {
	/* every so many passes all positions are computed; 0 means never */
	uint32_t every;
};
extern const struct opt_table refresh_table;

uint32_t denoising_length(const struct method_env *);

/*
 * State of a method that decodes blocks. If the model was trained with blocks
 * (by_block), `length` is the model's block length; otherwise it is the value
 * of --block. denoising_open_blocks, the `open` operation of such a method,
 * sets this state and returns 0, or -EINVAL if --block differs from the model's
 * block length.
 */
struct block_state {
	uint32_t length;
	bool by_block;
};
int denoising_open_blocks(
	struct method_env *, const struct model *, struct err *);

/*
 * Two functions that a method can use as `decode_rows`, the number of rows of
 * the decode graph (the NPU graph for passes that decode). denoising_all_rows
 * returns WIRE_MAX_ROWS. denoising_block_rows returns the number of rows of
 * four blocks, but at most WIRE_MAX_ROWS, if the model was trained with blocks;
 * otherwise WIRE_MAX_ROWS.
 */
uint32_t denoising_all_rows(const struct method_env *);
uint32_t denoising_block_rows(const struct method_env *);

/* The value of --threshold, or `otherwise` if the option is not given. */
double denoising_threshold(const struct method_env *, double otherwise);

/* ---- state of a request -------------------------------------------------- */

struct denoising {
	struct session *session;
	struct method_env *env;
	struct generation *gen;
	uint32_t sequence;
	/* method->lane_bytes bytes: the method's state, zero at the start */
	void *own;
	/* how tokens are guessed; guessing.order is ORDER_CONFIDENCE unless the
	 * method sets another order */
	struct guessing guessing;
	uint32_t limit; /* maximum number of positions of the text */
	/*
	 * 0: a row predicts its own position; 1: a row predicts the next
	 * position
	 */
	uint32_t shift;
	int32_t mask;
	int32_t *x;          /* [limit] tokens of the text, then masks */
	uint32_t begin, end; /* the current block is x[begin, end) */
	uint32_t last;       /* number of tokens and masks in x[] */
	/* set by the method's `start`: the prompt must be read first, in
	 * separate passes */
	bool reads_prompt;

	/*
	 * The next pass, as the method plans it: the rows (scheduler_denoise.c
	 * sets row[].sequence), the positions to predict in ascending order,
	 * and whether the sequence's cache is cleared before the pass.
	 */
	enum visibility visibility;
	uint32_t n_rows, n_at;
	struct row *row; /* planned rows; room for `limit` */
	uint32_t *at;    /* positions to predict; room for `limit` */
	bool clear_cache;
	/* number of the pass: the first pass of the block or, for methods
	 * without blocks, of the text has the number 0; random numbers depend
	 * on this number */
	uint32_t pass;

	/* Results of the pass that has just run, which may also have had rows
	 * of other requests: this request's rows row[] were rows `first`,
	 * `first` + 1, ... of that pass. `guess` has one guess for each
	 * position in at[], in any order. */
	uint32_t first;
	struct guess *guess; /* room for `limit` guesses */
	/*
	 * The grammar that the text must follow, or NULL. Which tokens the
	 * grammar allows at a position depends on all earlier tokens.
	 * next_of_form is the next position to guess, and `place` is the
	 * parser's state before this position if this pass's guesses for all
	 * earlier positions are kept. Positions after next_of_form cannot be
	 * guessed yet.
	 */
	struct json_form *form;
	struct json_front place;
	uint32_t next_of_form;
	/*
	 * If shift = 1: logits from an earlier pass that predict position
	 * carried_at, the first position of a block. The row before the block
	 * predicts this position, but the passes of the block do not compute
	 * this row.
	 */
	float *carried; /* n_vocab logits */
	uint32_t carried_at;
};

/*
 * The steps of a diffusion method. Each call concerns one request. An error
 * (negative errno, with a message) fails that request.
 *
 *   start       Calls denoising_reserve and sets reads_prompt.
 *   prompt      Called when the prompt was read; `row` is the row of the
 *               prompt's final token in the pass that has just run. The
 *               pointer is NULL in methods that never set reads_prompt.
 *   plan        Plans the next pass.
 *   after_pass  The pass has ended and guess[] is set. Decides which guesses
 *               are kept, what is cached, and what becomes text.
 *   finish      Frees what start reserved; may be NULL.
 */
struct denoising_steps {
	int (*start)(struct denoising *, struct err *);
	int (*prompt)(struct denoising *, uint32_t row, struct err *);
	int (*plan)(struct denoising *, struct err *);
	int (*after_pass)(struct denoising *, struct err *);
	void (*finish)(struct denoising *);
};

/*
 * Allocate the state of a request that the env's method decodes, and call the
 * method's `start`. Returns 0 or a negative errno. *out is NULL after an error;
 * otherwise the caller frees it with denoising_close.
 */
int denoising_open(struct denoising **out, struct session *,
	struct method_env *, struct generation *, uint32_t sequence,
	struct err *);
void denoising_close(struct denoising *);

/* Largest number of cache slots that the request may still need, in addition to
 * the slots that its sequence has. */
uint32_t denoising_growth(const struct session *, const struct method_env *,
	const struct generation *, uint32_t sequence);

/* ---- called by a method's start ---- */

/*
 * Allocate memory for a text of up to `limit` positions. Returns 0, or -ENOMEM,
 * or -EINVAL (with the method's name) if the sampling options are not possible
 * for a diffusion method.
 */
int denoising_reserve(struct denoising *, uint32_t limit, struct err *);

/*
 * The largest number of positions of a text, for a method whose passes compute
 * all positions: the number of rows of the largest graph, or the number of
 * slots of the context if that is smaller.
 */
uint32_t denoising_whole_limit(const struct session *);

/*
 * Returns 0, or -ENOSPC with a message if the text already has `limit`
 * positions.
 */
int denoising_check_room(const struct denoising *, struct err *);

/* ---- called by a method's plan ---- */

/* Begin a block: append `length` masks to the generated text, or fewer if that
 * would exceed the limit. The text must be shorter than the limit. */
void denoising_begin(struct denoising *, uint32_t length);

/* Begin the next block, of `length` masks, if the current block has no mask
 * left. Returns 0, or -ENOSPC as denoising_check_room does. */
int denoising_next_block(struct denoising *, uint32_t length, struct err *);

/* Append this many masks to x[], or fewer if x[] would exceed the limit. */
void denoising_extend(struct denoising *, uint32_t masks);

/* Append masks to x[] until the number of positions after the prompt is the
 * value of --canvas. */
void denoising_lay_canvas(struct denoising *);

/*
 * Plan rows for the positions [from, to). Each row attends to the whole text;
 * but with VISIBILITY_BLOCK it attends only to positions before row[].end,
 * which the method must set.
 */
void denoising_rows(
	struct denoising *, enum visibility, uint32_t from, uint32_t to);

/* Plan a pass of all positions; the cache is cleared before the pass. */
void denoising_whole_pass(struct denoising *);

/* Write the positions of the masks in [from, to) to at[], so that the pass
 * predicts them. */
void denoising_predict_masks(struct denoising *, uint32_t from, uint32_t to);

/* ---- called after a pass ---- */

/* Find the row that predicts position at[i], and set *row to its index in
 * row[]. Returns false if the pass has no such row; then d->carried has the
 * logits. */
bool denoising_row_of(const struct denoising *, uint32_t i, uint32_t *row);
/* Guess the tokens: denoising_begin_guesses once, then denoising_guess for each
 * position at[i], in ascending order. */
void denoising_begin_guesses(struct denoising *);
void denoising_guess(struct denoising *, uint32_t i, const float *logits);

/* Keep in d->carried the logits of row `row` of the pass that has just run. In
 * later passes these logits predict position `at`. */
int denoising_carry_logits(
	struct denoising *, uint32_t row, uint32_t at, struct err *);

/*
 * Commit the first n guesses: write their tokens to x[]. If the text must
 * follow a grammar, only guesses for consecutive positions, from the first mask
 * on, are committed; if none of the n guesses is for the first mask, the
 * leftmost of all guesses of the pass is committed.
 */
void denoising_commit(struct denoising *, uint32_t n);

/*
 * Choose which of the n_at guesses to keep, move them to the front of guess[],
 * and return their number. If `threshold` >= 0, the guesses whose confidence is
 * at least `threshold` are kept or, if there is none, the guess with the
 * largest confidence. If `threshold` < 0, the n_at / `left` guesses (rounded
 * up) that are the best by guessing.order are kept, where `left` is the number
 * of passes that remain for the block.
 */
uint32_t denoising_choose(struct denoising *, double threshold, uint32_t left);

/* Report the tokens and masks of x[] that follow the text generated so far, up
 * to position `to`, to the generation's observer, a callback that displays
 * progress. The observer may end the text. */
void denoising_report(const struct denoising *, uint32_t to);

/*
 * Append the tokens of x[] up to the first mask, or up to `end`, to the text. A
 * stop token ends the text, and later tokens are dropped. So masks after a stop
 * token need no pass, if no mask precedes the stop token. Returns the position
 * of the first mask, or `end`.
 */
uint32_t denoising_emit(struct denoising *, uint32_t end);

/* Append the tokens of the current block up to its first mask to the text
 * (denoising_emit). The block ends if it has no mask left. */
void denoising_end_block(struct denoising *);

#endif
