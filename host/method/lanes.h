/*
 * Lanes: requests that decode in shared passes, one or many. A lane is a whole
 * request (host/api/requests.c) or one of many samples of a prompt
 * (host/method/samples.h). The lane code decides which rows a pass has, has the
 * draft of each lane planned, lets each lane draw its tokens, and keeps the
 * accepted tokens in the cache:
 *
 *   lanes.c          which lanes are in a pass, and which wait for slots
 *   lanes_draft.c    the drafter of each lane, and the trees of a pass
 *   lanes_share.c    which drafted tokens get rows
 *   lanes_pass.c     the pass: rows, logits, the walk down the trees
 *   lanes_denoise.c  the pass of a diffusion method
 *
 * The tokens of a lane do not depend on the other lanes, on the width of a
 * pass, or on a pause: its rows have the same bytes as in a pass of their own,
 * and each token is drawn with the random number of its own position.
 *
 * Tokens before a lane's last one that are not cached (its prompt, or tokens
 * whose cache was dropped) are prefilled first. With `mixed_prefill` they take
 * the rows that decoding lanes leave free, the first lane first, so that a long
 * prompt delays no other lane; otherwise they have passes of their own.
 *
 * Cache slots are taken as lanes grow. When slots run out, lanes are paused,
 * the last ones first, and resume when other lanes have ended. Where pausing
 * frees too little, the cache of a paused lane is dropped and computed again
 * later. A lane that has no room although no other lane holds slots ends as if
 * its context were full.
 *
 * The session, the env and the lanes are borrowed; a lane keeps its address
 * while it is in the list. One thread.
 */
#ifndef HOST_METHOD_LANES_H
#define HOST_METHOD_LANES_H

#include "host/method/lanes_share.h"
#include "host/method/tree_options.h"
#include "host/session/rows.h"
#include "ipc/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cycle;
struct denoising;
struct err;
struct generation;
struct lanes;
struct method_env;
struct session;
struct speculation;

#define LANE_NO_SEQUENCE UINT32_MAX

enum lane_state {
	LANE_WAITING,
	LANE_RUNNING,
	LANE_PAUSED, /* for lack of cache slots */
	/* its prompt is read, and its samples fork its cached sequence; it is
	 * in no further pass */
	LANE_KEPT,
	LANE_ENDED,  /* by itself: its generation has the reason */
	LANE_CUT,    /* by its owner */
	LANE_FAILED, /* its owner has the error */
};

struct lane {
	const struct lane_ops *ops; /* the owner's */
	struct lanes *lanes;        /* the list that it is in */
	struct generation *gen;     /* borrowed: its tokens, prompt first */
	/* Of a sample: the lane of its request, which read the prompt. Of a
	 * request: NULL. */
	struct lane *root;
	enum lane_state state;
	uint32_t sequence; /* LANE_NO_SEQUENCE: none yet, or dropped */
	bool held;         /* takes part in no pass for now */
	/* Its owner wants the hidden state of its last token, and draws no
	 * token from that row, or not yet. */
	bool closing;
	uint32_t ended_before;      /* lanes.ended when its cache was dropped */
	uint64_t drafted, accepted; /* drafted tokens: all, accepted ones */
	/* Of a diffusion method: the state of its blocks while the lane runs,
	 * whether its next pass is planned, and the number of the last pass
	 * that had rows of this lane. */
	struct denoising *denoising;
	bool planned;
	uint64_t last_pass;
};

/* The owner's callbacks for a lane. A callback that is documented so may end
 * the lane. */
struct lane_ops {
	/*
	 * The lane begins or resumes. Without a sequence it gets one here, with
	 * what is cached of the tokens before its last. The callback may end
	 * the lane instead, or set `held` on a lane that never began, which
	 * keeps its place in the order. -ENOSPC: all sequences are in use.
	 */
	int (*enter)(struct lane *, struct err *);
	/* Row `row` of the session's last pass is that of the lane's last
	 * token. May end the lane. May be NULL. */
	void (*row_done)(struct lane *, uint32_t row);
	/* Draw the next token from these logits; may end the lane. `logits` is
	 * NULL where the lane is `closing` and its generation is done. */
	void (*draw)(struct lane *, const float *logits);
	/* Rows [first, first + rows) of the pass that began at began_ns were
	 * this lane's; `last`: no later lane had rows in that pass. May be
	 * NULL. */
	void (*computed)(struct lane *, uint32_t first, uint32_t rows,
		uint64_t began_ns, bool last);
	/* Called after a pass that had rows of this lane; may end the lane. May
	 * be NULL. */
	void (*passed)(struct lane *);
	/* No slots are left for this lane: must end it. */
	void (*no_room)(struct lane *);
	/* The lane's row is unusable (NaN from the device, for example): must
	 * end it. */
	void (*fail)(struct lane *, const struct err *);
};

