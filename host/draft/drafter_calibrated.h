/*
 * In-context calibration (sd.npu, 3.3): keep the target's own predictions at
 * the tokens of the prompt, which prefill computes anyway. A text that copies
 * from the prompt seldom copies all of it, and at the place where it departs
 * from the prompt, the target's prediction there is a good draft.
 *
 * Each prompt token whose logits are kept is an anchor with its successors: the
 * likeliest next tokens, as many as have the total probability `share`, at most
 * `successors`. The end of a path looks up the anchors with the same key: the
 * last token, the last two, or up to CALIBRATED_KEY tokens. Their successors,
 * with probabilities averaged over the anchors, are the guesses. A path x, s,
 * s2 thus combines an anchor x, its successor s, and a successor s2 of an
 * anchor s elsewhere in the prompt.
 *
 * The drafter learns how reliable these guesses are (host/draft/reliance.h).
 * One thread.
 */
#ifndef HOST_DRAFT_DRAFTER_CALIBRATED_H
#define HOST_DRAFT_DRAFTER_CALIBRATED_H

#include <stdint.h>

struct err;
struct source;

#define CALIBRATED_SUCCESSORS 8 /* of an anchor, at most */
#define CALIBRATED_KEY        4

enum calibrated_anchors {
	CALIBRATED_CONTEXT, /* all tokens of the prompt */
	CALIBRATED_REQUEST, /* its last ones */
};

enum calibrated_key {
	CALIBRATED_SINGLE,
	CALIBRATED_BIGRAM,
	CALIBRATED_LONGEST
};

struct calibrated_options {
	int anchors; /* enum calibrated_anchors */
	int key;     /* enum calibrated_key */
	/* last tokens of the prompt, with CALIBRATED_REQUEST */
	uint32_t request;
	uint32_t successors;
	double share;
	uint32_t depth; /* of a path, at most */
};

/* -ENOMEM. The target's logits for a prompt arrive through `wants` and `read`
 * (drafter.h) and replace those of the prompt before. */
int calibrated_open(
	struct source *out, const struct calibrated_options *, struct err *);

#endif
