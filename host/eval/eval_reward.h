/*
 * The reward model "exact" (host/head/reward.h). This reward model compares a
 * text with the expected answer. All steps of the text get the same score: 1 if
 * the answer is right, otherwise 0. A method with these scores chooses among
 * samples as with a perfect reward model, so its accuracy is an upper bound of
 * the accuracy with any other reward model. An unfinished text is scored as if
 * it were finished.
 */
#ifndef HOST_EVAL_EVAL_REWARD_H
#define HOST_EVAL_EVAL_REWARD_H

struct err;
struct eval_item;
struct reward_text;
struct tokenizer;

struct eval_exact {
	const struct eval_item *item; /* must have an expected answer */
	const struct tokenizer *tokenizer;
};

/* A reward_function, whose `arg` is a struct eval_exact. Returns 0 or
 * -ENOMEM. */
int eval_exact_score(void *arg, struct reward_text *, unsigned n, struct err *);

#endif
