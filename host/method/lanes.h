/*
 * Lanes: requests that decode in shared passes, one or many. A lane belongs to
 * a request (host/api/requests.c), or is one of many samples of a prompt
 * (host/method/samples.h). Lanes decide which rows a pass has, have each
 * request's draft planned, draw tokens, and keep the accepted ones in the
 * cache:
 *
 *   lanes.c          which lanes are in a pass, and which wait for slots
 *   lanes_draft.c    who drafts for a lane, and the trees of a pass
 *   lanes_share.c    which drafted tokens have rows
 *   lanes_pass.c     the pass: rows, logits, the walk down the trees
 *   lanes_denoise.c  the pass where masks are filled
 *
 * Nothing that a lane generates depends on which others there are, on the width
 * of a pass, or on whether it was paused: its rows have the bytes that they
 * have alone, and each token is drawn with the random number of its own place.
 *
 * Tokens before a lane's last that are not cached are read first: its prompt,
 * or what was forgotten of it. Where `rides` is set they take rows that the
 * other lanes leave, so that a long prompt stops no lane, the first lane first;
 * otherwise passes of their own.
 *
 * Slots of the cache are taken as lanes grow. Where they run out, lanes are
 * paused, the last ones first, and go on when others are over; where that is
 * not enough, what is cached of a paused one is forgotten and computed again
 * later. One that has no room although no other holds any ends as by a full
 * context.
 *
 * The session, the env and the lanes, which stay where they are, are borrowed.
 * One thread.
 */
#ifndef HOST_METHOD_LANES_H
#define HOST_METHOD_LANES_H

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

#define LANE_NOWHERE UINT32_MAX

enum lane_state {
	LANE_WAITING, /* for its turn */
	LANE_RUNNING,
	LANE_PAUSED, /* for want of slots */
	LANE_KEPT,   /* what is cached of it is for its samples; it is held */
	LANE_ENDED,  /* by itself, as its generation says */
	LANE_CUT,    /* by its owner */
	LANE_FAILED, /* as its owner knows */
};

struct lane {
	const struct lane_owner *owner;
	struct lanes *lanes;    /* that it was added to */
	struct generation *gen; /* its tokens, prompt first; the owner's */
	/* Of a sample: the lane of its request, which read the prompt. NULL: it
	 * is a request's. */
	struct lane *root;
	enum lane_state state;
	uint32_t sequence; /* LANE_NOWHERE: none, or it was forgotten */
	bool held;         /* it is in no pass for now */
	/* Its owner wants the row of its last token and draws nothing from it,
	 * or not yet. */
	bool closing;
	uint32_t freed; /* how many were over when it was forgotten */
	uint64_t drafted, accepted; /* tokens of its trees */
	/* Where masks are filled: from its beginning to its end; its next pass
	 * is planned; the last pass that it had rows in. */
	struct denoising *denoising;
	bool planned;
	uint64_t served;
};

/* What the owner of a lane does for it. */
struct lane_owner {
	/*
	 * It begins, or goes on: its sequence, where it has none, with what is
	 * cached of its tokens before the last. It may end the lane instead,
	 * or hold one that never began, which keeps its place in the order.
	 * -ENOSPC where there are too many sequences.
	 */
	int (*enter)(struct lane *, struct err *);
	/* The row of its last token has come, which is that of the session's
	 * last pass; may end it. NULL: nothing. */
	void (*came)(struct lane *, uint32_t row);
	/* Its next token, from that row; may end it. NULL where it is closing
	 * and its text is done. */
	void (*draw)(struct lane *, const float *logits);
	/* Of a pass that began then so many rows from the first on were its
	 * own; `last`: no lane follows that had some. NULL: nothing. */
	void (*computed)(struct lane *, uint32_t first, uint32_t rows,
		uint64_t began_ns, bool last);
	/* Behind a pass that it was in; may end it. NULL: nothing. */
	void (*passed)(struct lane *);
	/* There is no room for it: it is to end. */
	void (*no_room)(struct lane *);
	/* Its row is spoilt: it is to end. */
	void (*spoilt)(struct lane *, const struct err *);
};

/* What they came to. */
struct lanes_stats {
	uint64_t passes;    /* with rows of lanes */
	uint64_t rows;      /* of them */
	uint64_t pauses;    /* of a lane, for want of slots */
	uint64_t forgotten; /* that were computed a second time */
};

