/*
 * Speculative decoding: the part of a pass that belongs to one request. A
 * method plans a tree T of drafted tokens that may follow the generated text.
 * The target model computes all nodes of T in one pass, one row per node. A
 * walk down T then extends the text: at each node the target draws a token, and
 * the walk moves to the child with that token, until no child has the token.
 *
 * Every token is drawn from the target's logits, with the random number of the
 * token's position. A drafted token is accepted if and only if it equals the
 * token drawn. Each accepted token saves a pass. So the text is the same as
 * with plain decoding, at any temperature, with any draft and any pruning of
 * rows.
 *
 * A cycle holds the state of one request at a time; cycle_bind sets the
 * request. The scheduler (scheduler.h) runs the passes, for one cycle or for
 * many at once. All calls come from one thread. The caller owns everything that
 * the cycle points to, except memory that cycle_open allocates.
 */
#ifndef HOST_SCHEDULER_CYCLE_H
#define HOST_SCHEDULER_CYCLE_H

#include "host/scheduler/method.h"
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
	bool started; /* the method's `start` was called for this request */
	/* whether tokens are drafted for the next pass; if false, the tree is
	 * only the root */
	bool drafts;
	/* method->lane_bytes bytes: the method's state for this request */
	void *own;
	const struct drafter *source; /* the drafter of the request */

	/*
	 * The tree of the next pass. The tree has memory for `rows` nodes, plus
	 * the nodes that the method's `spare_nodes` requests; the pass has room
	 * for `most` of the nodes. cycle_limits computes the tree's limits from
	 * `most` and from the limits of the request.
	 */
	struct tree *tree;
	uint32_t rows, most;
	struct build_limits limits;
	struct build build; /* state of the builder that grows the tree */
	/*
	 * Pruning of the next pass, set by the method's `plan` or `grown`.
	 * exit: the exit predictor (a small model that scores tokens from the
	 * hidden states of an early layer), which the method owns. prune: the
	 * pruning options. At the exit layer (the last of the first exit_layers
	 * layers, a number that the method chooses) the predictor chooses the
	 * rows that the later layers compute. If `exit` is NULL, the later
	 * layers compute all rows.
	 */
	const struct exit_head *exit;
	const struct prune_opts *prune;

	/* Results of the last pass: */
	uint32_t first;    /* row of the tree's root in the pass */
	uint32_t verified; /* number of nodes that the target computed */
	uint32_t leaves;   /* number of leaves among the verified nodes */
	bool alone;        /* the pass had rows of this request only */
	/* [n_path] the root and the accepted nodes, as node indices */
	uint32_t *path;
	uint32_t n_path;
	int32_t next; /* token drawn after the last accepted node */

	/*
	 * draft_time: duration of drafting the current tree, in the unit of
	 * cycle_now. expand_time: the part of draft_time in which nodes other
	 * than the root were expanded. expanded: number of expanded nodes,
	 * including the root.
	 */
	uint64_t draft_time, expand_time;
	uint32_t expanded;

	/*
	 * Between two passes flash reads layers in advance, which shortens the
	 * next pass. `pass_time` is the duration of the last pass. `gap` is the
	 * time from the end of the second-to-last pass to the start of the last
	 * pass; within the gap flash was reading for the time `hidden`.
	 * `passed_at` is the time when the last pass ended; after that time,
	 * flash continued to read for the time `ahead`.
	 */
	uint64_t pass_time, gap, hidden;
	uint64_t passed_at, ahead;

	/*
	 * `passes` counts the passes of this request, without the passes of its
	 * prompt. The other members describe the last pass. device_ns: device
	 * time in nanoseconds. choose_time: time for choosing, after the exit
	 * layer, the rows that are not pruned. n_continued: number of these
	 * rows, which the later layers compute. lost: share of the expected
	 * accepted tokens that is lost by pruning.
	 */
	uint64_t passes;
	uint64_t device_ns, choose_time;
	uint32_t n_continued;
	double lost;
	/* Cost model that records how long the drafter takes to expand nodes
	 * (to draft their children); may be NULL. */
	struct pass_cost *expand_cost;
	/*
	 * Mean number of rows and mean device time (ns) of the prompt's passes.
	 */
	double prompt_rows, prompt_ns;

	/* Results of the most recent pruning (struct prune_result of
	 * host/tree/prune.h). merit: for each node, the estimated probability
	 * that the walk down the tree reaches the node. score: for each node,
	 * the exit predictor's scores of the node's candidates (possible
	 * children). */
	double *merit;
	float *score;
	/* [rows] logits of each node; NULL for a node whose logits are not
	 * computed */
	const float **known;
};

/* Open a cycle for trees of up to `rows` nodes, with the method and options of
 * the method_env. Returns 0 or -ENOMEM. Call cycle_close in both cases. */
