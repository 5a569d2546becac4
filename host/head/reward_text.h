/* The interface of rewards for code without access to them: names, texts to
 * score, counters. Any thread. */
#ifndef HOST_HEAD_REWARD_TEXT_H
#define HOST_HEAD_REWARD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct opt_word;

/* Names of rewards, besides files. */
bool reward_word(size_t i, struct opt_word *);
/* 0, or -EINVAL for "exact", which needs items with answers; NULL is no
 * name. */
int reward_check_unanswered(const char *name, struct err *);

struct reward_text {
	const int32_t *token; /* [n]: the prompt, then the generated tokens */
	size_t n, n_prompt;
	/* [n_steps] index of each step's last token, among all tokens:
	 * ascending, after the prompt. */
	const uint32_t *step_end;
	uint32_t n_steps;
	float *score; /* output: [n_steps] probabilities */
	/* If the reward was started with taps: the target's states after
	 * tap_layers layers, [n_embd] each, of the prompt's tokens and of the
	 * tokens after it up to the last step, without an end-of-text token. */
	const float *prompt_state, *state;
};

/* A function that scores n texts instead of a reward model. */
typedef int reward_function(
	void *arg, struct reward_text *, unsigned n, struct err *);

/* Counters of a reward; _ps is phone time, 0 without a phone. */
struct reward_stats {
	uint64_t texts, steps; /* scored */
	uint64_t tokens;       /* in them */
	uint64_t rows;         /* computed, including prompts */
	uint64_t passes;
	uint64_t ns, ps;
};

#endif
