/*
 * Scores given solutions with a reward model, to find out how well this reward
 * model distinguishes right from wrong steps, and right from wrong solutions of
 * a problem. Solutions are read from JSON lines (eval_items.h):
 *
 *   {"prompt": "Problem: ...\nSolution:", "solution": " 2 + 3 = 5.\n...",
 *    "marks": [true, false]}
 *
 * "marks" has one element for each step: true if everything up to the end of
 * the step is right. Either all lines have "marks", or no line has. Lines with
 * the same prompt are solutions of the same problem.
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
	const struct json_t *marks; /* NULL if the solution has no marks */
	/* [n] tokens of the prompt and the solution; n_prompt is the number of
	 * tokens of the prompt. */
	int32_t *token;
	size_t n, n_prompt;
	uint32_t n_steps;
	uint32_t *step_end;
	float *score; /* [n_steps] scores of the steps */
};

struct scoring {
	struct eval_items items;
	/* [items.n] solutions with their tokens and scores */
	struct scored *scored;
	/* largest number of tokens of a prompt together with its solution */
	size_t longest;
};

/* Read the solutions in a file. The caller releases them with
 * scoring_release(), also on failure. Returns 0 on success, -EINVAL if a line
 * is invalid (the message names file and line), or another negative errno. */
int scoring_read(struct scoring *, const char *path, struct err *);
void scoring_release(struct scoring *);

/*
 * Tokenize the solutions with the tokenizer of an open model, and divide them
 * into steps. A step ends with the token whose text completes `step_end`; the
 * last step ends with the solution. Returns 0 on success, -EINVAL if the number
 * of marks differs from the number of steps, or another negative errno.
 */
int scoring_tokenize(
	struct scoring *, struct tandem *, const char *step_end, struct err *);

/* Compute the scores with the reward model of the library handle
 * (tandem_want_reward). The device process must be started. Returns 0 or a
 * negative errno. */
int scoring_run(struct scoring *, struct tandem *, const struct progress_sink *,
	struct err *);

struct scoring_summary {
	uint64_t solutions, steps, right_steps;
	double area; /* area under the ROC curve; NAN if all marks are equal */
	/*
	 * problems: number of problems. least, most: smallest and largest
	 * number of solutions of a problem. one: probability that a random
	 * solution of a random problem is right. best: share of problems for
	 * which the solution with the best last-step score is right. any: share
	 * of problems with at least one right solution.
	 */
	uint64_t problems, least, most;
	double one, best, any;
};

/* Summarize the scored solutions. If there are no marks, only `solutions` and
 * `steps` are set and all other members are 0. Returns 0 or -ENOMEM. */
int scoring_sum(
	const struct scoring *, struct scoring_summary *out, struct err *);

#endif
