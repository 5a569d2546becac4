/*
 * Methods that verify drafts: one request's part of a pass. A method plans a
 * tree of drafted tokens that follow the text so far, the target computes the
 * tree in one pass, and the text goes on along the tree for as long as the
 * drafted tokens are those that the target draws.
 *
 * Sample and match: every token is drawn from the target's logits with the
 * random number of its own position, and a drafted token only saves a pass when
 * it is the token drawn. So the text is that of plain decoding, at any
 * temperature, whatever the draft proposes and whatever a pass leaves out.
 *
 * A cycle belongs to one request at a time, and runs no pass: lanes.h does, for
 * one cycle or many. One thread; all that a cycle points to is borrowed but for
 * what cycle_open allocates.
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
	bool drafts;  /* for the next pass; otherwise the tree is its root */
	void *own;    /* [lane_bytes] the method's, for this request */
	const struct drafter *source; /* the request's */

	/* The tree of the next pass: room for `rows` nodes, of which a pass has
	 * place for `most`; cycle_limits sets the limits of both and of
	 * the request. */
	struct tree *tree;
	uint32_t rows, most;
	struct build_limits limits;
	struct build build; /* grows it */
	/* The method's plan may set them, for the next pass alone: this exit
	 * predictor, the session's, chooses the rows for the upper layers.
	 * NULL: all rows go on. */
	const struct exit_head *exit;
	const struct prune_opts *prune;

	/* The last pass: */
	uint32_t first;    /* the pass's row that holds the root */
	uint32_t verified; /* nodes of the tree that the target computed */
	uint32_t leaves;   /* among them */
	bool alone;        /* all rows of the pass were its own */
	uint32_t *path;    /* [n_path] the root, and the accepted nodes */
	uint32_t n_path;
	int32_t next; /* drawn after the last of them */

	/* Drafting for it, in the unit of cycle_now: all, and what expanding
	 * nodes other than the root took; nodes expanded, with and without the
	 * root. */
	uint64_t draft_time, expand_time;
	uint32_t expanded, looked;

	/*
	 * Between two passes flash reads ahead, so that the next takes less
	 * time: of the `gap` before the last pass, `hidden` was such time. When
	 * that pass ended, and for how long flash went on reading then.
	 */
	uint64_t pass_time, gap, hidden;
	uint64_t passed_at, ahead;

	/* Passes of this request so far, without those of its prompt; of the
	 * last, the device's time in nanoseconds, the rows that went on after
	 * the exit, and the time that choosing these took. */
	uint64_t passes;
	uint64_t device_ns, choose_time;
	uint32_t went_on;
	/* Called after each expansion of nodes; NULL: nobody listens. */
	void (*saw_look)(struct cycle *, uint32_t nodes, uint64_t time);
	/* Of the prompt's passes: rows of each, and the device's time. */
	double prompt_rows, prompt_ns;

	/* [rows + spare] what pruning says of each node */
	float *sigma;
	double *merit;
	const float **known; /* [rows] a node's logits; NULL: not computed */
};

/* Trees of up to `rows` nodes, as env's method wants them. To be closed
 * whatever this returns. */
int cycle_open(struct cycle *, struct session *, struct method_env *,
	const struct drafter *source, uint32_t rows, struct err *);
void cycle_close(struct cycle *);

/* It is this request's from now on. */
void cycle_bind(struct cycle *, struct generation *, uint32_t sequence);

/* Read the prompt, of which the sequence holds a beginning, in passes of its
 * own, and draw the first token. */
int cycle_read_prompt(struct cycle *, struct err *);

/* ---- for the steps of a method ---- */

/* Of the tree that is planned now, with at most that depth; `limits`. */
const struct build_limits *cycle_limits(struct cycle *, uint32_t depth);

/* Have the drafter expand nodes, uncounted. */
int cycle_expand(
	struct cycle *, const uint32_t *node, uint32_t n, struct err *);

/* What the pass took as if it had begun with no layer read ahead, and what
 * drafting added to that. */
double cycle_verify_cost(const struct cycle *);
double cycle_draft_cost(const struct cycle *);

/*
 * What passes of up to that many rows behind `cached` tokens take a phone's
 * NPU, at the fewest rows and at the most that run by each graph: engines
 * compute all rows of a graph, and a runtime may take more for those that there
 * are.
 */
void cycle_phone_cost(const struct session *, uint32_t rows, uint32_t cached,
	struct pass_cost *);

/* The present, in picoseconds of the phone or nanoseconds of the wall. */
uint64_t cycle_now(const struct cycle *);

/* ---- for who runs the pass, in this order ---- */

/* The method's plans of n <= ROWS_SEQUENCES requests, whose trees grow side by
 * side. */
int cycle_plan(struct cycle *const *, uint32_t n, struct err *);
/* The pass begins, at this time. */
void cycle_begin_pass(struct cycle *, uint32_t first_row, uint64_t now);
/* At the exit: nodes that go on, ascending, into keep[]; how many. */
uint32_t cycle_choose(struct cycle *, uint32_t *keep);
/* Between two blocks of the pass. */
int cycle_beside(struct cycle *, struct err *);
/* The pass has ended. */
void cycle_end_pass(struct cycle *, uint64_t began, uint64_t device_ns,
	uint32_t rows_of_all);

/* Nodes whose logits are wanted together, at most `most`, once the text has
 * come to `node`: that one first, and those that it is likely to come to. */
uint32_t cycle_likely(
	const struct cycle *, uint32_t node, uint32_t most, uint32_t *out);
/* These are a node's logits, until cycle_forget_logits. */
void cycle_show(struct cycle *, uint32_t node, const float *logits);
void cycle_forget_logits(struct cycle *);
/* The child of a node that is this token, if it was computed; else -1. */
int32_t cycle_child(const struct cycle *, uint32_t node, int32_t token);

/* The text has grown along path[]: counters, the drafter and the method learn
 * from that. */
void cycle_took(struct cycle *);

#endif
