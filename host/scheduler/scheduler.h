/*
 * The scheduler runs the passes of all lanes. A lane is a sequence that is
 * being decoded: a whole request (host/api/requests.c) or one of many samples
 * of a prompt (host/scheduler/samples.h). For each pass, the scheduler chooses
 * the lanes, plans the draft of each lane, chooses the rows, lets each lane
 * draw its tokens, and keeps the keys and values of accepted tokens in the
 * cache:
 *
 *   scheduler.c          which lanes are in a pass, and which wait for slots
 *   scheduler_draft.c    the drafter of each lane, and the trees of a pass
 *   row_budget.c         which drafted tokens get rows
 *   scheduler_pass.c     the pass: rows, logits, the walk down the trees
 *   scheduler_denoise.c  the pass of a diffusion method
 *
 * The tokens of a lane do not depend on other lanes, on the width of a pass, or
 * on pauses. The reason is that a row has the same logits, byte for byte, in a
 * shared pass and in a separate pass, and that each token is drawn with the
 * random number of its position.
 *
 * Tokens that precede the last token of a lane may be uncached: the prompt, or
 * tokens whose cache was dropped. Uncached tokens are prefilled before the lane
 * decodes. With `mixed_prefill` uncached tokens get the rows of shared passes
 * that decoding lanes do not use, so that a long prompt does not delay decoding
 * lanes. Earlier lanes in the list get rows first. Without `mixed_prefill`,
 * uncached tokens are prefilled in separate passes.
 *
 * A lane takes cache slots as it grows; a slot holds the keys and values of one
 * token. When no slots are left, lanes are paused, the last lane of the list
 * first, and resume when other lanes have ended. If pausing frees too few
 * slots, the cache of a paused lane is dropped and computed again later. If too
 * few slots are free for a lane although no other lane holds slots, the lane
 * ends as if its context were full.
 *
 * The session, the env and the lanes belong to the caller. A lane must not move
 * in memory while it is in the list. All calls come from one thread.
 */
#ifndef HOST_SCHEDULER_SCHEDULER_H
#define HOST_SCHEDULER_SCHEDULER_H

#include "host/scheduler/row_budget.h"
#include "host/session/rows.h"
#include "ipc/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct cycle;
struct denoising;
struct err;
struct generation;
struct scheduler;
struct method_env;
struct session;
struct speculation;

#define LANE_NO_SEQUENCE UINT32_MAX

enum lane_state {
	LANE_WAITING,
	LANE_RUNNING,
	LANE_PAUSED, /* the lane waits until cache slots are free */
	/*
	 * the lane of a request with samples, after its prompt was read: the
	 * prompt stays cached so that samples can fork it; the lane takes part
	 * in no further pass
	 */
	LANE_KEPT,
	/* the lane has ended by itself; its generation has the reason */
	LANE_ENDED,
	LANE_CUT, /* the lane's owner has ended the lane */
	/* the lane has ended with an error, which its owner stores */
	LANE_FAILED,
};

struct lane {
	const struct lane_ops *ops;  /* callbacks of the lane's owner */
	struct scheduler *scheduler; /* runs the lane's passes */
	/* tokens of the lane, prompt first; belongs to the lane's owner */
	struct generation *gen;
	/* For a sample, the lane of its request, which has read the prompt. For
	 * a request, NULL. */
	struct lane *root;
	enum lane_state state;
	/* sequence of the lane; LANE_NO_SEQUENCE if the lane has none yet or
	 * its cache was dropped */
	uint32_t sequence;
	/* set and cleared by the owner: while `held` is true, the lane takes
	 * part in no pass */
	bool held;
	/*
	 * true: the lane's last token is a row of the next pass only to get the
	 * hidden state of this token. The owner's callback `draw` then draws no
	 * token from the logits of the row, or draws a token later.
	 */
	bool closing;
	/* number of lanes that had ended (scheduler->ended) when this lane's
	 * cache was dropped */
	uint32_t ended_before;
	/* number of drafted tokens, and of accepted drafted tokens */
	uint64_t drafted, accepted;
	/*
	 * For a diffusion method. denoising: the state of the request while the
	 * lane runs. planned: the lane's next pass is planned. last_pass:
	 * number of the last pass that had rows of the lane.
	 */
	struct denoising *denoising;
	bool planned;
	uint64_t last_pass;
};

