/* What those say and read of a reward who see none: its name, what it scores
 * and counts. Any thread. */
#ifndef HOST_HEAD_REWARD_TEXT_H
#define HOST_HEAD_REWARD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct opt_word;

/* Names of rewards, beside files. */
bool reward_word(size_t i, struct opt_word *);
/* 0, or -EINVAL for "exact", which is for those whose items have answers; NULL
 * is no name. */
int reward_check_unanswered(const char *said, struct err *);

struct reward_text {
	const int32_t *token; /* [n]: the prompt, then what was written */
	size_t n, n_prompt;
	/* [n_steps] the token that ends each step, as an index into all tokens:
	 * ascending, behind the prompt. */
	const uint32_t *step_end;
	uint32_t n_steps;
	float *score; /* [n_steps] probabilities, written */
	/* Where it was started so: the target's states behind the layers that
	 * it named, [n_embd] each, of the prompt's tokens and of what follows
	 * as far as a step goes, but for one that ends the text. */
	const float *prompt_state, *state;
};

/* Who scores n texts in place of a reward. */
typedef int reward_function(
	void *arg, struct reward_text *, unsigned n, struct err *);

/* What a reward came to so far; _ps is of the phone, where there is one. */
struct reward_stats {
	uint64_t texts, steps; /* scored */
	uint64_t tokens;       /* in them */
	uint64_t rows;         /* computed, prompts among them */
	uint64_t passes;
	uint64_t ns, ps;
};

#endif
