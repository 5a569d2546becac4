/*
 * Scoring solutions that are given: how well a reward tells right steps from
 * wrong ones, and right solutions of a problem from others. They come as JSON
 * lines (eval_items.h):
 *
 *   {"prompt": "Problem: ...\nSolution:", "solution": " 2 + 3 = 5.\n...",
 *    "marks": [true, false]}
 *
 * "marks", of each step whether all was right up to its end, may be left out,
 * in all lines; lines of the same prompt are solutions of one problem.
 */
#ifndef HOST_EVAL_EVAL_SCORE_H
#define HOST_EVAL_EVAL_SCORE_H

#include "base/progress.h"
#include "host/eval/eval_items.h"

#include <stddef.h>
#include <stdint.h>

struct err;
struct json_t;
struct tandem;

struct scored {
	const struct eval_item *item;
	const char *solution;
	const struct json_t *marks; /* NULL: none */
	/* Prompt and solution, and what comes of them. */
	int32_t *token;
	size_t n, n_prompt;
	uint32_t n_steps;
	uint32_t *step_end;
	float *score; /* [n_steps] */
};

struct scoring {
	struct eval_items items;
	struct scored *scored; /* [items.n] */
	size_t longest;        /* in tokens */
};

/* The lines of a file; scoring_release in any case. -EINVAL with file and line
 * of what is none. */
int scoring_read(struct scoring *, const char *path, struct err *);
void scoring_release(struct scoring *);

/*
 * Their tokens, by the tokenizer of an open model, and their steps: each ends
 * with the token whose text completes `step_end`, or with the text. -EINVAL
 * where marks are more or fewer than steps.
 */
int scoring_tokenize(
	struct scoring *, struct tandem *, const char *step_end, struct err *);

/* Their scores, by the handle's reward (tandem_want_reward), in the pair that
 * was started. */
int scoring_run(struct scoring *, struct tandem *, const struct progress_sink *,
	struct err *);

struct scoring_summary {
	uint64_t solutions, steps, right_steps;
	double area; /* under the ROC curve; NAN: marks of one kind alone */
	/* Of problems, the share that is solved by one of the solutions taken
	 * at random, by that whose last step scores best, by any of them. */
	uint64_t problems, least, most; /* solutions of one */
	double one, best, any;
};

/* Of marked solutions; false: there are no marks. -ENOMEM as 0 solutions. */
int scoring_sum(
	const struct scoring *, struct scoring_summary *out, struct err *);

#endif
