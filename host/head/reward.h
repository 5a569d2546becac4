/*
 * Reward models: the probability that a solution is right so far, step by step,
 * by which methods choose among samples. The kinds:
 *
 *   head   a verifier for one target (scripts/train/verifier.py): a GGUF file
 *          of architecture "tandem-reward" with fine-tuned copies of the
 *          target's last blocks and a small network; reward.gguf and
 *          reward-small.gguf for the bundled models
 *   prm    a process reward model: a GGUF file with a whole model that has a
 *          scoring head instead of its output matrix, of the kinds of
 *          Qwen2.5-Math-PRM and Skywork-o1-Open-PRM (reward_prm.c)
 *   exact  computed by the caller: for tasks with known answers
 *
 * The first two run on a session beside the target's, in sequences of their
 * own, and cache their results (host/head/scorer.h): only the new part of a
 * text is computed, with the rows of many texts in one pass. A score depends on
 * its text alone, not on other texts scored before or with it. A reward that
 * was made for another model is refused.
 *
 * All arguments of opening are borrowed. One thread.
 */
#ifndef HOST_HEAD_REWARD_H
#define HOST_HEAD_REWARD_H

#include "base/opt.h"
#include "host/head/reward_text.h"

#include <stddef.h>
#include <stdint.h>

struct err;
struct model;
struct reward;
struct session;
struct session_opts;
struct tokenizer;

struct reward_options {
	const char *name; /* a name or a file; NULL: the model's own */
};
/* For methods whose needs_reward is true, which method.c checks. */
extern const struct opt_table reward_table;

/* The model whose texts are scored, and its tokenizer. */
struct reward_site {
	const struct model *target;
	const char *target_path;
	const struct tokenizer *tokenizer;
};

/*
 * Open the named reward, or the target's bundled one. Only the file is read
 * here. -EINVAL or -ENOTSUP with a message if it is not a reward, or is for
 * another model.
 */
int reward_open(struct reward **out, const char *name,
	const struct reward_site *, struct err *);
/*
 * Number of target layers after which states can be reused: if reward_text has
 * the target's states there (session_opts.tap_layers), the reward need not
 * compute them again. 0: it reads tokens alone.
 */
uint32_t reward_tap_layers(const struct reward *);
/*
 * Call before the first score. The reward runs beside `session`, which was
 * opened with these options and must be closed later; up to `texts` texts are
 * scored at a time without computing anything twice. If the options have the
 * reward's tap_layers, all texts must come with their states; scores are the
 * same to the last bit.
 */
int reward_start(struct reward *, struct session *, const struct session_opts *,
	uint32_t texts, struct err *);
void reward_close(struct reward *);

/* "reward", "exact", or the path of a file. */
const char *reward_name(const struct reward *);

/*
 * Score n texts. A step that ends in an end-of-text token is scored by the
 * tokens before that. -EFBIG if a text is too long for the reward model; else
 * errors of session passes.
 */
int reward_score(
	struct reward *, struct reward_text *, unsigned n, struct err *);

/* Set the function for the kind "exact"; NULL: scoring fails. No effect for
 * other kinds. */
void reward_report(struct reward *, reward_function *, void *arg);

void reward_stats(const struct reward *, struct reward_stats *out);

#endif
