/*
 * Rewards: how likely it is that a solution is right so far, step by step. What
 * methods that choose among samples choose by. The kinds:
 *
 *   head   a verifier of the target's own (scripts/train/verifier.py): a GGUF
 *          file of architecture "tandem-reward" with the target's last blocks
 *          as they judge and a small network, reward.gguf and
 *          reward-small.gguf for the models that come with the program
 *   prm    a process-reward model, a GGUF file that is a whole model with a
 *          head in the place of its output matrix: of the kinds of
 *          Qwen2.5-Math-PRM and Skywork-o1-Open-PRM (reward_prm.c)
 *   exact  what the caller says: for tasks whose answers are known
 *
 * The first two run on a session beside the target's, in sequences of their
 * own, and keep what they computed (host/head/scorer.h): of a text only what is
 * new is computed, the rows of many texts in one pass. A score depends on its
 * text alone: not on what was scored before, nor on what is scored with it. A
 * reward that was made for another model is refused.
 *
 * It borrows all that it is opened with. One thread.
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
	const char *said; /* a name or a file; NULL: that of the model */
};
/* Of methods whose needs_reward is true, which method.c sees to. */
extern const struct opt_table reward_table;

/* What is judged for: the model that writes, and its words. */
struct reward_site {
	const struct model *target;
	const char *target_path;
	const struct tokenizer *tokenizer;
};

/*
 * What was said, or the reward that comes with the target. Only the file is
 * read here. -EINVAL or -ENOTSUP with a sentence where it is none, or made for
 * another model.
 */
int reward_open(struct reward **out, const char *said,
	const struct reward_site *, struct err *);
/*
 * Layers of the target behind which it would have the states of what it scores
 * from who writes it, so as not to compute them again: for
 * session_opts.tap_layers. 0: it reads tokens alone.
 */
uint32_t reward_tap_layers(const struct reward *);
/*
 * Before the first score: beside that session, which was opened with those
 * options and is closed after the reward; up to `texts` are scored at a time
 * without computing anything twice. Where these have its tap_layers all texts
 * come with their states; a score is the same to the last bit.
 */
int reward_start(struct reward *, struct session *, const struct session_opts *,
	uint32_t texts, struct err *);
void reward_close(struct reward *);

/* "reward", "exact", or the path of a file. */
const char *reward_name(const struct reward *);

/*
 * The scores of n texts. A step that ends in a token which ends the text is
 * judged by what is before that. -EFBIG where its steps are longer than what
 * judges can hold; else what passes of a session give.
 */
int reward_score(
	struct reward *, struct reward_text *, unsigned n, struct err *);

/* Who scores for the kind "exact", from now on; NULL: nobody, and scoring is
 * refused. Of other kinds nothing happens. */
void reward_report(struct reward *, reward_function *, void *arg);

void reward_stats(const struct reward *, struct reward_stats *out);

#endif