/* The callbacks by which the scheduler calls a lane's owner. Only callbacks
 * whose comment allows it may end the lane. */
struct lane_ops {
	/*
	 * Called before the lane begins or resumes. If the lane has no
	 * sequence, the callback sets one; the first tokens of the lane may
	 * already be cached in this sequence. Instead of setting a sequence,
	 * the callback may end the lane or, if the lane has never run, set
	 * `held`; a held lane keeps its place in the list. Returns 0, -ENOSPC
	 * if all sequences are in use, or another negative errno.
	 */
	int (*enter)(struct lane *, struct err *);
	/*
	 * Called after a pass, before each call of `draw`. `row` is the row of
	 * the pass whose logits the next call of `draw` receives: the row of
	 * the token that is now the lane's last token. May end the lane. May be
	 * NULL.
	 */
	void (*row_done)(struct lane *, uint32_t row);
	/*
	 * Draws the next token from these logits. May end the lane. If the lane
	 * is `closing` and its generation is done, no logits are computed and
	 * `logits` is NULL.
	 */
	void (*draw)(struct lane *, const float *logits);
	/*
	 * Called after a pass that began at began_ns (clock_ns). Rows [first,
	 * first + rows) of the pass belong to this lane. `last` is true for the
	 * last lane that had rows in the pass. May be NULL.
	 */
	void (*computed)(struct lane *, uint32_t first, uint32_t rows,
		uint64_t began_ns, bool last);
	/* Called after a pass that had rows of this lane, when all tokens of
	 * the pass are drawn. May end the lane. May be NULL. */
	void (*passed)(struct lane *);
	/* Called when no cache slots can be freed for this lane. Must end the
	 * lane. */
	void (*no_room)(struct lane *);
	/* Called if a row of the lane is unusable (for example, the device
	 * computed NaN). Must end the lane. */
	void (*fail)(struct lane *, const struct err *);
};

struct scheduler_stats {
	uint64_t passes; /* passes that the scheduler has run */
	uint64_t rows;   /* rows in all passes together */
	/* how often a lane was paused for lack of cache slots */
	uint64_t pauses;
	uint64_t forgotten; /* how often a lane's cache was dropped */
};

struct scheduler {
	struct session *session;
	struct method_env *env;
	bool mixed_prefill;
	uint32_t n_vocab;
	uint32_t width; /* maximum number of lanes in a pass */
	/* tree_rows: maximum number of rows of all trees of a pass together.
	 * lane_rows: maximum number of rows of one tree. */
	uint32_t tree_rows, lane_rows;
	/* maximum number of rows whose logits are computed together */
	uint32_t logits_rows;
	float *logits; /* memory: [logits_rows][n_vocab] */

	uint32_t n, room;
	struct lane **lane; /* the n lanes, in the order of priority */
	/* number of lanes that have ended, including those that have left the
	 * list */
	uint32_t ended;
	struct scheduler_stats stats;

	/* State of the pass that is being prepared or run: */
	uint32_t n_in;
	struct lane *in[ROWS_SEQUENCES];
	/*
	 * number of tokens of lane in[i] that are not cached, not counting the
	 * lane's last token
	 */
	uint32_t unread[ROWS_SEQUENCES];
	/*
	 * State of lane in[i] of the pass. cycle[i]: the lane's draft; NULL if
	 * the lane drafts nothing in this pass. first[i], got[i]: the lane's
	 * first row and number of rows. at[i]: the row that the lane's walk
	 * down the tree has reached; -1 if the walk has ended. known[i]: for a
	 * lane without a draft, the logits of row at[i]; NULL if they are not
	 * computed. n_path[i]: number of accepted rows.
	 */
	struct cycle *cycle[ROWS_SEQUENCES];
	uint32_t first[ROWS_SEQUENCES];
	uint32_t got[ROWS_SEQUENCES];
	int64_t at[ROWS_SEQUENCES];
	const float *known[ROWS_SEQUENCES];
	uint32_t n_path[ROWS_SEQUENCES];
	uint32_t n_rows;
	uint64_t device_ns; /* device time of the pass, in nanoseconds */
	struct row row[WIRE_MAX_ROWS];
	/* the accepted rows of lane in[i] start at path[first[i]] */
	uint32_t path[WIRE_MAX_ROWS];
	struct row_budget share;
	struct speculation *speculation; /* NULL if no lane drafts */
};

