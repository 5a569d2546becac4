/*
 * Scores given solutions with a reward model: how well it separates right steps
 * from wrong ones, and right solutions of a problem from wrong ones. Solutions
 * are JSON lines (eval_items.h):
 *
 *   {"prompt": "Problem: ...\nSolution:", "solution": " 2 + 3 = 5.\n...",
 *    "marks": [true, false]}
 *
 * "marks" has for each step whether everything up to its end is right; either
 * all lines have it or none. Lines with the same prompt are solutions of one
 * problem.
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
	/* Tokens of prompt and solution. */
	int32_t *token;
	size_t n, n_prompt;
	uint32_t n_steps;
	uint32_t *step_end;
	float *score; /* [n_steps] */
};

struct scoring {
	struct eval_items items;
	struct scored *scored; /* [items.n] */
	size_t longest;        /* tokens of the longest */
};

/* Read the lines of a file; scoring_release in any case. -EINVAL with file and
 * line for an invalid one. */
int scoring_read(struct scoring *, const char *path, struct err *);
void scoring_release(struct scoring *);

/*
 * Tokenize with the tokenizer of an open model, and find the steps: each ends
 * with the token whose text completes `step_end`, or with the text. -EINVAL if
 * the number of marks differs from the number of steps.
 */
int scoring_tokenize(
	struct scoring *, struct tandem *, const char *step_end, struct err *);

/* Compute the scores with the handle's reward model (tandem_want_reward); the
 * pair must be started. */
int scoring_run(struct scoring *, struct tandem *, const struct progress_sink *,
	struct err *);

struct scoring_summary {
	uint64_t solutions, steps, right_steps;
	double area; /* under the ROC curve; NAN: all marks are equal */
	/* Share of problems solved by a random solution, by the one with the
	 * best last score, and by any solution. */
	uint64_t problems, least, most; /* solutions of one problem */
	double one, best, any;
};

/* Summarize marked solutions; false: no marks. -ENOMEM is returned as 0
 * solutions. */
int scoring_sum(
	const struct scoring *, struct scoring_summary *out, struct err *);

#endif
