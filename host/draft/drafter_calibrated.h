/*
 * In-context calibration (sd.npu, section 3.3): keep the target's own
 * predictions after the tokens of the prompt, which the device computes while
 * it reads the prompt. An
 * answer that copies from the prompt seldom copies all of it. At the place
 * where the answer departs from the prompt, the target's prediction there is a
 * good draft.
 *
 * Each prompt token is an anchor. Its successors are the likeliest next tokens:
 * as many as have the total probability `share`, but no more than `successors`.
 * The drafter looks up the end of a path by a key: its last token, its last
 * two, or up to CALIBRATED_KEY tokens. The guesses are the successors of all
 * anchors with this key, and the probability of a guess is its average over
 * these anchors. A path x, s, s2 thus combines an anchor x, its successor s,
 * and a successor s2 of an anchor s elsewhere in the prompt.
 *
 * The drafter learns how reliable these guesses are (host/draft/reliance.h).
 * Not thread-safe.
 */
#ifndef HOST_DRAFT_DRAFTER_CALIBRATED_H
#define HOST_DRAFT_DRAFTER_CALIBRATED_H

#include <stdint.h>

struct err;
struct source;

#define CALIBRATED_SUCCESSORS 8 /* most per anchor */
#define CALIBRATED_KEY        4

enum calibrated_anchors {
	CALIBRATED_CONTEXT, /* a path begins at any anchor */
	CALIBRATED_REQUEST, /* only at the last tokens of the prompt */
};

enum calibrated_key {
	CALIBRATED_SINGLE,
	CALIBRATED_BIGRAM,
	CALIBRATED_LONGEST
};

struct calibrated_options {
	int anchors; /* enum calibrated_anchors */
	int key;     /* enum calibrated_key */
	/* with CALIBRATED_REQUEST, the number of these last tokens: the user's
	 * request, which follows its context */
	uint32_t request;
	uint32_t successors;
	double share;
	uint32_t depth; /* most drafted tokens on a path */
};

/* Open the source of guesses. The target's predictions for a prompt arrive
 * through `wants` and `predicted` (drafter.h) and replace those of the previous
 * prompt.
 * Returns 0 or -ENOMEM. */
int calibrated_open(
	struct source *out, const struct calibrated_options *, struct err *);

#endif
