/*
 * What the methods that verify drafts have in common: the cycle. A tree is
 * drafted behind the text, the target computes it in one pass, and the text
 * goes on along it for as long as it was right.
 *
 * Sample and match: every token is drawn from the target's logits with the
 * random number of its own position, and a drafted token only saves a pass when
 * it is the token drawn. So the text is that of plain decoding, at any
 * temperature, whatever the draft says and whatever a pass leaves out.
 */
#ifndef HOST_METHOD_CYCLE_H
#define HOST_METHOD_CYCLE_H

#include "host/method/method.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"

#include <stdint.h>

struct exit_head;
struct prune_opts;
struct row;

struct cycle {
	struct session *session;
	struct generation *gen;
	struct method_env *env;
	struct tree *tree;
	void *own; /* [lane_bytes] the method's, for this request */
	/* env's drafter, counted and timed: what builders are given. */
	struct drafter drafter;
	/* Of the tree to come; cycle_begin sets them, from `rows`. */
	struct build_limits limits;
	uint32_t rows;

	/* The method's plan may set them, for the next pass alone: this exit
	 * predictor, the session's, chooses the rows for the upper layers.
	 * NULL: all rows go on. */
	const struct exit_head *exit;
	const struct prune_opts *prune;

	/* Of the verification behind us: */
	uint32_t verified; /* nodes of the tree that the target computed */
	uint32_t leaves;   /* among them */
	uint32_t *path;    /* the root, and the nodes accepted below it */
	uint32_t n_path;
	int32_t next; /* drawn behind the last of them */
	uint64_t verify_time;

	/* Of the drafting behind us: */
	uint64_t draft_time;
	uint32_t expanded; /* nodes, the root among them */

	/*
	 * Between two passes flash reads ahead, so that the next takes less
	 * time: of the `gap` before the last pass, `hidden` was such time.
	 */
	uint64_t pass_time, gap, hidden;
	uint64_t passed_at, ahead; /* when the last ended; for how long then */

	/*
	 * What a cycle is made of, each by itself: passes so far, the prompt's
	 * not among them; of the last, what the device computed for, in
	 * nanoseconds, the rows that went on behind the exit, what choosing
	 * them took; and of draft_time what looking behind nodes took, beyond
	 * the beginning of the tree.
	 */
	uint64_t passes;
	uint64_t device_ns, choose_time, expand_time;
	uint32_t went_on, looked;
	/* Each time that it looked behind nodes, told as it happens. */
	void (*saw_look)(struct cycle *, uint32_t nodes, uint64_t time);
	/* Of the prompt's passes: rows of each, and the device's time. */
	double prompt_rows, prompt_ns;

	struct row *row; /* [rows] the tree as the session is given it */
	/* [rows + spare] what pruning says of each node */
	float *sigma;
	double *merit;
	float *logits; /* of rows that were computed together */
	float **known; /* [rows] where a row's are among them, or NULL */
};

/* A request of env's method, from its prompt to its last token, by the method's
 * steps. */
int cycle_run(struct session *, struct generation *, struct method_env *,
	struct err *);

/* Trees as large as env's method wants them; the prompt is read and the first
 * token drawn. To be closed whatever this returns. */
int cycle_open(struct cycle *, struct session *, struct generation *,
	struct method_env *, struct err *);
void cycle_close(struct cycle *);

/* A tree begins behind the text: its root is expanded and `limits` are set, to
 * the room that is left. */
int cycle_begin(struct cycle *, uint32_t depth, struct err *);

/* Have env's drafter look behind nodes, uncounted. */
int cycle_expand(
	struct cycle *, const uint32_t *node, uint32_t n, struct err *);

/* Verify the tree in a pass. */
int cycle_verify(struct cycle *, struct err *);

/* What the pass took as if it had begun with no layer read ahead, and what
 * drafting added to that. */
double cycle_verify_cost(const struct cycle *);
double cycle_draft_cost(const struct cycle *);

/* In the unit of verify_time and draft_time: the phone's or the wall's. */
uint64_t cycle_now(const struct cycle *);

#endif
