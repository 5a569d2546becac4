/*
 * Reward models, also called rewards. A reward model computes, for each step of
 * a solution, the probability that the solution is right up to this step.
 * Decoding methods use the probabilities to choose among samples. The kinds
 * are:
 *
 *   head   a verifier for one target (scripts/train/reward.py): a GGUF file
 *          of architecture "tandem-reward" with fine-tuned copies of the
 *          target's last layers and a bias; reward.gguf and
 *          reward-small.gguf are for the bundled models
 *   prm    a process reward model: a GGUF file with a whole model that has a
 *          scoring head instead of its output matrix, of the kinds of
 *          Qwen2.5-Math-PRM and Skywork-o1-Open-PRM (reward_prm.c)
 *   exact  no model: the caller computes the scores, for tasks with known
 *          answers
 *
 * The kinds head and prm run on a session of their own beside the target's
 * session, and cache their results (host/head/scorer.h): only the new part of a
 * solution is computed, with the rows (tokens) of many solutions in one pass
 * (run of the model). A score depends only on the text that is scored, not on
 * other texts scored before or together with it. A reward model of kind head
 * that was made for another target is refused.
 *
 * The caller keeps ownership of all arguments of reward_open, which must
 * outlive the reward. Not thread-safe.
 */
#ifndef HOST_HEAD_REWARD_H
#define HOST_HEAD_REWARD_H

#include "base/opt.h"
#include "host/head/reward_text.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct model;
struct reward;
struct session;
struct session_opts;
struct tokenizer;

struct reward_options {
	/* name or file of the reward; NULL for the bundled reward of the
	 * target */
	const char *name;
};
/* The options of a reward, accepted only with decoding methods that need a
 * reward (needs_reward, see method_uses). */
extern const struct opt_table reward_table;

/* The target: the model that generates the texts to score, and its
 * tokenizer. */
struct reward_site {
	const struct model *target;
	const char *target_path;
	const struct tokenizer *tokenizer;
};

/*
 * Open the reward `name` or, if `name` is NULL, the target's bundled reward.
 * This function only reads the file; reward_start prepares scoring. Returns 0,
 * -EINVAL or -ENOTSUP if the file is not a reward model or was made for another
 * model, or another negative errno.
 */
int reward_open(struct reward **out, const char *name,
	const struct reward_site *, struct err *);
/*
 * How many of the target's layers, from the first layer on, the reward need not
 * compute again when reward_text has the target's hidden states after these
 * layers (session_opts.tap_layers). 0 if the reward reads only tokens.
 */
uint32_t reward_tap_layers(const struct reward *);
/* Whether the score of a step is never larger than the score of the previous
 * step. */
bool reward_scores_fall(const struct reward *);
/*
 * Prepare scoring; call this once, before the first reward_score. The reward
 * runs beside `session`; `session` must be closed after the reward;
 * session_opts are the options with which `session` was opened. Up to `texts`
 * texts can be scored in one call without computing any of their tokens twice.
 * If session_opts.tap_layers is reward_tap_layers(), every text must come with
 * the target's hidden states (reward_text.state); the scores are bit for bit
 * the same as without hidden states. Returns 0 or a negative errno.
 */
int reward_start(struct reward *, struct session *, const struct session_opts *,
	uint32_t texts, struct err *);
void reward_close(struct reward *);

/* Returns "exact", or the path of the file. */
const char *reward_name(const struct reward *);

/*
 * Score n texts. If a step ends with an end-of-text token, its score is
 * computed without this token. Returns 0, -EFBIG if a text is too long for the
 * reward model, or another negative errno.
 */
int reward_score(
	struct reward *, struct reward_text *, unsigned n, struct err *);

/* Set the function that computes the scores of kind "exact". Without a function
 * (NULL), scoring fails. Has no effect for other kinds. */
void reward_report(struct reward *, reward_function *, void *arg);

void reward_stats(const struct reward *, struct reward_stats *out);

#endif
