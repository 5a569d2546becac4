/*
 * The reward "exact" (host/head/reward.h) of an item: a text is marked as an
 * output is, and all of its steps have its mark, 1 or 0. What a reward that
 * knows everything would choose, and so a bound for those that do not. One that
 * is not at its end yet is marked as if it were.
 */
#ifndef HOST_EVAL_EVAL_REWARD_H
#define HOST_EVAL_EVAL_REWARD_H

struct err;
struct eval_item;
struct reward_text;
struct tokenizer;

struct eval_exact {
	const struct eval_item *item; /* that has an answer */
	const struct tokenizer *tokenizer;
};

/* A reward_function; `arg` is a struct eval_exact. -ENOMEM. */
int eval_exact_score(void *arg, struct reward_text *, unsigned n, struct err *);

#endif
