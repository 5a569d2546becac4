/* The part of the interface of reward models (reward.h) for code that does not
 * run a reward model: names, texts to score, counters. Any thread may call the
 * functions. */
#ifndef HOST_HEAD_REWARD_TEXT_H
#define HOST_HEAD_REWARD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct opt_word;

/* Get word number i that the option "reward" accepts besides a file name: the
 * name of a bundled reward, or "exact". */
bool reward_word(size_t i, struct opt_word *);
/* Returns -EINVAL if `name` is "exact", which needs tasks with known answers;
 * otherwise 0. `name` may be NULL. */
int reward_check_unanswered(const char *name, struct err *);

struct reward_text {
	/* [n] tokens of the prompt, then the generated tokens */
	const int32_t *token;
	size_t n, n_prompt;
	/* [n_steps] index in `token` of each step's last token, in ascending
	 * order; all are after the prompt. */
	const uint32_t *step_end;
	uint32_t n_steps;
	float *score; /* output: [n_steps] probabilities */
	/* Set these only if session_opts.tap_layers was set for reward_start:
	 * the target's hidden states after tap_layers layers, [n_embd] each.
	 * prompt_state: states of the prompt's tokens. state: states of the
	 * tokens after the prompt, up to the end of the last step, without an
	 * end-of-text token. */
	const float *prompt_state, *state;
};

/* A function that scores n texts in place of a reward model. */
typedef int reward_function(
	void *arg, struct reward_text *, unsigned n, struct err *);

/* Counters of a reward. ps: simulated phone time in picoseconds, or 0 without a
 * simulated phone. */
struct reward_stats {
	uint64_t texts, steps; /* number of scored texts and steps */
	uint64_t tokens;       /* total number of tokens of the scored texts */
	/* number of rows (tokens) that were computed, including the rows of
	 * prompts */
	uint64_t rows;
	uint64_t passes;
	uint64_t ns, ps;
};

#endif
