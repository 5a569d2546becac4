/*
 * The reward "exact" (host/head/reward.h): a text is scored like an output, and
 * all of its steps get the result, 1 or 0. It is the choice of a perfect reward
 * model, and so an upper bound. An unfinished text is scored as if it were
 * finished.
 */
#ifndef HOST_EVAL_EVAL_REWARD_H
#define HOST_EVAL_EVAL_REWARD_H

struct err;
struct eval_item;
struct reward_text;
struct tokenizer;

struct eval_exact {
	const struct eval_item *item; /* must have an answer */
	const struct tokenizer *tokenizer;
};

/* A reward_function; `arg` is a struct eval_exact. -ENOMEM. */
int eval_exact_score(void *arg, struct reward_text *, unsigned n, struct err *);

#endif
