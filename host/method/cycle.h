/*
 * Methods that verify drafts (speculative decoding): one request's part of a
 * pass. A method plans a tree T of drafted tokens that follow the generated
 * text, the target computes all rows of T in one pass, and the text continues
 * along T while the drafted tokens are the ones that the target draws.
 *
 * Sample and match: every token is drawn from the target's logits with the
 * random number of its own position, and a drafted token only saves a pass if
 * it is the token drawn. So the tokens are those of plain decoding, at any
 * temperature, whatever the draft proposes and whichever rows a pass prunes.
 *
 * A cycle serves one request at a time. It runs no pass: lanes.h does, for one
 * cycle or many. One thread. A cycle borrows what it points to, except for what
 * cycle_open allocates.
 */
#ifndef HOST_METHOD_CYCLE_H
#define HOST_METHOD_CYCLE_H

#include "host/method/method.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"

#include <stdbool.h>
#include <stdint.h>

struct exit_head;
struct pass_cost;
struct prune_opts;

struct cycle {
	struct session *session;
	struct method_env *env;
	struct generation *gen;
	uint32_t sequence;
	bool started; /* the method's `start` was called */
	bool drafts;  /* the next pass drafts; otherwise the tree is its root */
	void *own;    /* [lane_bytes] the method's state of this request */
	const struct drafter *source; /* the drafter of the request */

	/* The tree of the next pass. It has memory for `rows` nodes; the pass
	 * has room for `most` of them. cycle_limits combines both with the
	 * limits of the request. */
	struct tree *tree;
	uint32_t rows, most;
	struct build_limits limits;
	struct build build; /* the builder that grows it */
	/* For the next pass only, set by the method's `plan` or `grown`: the
	 * exit predictor (the session's) that chooses the rows for the upper
	 * layers, and its options. NULL: all rows continue. */
	const struct exit_head *exit;
	const struct prune_opts *prune;

	/* The last pass: */
	uint32_t first;    /* row of the pass that holds the root */
	uint32_t verified; /* nodes of the tree that the target computed */
	uint32_t leaves;   /* leaves among them */
	bool alone;        /* all rows of the pass were this request's */
	uint32_t *path;    /* [n_path] the root and the accepted nodes */
	uint32_t n_path;
	int32_t next; /* token drawn after the last accepted node */

	/* Drafting of this tree: its time, in the unit of cycle_now; the part
	 * that was spent expanding nodes other than the root; the number of
	 * expanded nodes, the root included. */
	uint64_t draft_time, expand_time;
	uint32_t expanded;

	/*
	 * Flash reads layers ahead between two passes, which shortens the next
	 * pass. `gap` is the time between the last pass and the one before it,
	 * and `hidden` is the part of it in which flash was reading.
	 * `passed_at` is the time when the last pass ended, and `ahead` is how
	 * long flash kept reading after it.
	 */
	uint64_t pass_time, gap, hidden;
	uint64_t passed_at, ahead;

	/* Passes of this request so far, without those of its prompt. Of the
	 * last pass: the device time in nanoseconds, the time of choosing the
	 * rows that continue after the exit, and the number of these rows. */
	uint64_t passes;
	uint64_t device_ns, choose_time;
	uint32_t n_continued;
	/* Learns the time of each expansion of nodes; NULL: none. */
	struct pass_cost *expand_cost;
	/* Of the prompt's passes: mean rows and mean device time of a pass. */
	double prompt_rows, prompt_ns;

	/* [rows + spare] the scores of each node in pruning */
	float *sigma;
	double *merit;
	/* [rows] logits of each node; NULL: not computed */
	const float **known;
};

/* Trees of up to `rows` nodes, with the options of env's method. Call
 * cycle_close whatever this returns. */
int cycle_open(struct cycle *, struct session *, struct method_env *,
	const struct drafter *source, uint32_t rows, struct err *);
void cycle_close(struct cycle *);

/* Use the cycle for this request from now on. */
void cycle_bind(struct cycle *, struct generation *, uint32_t sequence);

/* Read the prompt, of which the sequence may hold a beginning, in passes of its
 * own, and draw the first token. */
int cycle_read_prompt(struct cycle *, struct err *);

/* ---- for the steps of a method ---- */

/* Limits of the tree that is being planned, with at most `depth` levels.
 * Returns &c->limits. */
const struct build_limits *cycle_limits(struct cycle *, uint32_t depth);

/* Have the drafter expand nodes. Not counted in the statistics or the time. */
int cycle_expand(
	struct cycle *, const uint32_t *node, uint32_t n, struct err *);

/* Time of the last pass as if no layer had been read ahead when it began, and
 * the time that drafting added to that. */
double cycle_verify_cost(const struct cycle *);
double cycle_draft_cost(const struct cycle *);

/*
 * Sets *cost to the phone's NPU time for passes of up to `rows` rows after
 * `cached` tokens. Each graph is priced at its fewest and at its most rows: an
 * engine computes all rows of a graph, but the runtime may take longer for more
 * real rows.
 */
void cycle_phone_cost(const struct session *, uint32_t rows, uint32_t cached,
	struct pass_cost *);

/* The current time, in picoseconds of the phone's clock or nanoseconds of the
 * wall clock. */
uint64_t cycle_now(const struct cycle *);

/* ---- for the code that runs the pass (lanes), in this order ---- */

/* Plan the trees of n <= ROWS_SEQUENCES requests; the trees grow side by side,
 * so that drafters can serve several requests in one call. */
int cycle_plan(struct cycle *const *, uint32_t n, struct err *);
/* A pass begins at time `now`. */
void cycle_begin_pass(struct cycle *, uint32_t first_row, uint64_t now);
/* At the exit layer: writes the nodes that continue to keep[], ascending, and
 * returns their number. */
uint32_t cycle_choose(struct cycle *, uint32_t *keep);
/* Called between two blocks of the pass, while the host would wait. */
int cycle_meanwhile(struct cycle *, struct err *);
void cycle_end_pass(struct cycle *, uint64_t began, uint64_t device_ns,
	uint32_t rows_of_all);

/* When the walk has reached `node`: nodes whose logits are to be computed in
 * one sweep, at most `most`. `node` comes first, then the nodes that the walk
 * will probably reach. */
uint32_t cycle_likely(
	const struct cycle *, uint32_t node, uint32_t most, uint32_t *out);
/* Hand in the logits of a node. They stay valid until the caller clears
 * known[]. */
void cycle_set_logits(struct cycle *, uint32_t node, const float *logits);

/* The child of `node` with this token, if the pass computed it; else -1. */
int32_t cycle_child(const struct cycle *, uint32_t node, int32_t token);

/* After the walk along path[]: counters, the drafter and the method learn from
 * the pass. */
void cycle_learn(struct cycle *);

#endif
