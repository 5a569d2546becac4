/*
 * In-context calibration (sd.npu, section 3.3): keep the target's own
 * predictions after the tokens of the prompt, which the device computes
 * together with the prompt. An answer that copies from the prompt seldom copies
 * all of it. Where the answer departs from the prompt, the target's prediction
 * at this position of the prompt is a good draft.
 *
 * Each prompt token is an anchor. The successors of an anchor are the likeliest
 * next tokens, in descending order, until their probabilities add up to the
 * option `share`, but no more than `successors` tokens. A path is the sequence
 * (the prompt and the answer so far), followed by the drafted tokens down to a
 * node of the tree. The drafter looks up anchors by a key: a path's last token,
 * its last two tokens, or as many of its last tokens, up to CALIBRATED_KEY, as
 * occur in the prompt. The guesses are the successors of all anchors with this
 * key; the probability of a guess is the average of its probabilities at these
 * anchors. A path can combine several anchors: a token x, then a successor s of
 * the anchor x, then a successor of an anchor s elsewhere in the prompt.
 *
 * The drafter learns how reliable these guesses are (host/draft/reliance.h).
 * Not thread-safe.
 */
#ifndef HOST_DRAFT_DRAFTER_CALIBRATED_H
#define HOST_DRAFT_DRAFTER_CALIBRATED_H

#include <stdint.h>

struct err;
struct source;

#define CALIBRATED_SUCCESSORS 8 /* maximum number of successors per anchor */
#define CALIBRATED_KEY        4

enum calibrated_anchors {
	CALIBRATED_CONTEXT, /* a draft may begin at any anchor */
	/* a draft may begin only at the anchors of the last `request` tokens of
	 * the prompt */
	CALIBRATED_REQUEST,
};

enum calibrated_key {
	CALIBRATED_SINGLE,
	CALIBRATED_BIGRAM,
	CALIBRATED_LONGEST
};

struct calibrated_options {
	int anchors; /* enum calibrated_anchors */
	int key;     /* enum calibrated_key */
	/* for CALIBRATED_REQUEST: a draft may begin only at the anchors of the
	 * last `request` tokens of the prompt. These tokens should include the
	 * user's question, which usually follows its context. */
	uint32_t request;
	uint32_t successors;
	double share;
	uint32_t depth; /* maximum number of drafted tokens on a path */
};

/* Open the source of guesses. The target's predictions for a prompt arrive
 * through `wants` and `predicted` (drafter.h) and replace the predictions for
 * the previous prompt. Returns 0 or -ENOMEM. */
int calibrated_open(
	struct source *out, const struct calibrated_options *, struct err *);

#endif