/* In order, the first before the others. */
struct lanes {
	struct session *session;
	struct method_env *env;
	bool rides;
	uint32_t n_vocab;
	uint32_t width; /* lanes of a pass */
	/* Rows of all trees in a pass together, and of each at most. */
	uint32_t tree_rows, lane_rows;
	uint32_t logits_rows; /* computed together */
	float *logits;        /* [logits_rows][n_vocab] */

	uint32_t n, room;
	struct lane **lane; /* [n] */
	uint32_t over;      /* of all there were */
	struct lanes_stats stats;

	/* Of the pass to come: */
	uint32_t n_in;
	struct lane *in[ROWS_SEQUENCES];
	uint32_t unread[ROWS_SEQUENCES]; /* tokens before the last */
	/* Of each in it: its draft (NULL: the last token alone), its first row,
	 * the row where its walk stands (-1: it is over), that row's logits
	 * where they are known, and what is accepted. */
	struct cycle *cycle[ROWS_SEQUENCES];
	uint32_t first[ROWS_SEQUENCES];
	uint32_t got[ROWS_SEQUENCES]; /* rows */
	int64_t at[ROWS_SEQUENCES];
	const float *known[ROWS_SEQUENCES];
	uint32_t n_path[ROWS_SEQUENCES];
	uint32_t n_rows;
	uint64_t device_ns; /* that it took the device */
	struct row row[WIRE_MAX_ROWS];
	uint32_t path[WIRE_MAX_ROWS];    /* of each, from its first row on */
	struct speculation *speculation; /* NULL: nothing drafts */
};

/* Zeroed but for session, env, tree_rows, lane_rows and rides; something drafts
 * where env has a drafter. To be closed whatever this returns. */
int lanes_open(struct lanes *, uint32_t width, struct err *);
void lanes_close(struct lanes *);

/* Zeroed but for its owner and gen; it waits. */
int lanes_add(struct lanes *, struct lane *, struct err *);
/* Nothing is cached of it; no lane of a pass that is under way. */
void lanes_drop(struct lane *);
/* Move one to behind another, which is no later in the order; nothing where
 * that is not one of its lanes. */
void lane_go_behind(struct lane *, const struct lane *);
bool lane_is_over(const struct lane *);
/* Those in that state. */
uint32_t lanes_in(const struct lanes *, enum lane_state);
/* Whether one of them can still go on. */
bool lanes_left(const struct lanes *);

/* It is over, as `state` says; its slots are given back. */
void lane_end(struct lane *, enum lane_state state);
/* What is cached of it is given back. */
void lane_forget(struct lane *);

/*
 * A pass, or none where something else changed first: one that began has
 * ended, or ends for want of room. What befalls one lane is its owner's.
 * -ECANCELED, a lost device and the like are of all; they stay as they are.
 */
int lanes_pass(struct lanes *, struct err *);

/* ---- who is in a pass: lanes.c ---- */

/* l->in; none: something changed, or nothing is left to be done. */
int lanes_gather(struct lanes *, struct err *);
/* The last one in the pass that would take slots, else the last. */
void lanes_pause_one(struct lanes *);
bool lane_goes_on(const struct lane *);

/* ---- a pass: lanes_pass.c ---- */

/* Owners learn of the pass, which began then, before logits are computed. */
void lanes_report_pass(const struct lanes *, uint64_t began_ns);

/* ---- speculation: lanes_draft.c ---- */

/* For env's drafter, and as many more as there are lanes in a pass. */
int speculation_open(struct lanes *, struct err *);
void speculation_close(struct lanes *);

/* The draft of a lane, from now on until the lane is over. */
int speculation_join(
	struct lanes *, struct lane *, struct cycle **, struct err *);
void speculation_leave(struct lanes *, const struct lane *);

/* l->cycle[] of those in the pass: their trees are planned, and have
 * l->tree_rows rows together at most. */
int speculation_plan(struct lanes *, struct err *);
/* Learn from the pass that is over. */
void speculation_saw(struct lanes *);

/* ---- lanes whose masks are filled: lanes_denoise.c ---- */

/* It has begun, or has ended for want of something. */
int lane_start_denoising(struct lane *, struct err *);
/* The pass of those in l->in. */
int lanes_denoise(struct lanes *, struct err *);

#endif