int cycle_open(struct cycle *, struct session *, struct method_env *,
	const struct drafter *source, uint32_t rows, struct err *);
void cycle_close(struct cycle *);

/* Use the cycle for this request until the next cycle_bind. Resets the state of
 * the cycle. */
void cycle_bind(struct cycle *, struct generation *, uint32_t sequence);

/*
 * Read the prompt in passes of its own, which have no rows of other requests.
 * Tokens at the start of the prompt that are already cached in the sequence are
 * not read again. session_logits(*last_row) gives the logits after the prompt.
 */
int cycle_read_prompt(struct cycle *, uint32_t *last_row, struct err *);

/* ---- called by the steps of a method ---- */

/* Compute the limits of the tree that is being planned: at most `depth` levels,
 * and no more nodes than the pass and the request allow. Returns &c->limits. */
const struct build_limits *cycle_limits(struct cycle *, uint32_t depth);

/* Call the drafter to expand a node (to draft its children). This call does not
 * count in the statistics and in the time of drafting, which include only the
 * calls that cycle_plan makes. */
int cycle_expand(struct cycle *, uint32_t node, struct err *);

/*
 * Costs of the last pass, in the unit of cycle_now. cycle_verify_cost: the time
 * that the pass would have taken if flash had read no layer before the pass
 * began. cycle_draft_cost: the time by which drafting delayed the pass.
 */
double cycle_verify_cost(const struct cycle *);
double cycle_draft_cost(const struct cycle *);

/*
 * Set *cost to the time that the simulated phone's NPU needs for passes of up
 * to `rows` rows after `cached` tokens. The time is computed for some numbers
 * of rows: for one row, and for each compiled graph the smallest number above
 * one and the largest number of rows for which the session uses the graph. For
 * other numbers of rows the time is interpolated linearly. (The NPU always
 * computes all rows of a graph, but the time outside the NPU may grow with the
 * rows used, and has a fixed additional part if a pass has more than one row.)
 */
void cycle_phone_cost(const struct session *, uint32_t rows, uint32_t cached,
	struct pass_cost *);

/* The current time: picoseconds of the simulated phone's clock if a phone is
 * simulated, otherwise nanoseconds of the wall clock. */
uint64_t cycle_now(const struct cycle *);

/* ---- called by the scheduler for each pass, in this order ---- */

/*
 * Plan the trees of n <= ROWS_SEQUENCES requests. The trees grow at the same
 * time, so that a drafter can serve several requests in one call. Returns 0 or
 * a negative errno.
 */
int cycle_plan(struct cycle *const *, uint32_t n, struct err *);
/* Record that a pass begins at time `now` (see cycle_now). Row `first_row` of
 * the pass is the root of the tree. */
void cycle_begin_pass(struct cycle *, uint32_t first_row, uint64_t now);
/*
 * At the exit layer, choose the nodes whose rows the later layers compute.
 * Writes their indices to keep[] in ascending order and returns their number.
 */
uint32_t cycle_choose(struct cycle *, uint32_t *keep);
/*
 * Call the method's `meanwhile`. The scheduler calls this function between two
 * blocks of layers of a pass, when the host would otherwise wait for the
 * device.
 */
int cycle_meanwhile(struct cycle *, struct err *);
/* Record that the pass, which began at time `began`, has ended. rows_of_all:
 * number of rows in the pass, of all requests together. */
void cycle_end_pass(struct cycle *, uint64_t began, uint64_t device_ns,
	uint32_t rows_of_all);

/*
 * Choose the nodes whose logits are computed together, in one product with the
 * output matrix, when the walk down the tree has reached `node`: first `node`
 * itself, then nodes that the walk will probably reach later. Writes up to
 * `most` nodes to out[] and returns their number.
 */
uint32_t cycle_likely(
	const struct cycle *, uint32_t node, uint32_t most, uint32_t *out);
/* Store the pointer `logits` in known[node], and pass the logits to the
 * drafter. The logits must stay valid as long as known[] points to them: the
 * scheduler clears known[] before it computes other logits. */
void cycle_set_logits(struct cycle *, uint32_t node, const float *logits);
/* Give the drafter the device's predictions (session_predict) for the nodes of
 * the tree. The nodes were rows [first, first + rows) of the last pass. */
void cycle_verified(struct cycle *, uint32_t first, uint32_t rows);

/* The child of `node` with this token; -1 if the node has no such child, or if
 * the pass did not compute the child. */
int32_t cycle_child(const struct cycle *, uint32_t node, int32_t token);

/* Called after the walk down the tree, whose path is path[]: updates the
 * statistics, and passes the result to the drafter and to the method's
 * `after_pass`. */
void cycle_learn(struct cycle *);

#endif
