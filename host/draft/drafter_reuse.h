/*
 * Draft reuse (sd.npu, section 3.4): tokens that verification rejected may
 * still occur later in the output. A draft x_1 ... x_n departs from the
 * target's output z at index e: z_e is accepted instead of x_e. In the paper's
 * table 2 the output then continues in one of three ways, where delta, gamma
 * and epsilon are numbers of tokens:
 *
 *   missing:   z_e ... z_{e+delta}, then x_e ... x_{e+epsilon}
 *   synonym:   z_e ... z_{e+delta}, then x_{e+gamma} ... x_{e+epsilon}
 *   redundant: z_e ..., without any token of the draft after x_e
 *
 * The paper finds gamma (at least 1) and epsilon from the target's predictions
 * on the rejected path; y_i is the prediction for the position of x_i. Of all
 * runs with x_i = y_i on all paths of the tree, the longest run is
 * x_{e+gamma} ... x_{e+epsilon} (equation 3). This run is drafted in later
 * passes, although delta is unknown. With the option `checked` the drafter
 * drafts this run, and also x_e ... x_{e+epsilon}.
 *
 * For these predictions the device must multiply every row (token of a pass) by
 * the output matrix. Without predictions the drafter keeps several whole paths
 * and tries several gamma for each path. The drafter tries values of gamma near
 * delta + 1, the number of accepted tokens from z_e on, because a synonym has
 * about as many tokens as the words that the synonym replaces. The drafter also
 * tries values of gamma at which the last tokens of the sequence equal the
 * tokens before x_{e+gamma}, because the output has then rejoined the draft.
 *
 * The paper (second version, section 5.1) sets two limits: `room` is 32, and a
 * draft is kept for at least one pass. `age` and REUSE_RUN are not from the
 * paper. Not thread-safe.
 */
#ifndef HOST_DRAFT_DRAFTER_REUSE_H
#define HOST_DRAFT_DRAFTER_REUSE_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct source;

/* Minimum length of a run; shorter runs are not drafted again. */
#define REUSE_RUN 2

struct reuse_options {
	/* number of passes for which a draft is kept, at least one */
	uint32_t age;
	/* maximum number of tokens of all kept drafts together; drafts of the
	 * most recent pass are kept even if they have more tokens */
	uint32_t room;
	/* whether to use the target's predictions on the rejected path */
	bool checked;
};

/* Open the source of guesses, for trees of up to `rows` rows. Returns 0 or
 * -ENOMEM. */
int reuse_open(struct source *out, const struct reuse_options *, uint32_t rows,
	struct err *);

#endif