/*
 * Open a scheduler without lanes. Before the call, all members must be zero
 * except session, env, tree_rows, lane_rows and mixed_prefill. Lanes draft if
 * env has a drafter. Returns 0 or a negative errno. Call scheduler_close in
 * both cases.
 */
int scheduler_open(struct scheduler *, uint32_t width, struct err *);
void scheduler_close(struct scheduler *);

/* Append a lane, which waits until it can begin. Before the call, all members
 * of the lane must be zero except ops, gen and root. Returns 0 or -ENOMEM. */
int scheduler_add(struct scheduler *, struct lane *, struct err *);
/*
 * Remove a lane from the list. The lane must have no cache, and must not be in
 * a running pass.
 */
void scheduler_drop(struct lane *);
/* Move a lane directly after the lane `before`, which must already be earlier
 * in the list. Does nothing if `before` is not in the list. */
void lane_move_after(struct lane *, const struct lane *before);
bool lane_is_over(const struct lane *);

/* End a lane with `state`, and free its cache slots. */
void lane_end(struct lane *, enum lane_state state);
/* Free the lane's sequence and cache. */
void lane_forget(struct lane *);

/*
 * Run one pass. Without `mixed_prefill`, first read the prompts of new lanes,
 * in separate passes. If a lane must be ended or the cache of a lane must be
 * dropped, the call does only this and runs no pass. Errors of a single lane
 * are reported to the lane's owner (lane_ops.fail). Errors of the whole pass
 * (-ECANCELED, a lost device, ...) are returned, and no lane changes.
 */
int scheduler_step(struct scheduler *, struct err *);

/* ---- scheduler.c: choosing the lanes of a pass ---- */

/* Choose the lanes of the next pass, in[]. If the call has to end a lane or
 * drop a lane's cache, or if no lane can run, in[] is empty. */
int scheduler_gather(struct scheduler *, struct err *);
/* Pause one lane of the pass: the last lane that needs a new cache slot or, if
 * no lane needs a new slot, the last lane of the pass. */
void scheduler_pause_one(struct scheduler *);
bool lane_is_active(const struct lane *);

/* ---- scheduler_pass.c: running a pass ---- */

/* Call the callback `computed` of each lane of a pass that began at began_ns.
 * Must be called before logits are computed. */
void scheduler_report_pass(const struct scheduler *, uint64_t began_ns);

/* ---- scheduler_draft.c: speculative decoding ---- */

/*
 * Prepare drafting. The first lane uses env's drafter. Further drafters, one
 * for each lane of a pass, are opened when they are needed. Returns 0 or
 * -ENOMEM.
 */
int speculation_open(struct scheduler *, struct err *);
void speculation_close(struct scheduler *);

/* Get the cycle in which a lane drafts. The lane keeps the cycle until
 * speculation_leave, or until another lane needs the cycle for a pass. */
int speculation_join(
	struct scheduler *, struct lane *, struct cycle **, struct err *);
void speculation_leave(struct scheduler *, const struct lane *);

/* Plan the trees of the lanes in in[], and set cycle[]. All trees together have
 * at most tree_rows rows. */
int speculation_plan(struct scheduler *, struct err *);

/* ---- scheduler_denoise.c: passes of a diffusion method ---- */

/* Open the lane's denoising state. If an error concerns only this lane, the
 * call ends the lane with the error (lane_ops.fail) and returns 0. */
int lane_start_denoising(struct lane *, struct err *);
/* Run a pass of the lanes in scheduler->in[]. */
int scheduler_denoise(struct scheduler *, struct err *);

#endif