struct lanes_stats {
	uint64_t passes;    /* that had rows of lanes */
	uint64_t rows;      /* in these passes */
	uint64_t pauses;    /* lanes paused for lack of slots */
	uint64_t forgotten; /* caches dropped, to be computed again */
};

/* In order of priority, the first lane first. */
struct lanes {
	struct session *session;
	struct method_env *env;
	bool mixed_prefill;
	uint32_t n_vocab;
	uint32_t width; /* lanes of a pass, at most */
	/* Rows of all trees of a pass together, and of one tree, at most. */
	uint32_t tree_rows, lane_rows;
	uint32_t logits_rows; /* logits computed in one sweep */
	float *logits;        /* [logits_rows][n_vocab] */

	uint32_t n, room;
	struct lane **lane; /* [n] */
	uint32_t ended;     /* ended lanes, dropped ones among them */
	struct lanes_stats stats;

	/* The next pass: */
	uint32_t n_in;
	struct lane *in[ROWS_SEQUENCES];
	uint32_t unread[ROWS_SEQUENCES]; /* uncached tokens before the last */
	/*
	 * For each lane of the pass: its draft (NULL: its last token alone),
	 * its first row, the row that its walk has reached (-1: the walk has
	 * ended), the logits of that row if they are computed, and the number
	 * of accepted rows.
	 */
	struct cycle *cycle[ROWS_SEQUENCES];
	uint32_t first[ROWS_SEQUENCES];
	uint32_t got[ROWS_SEQUENCES]; /* rows in this pass */
	int64_t at[ROWS_SEQUENCES];
	const float *known[ROWS_SEQUENCES];
	uint32_t n_path[ROWS_SEQUENCES];
	uint32_t n_rows;
	uint64_t device_ns; /* device time of the pass */
	struct row row[WIRE_MAX_ROWS];
	/* [first[i]..]: lane i's accepted rows */
	uint32_t path[WIRE_MAX_ROWS];
	struct lanes_share share;
	struct speculation *speculation; /* NULL: nothing is drafted */
};

/* Zeroed but for session, env, tree_rows, lane_rows and mixed_prefill. Lanes
 * draft where env has a drafter. Call lanes_close whatever this returns. */
int lanes_open(struct lanes *, uint32_t width, struct err *);
void lanes_close(struct lanes *);

/* The lane is zeroed but for its ops and gen; it is appended as waiting. */
int lanes_add(struct lanes *, struct lane *, struct err *);
/* Remove a lane that has no cache and is in no running pass. */
void lanes_drop(struct lane *);
/* Move a lane to right after `before`, which is not later in the order. No
 * effect if `before` is not in the list. */
void lane_move_after(struct lane *, const struct lane *before);
bool lane_is_over(const struct lane *);

/* End a lane with `state`; its slots are freed. */
void lane_end(struct lane *, enum lane_state state);
/* Drop the lane's cache and sequence. */
void lane_forget(struct lane *);

/*
 * Run one pass, or none where lanes_gather ended a lane or dropped a cache.
 * Failures of a single lane are reported to its owner. -ECANCELED, a lost
 * device and other errors of the whole pass are returned, and the lanes stay
 * unchanged.
 */
int lanes_pass(struct lanes *, struct err *);

/* ---- which lanes are in a pass: lanes.c ---- */

/* Choose l->in. Empty afterwards: a lane ended or lost its cache, or no lane is
 * left. */
int lanes_gather(struct lanes *, struct err *);
/* Pause the last lane of the pass that needs a new slot, else the last one. */
void lanes_pause_one(struct lanes *);
bool lane_is_active(const struct lane *);

/* ---- a pass: lanes_pass.c ---- */

/* Call the owners' `computed` for a pass that began at began_ns, before logits
 * are computed. */
void lanes_report_pass(const struct lanes *, uint64_t began_ns);

/* ---- speculation: lanes_draft.c ---- */

/* Uses env's drafter for one lane, and opens more, up to one for each lane of a
 * pass. */
int speculation_open(struct lanes *, struct err *);
void speculation_close(struct lanes *);

/* The draft of a lane, bound to the lane until it ends or another lane needs
 * the place. */
int speculation_join(
	struct lanes *, struct lane *, struct cycle **, struct err *);
void speculation_leave(struct lanes *, const struct lane *);

/* Plan the trees of the lanes in l->in: sets l->cycle[]. All trees together
 * have at most l->tree_rows rows. */
int speculation_plan(struct lanes *, struct err *);

/* ---- lanes whose masks are filled: lanes_denoise.c ---- */

/* Open the lane's denoising state; an error of this lane alone ends it, and 0
 * is returned. */
int lane_start_denoising(struct lane *, struct err *);
/* Run a pass of lanes in l->in. */
int lanes_denoise(struct lanes *, struct err *);

#endif
