/*
 * In-context calibration (sd.npu, 3.3): what the target itself expects behind
 * the tokens of a prompt, kept while it reads them. A text that takes its words
 * from the prompt seldom takes all of them, and where it leaves the prompt the
 * target's expectation there knows how.
 *
 * Each token of the prompt whose logits are kept is an anchor with its
 * successors: the likeliest tokens, together of the probability `share`, at
 * most `successors`. The end of a path finds the anchors that have the same
 * key, one, two or up to CALIBRATED_KEY tokens; their successors, averaged over
 * the anchors, are the guesses. So a path x, s, s2 is found for an anchor x, a
 * successor s and a successor s2 of s wherever s stands in the prompt; deeper
 * ones likewise.
 *
 * A drafter learns what that is worth (host/draft/reliance.h). One thread.
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
	int anchors;      /* enum calibrated_anchors */
	int key;          /* enum calibrated_key */
	uint32_t request; /* tokens of the request */
	uint32_t successors;
	double share;
	uint32_t depth; /* of a path, at most */
};

/* -ENOMEM. The prompt comes with the target's logits (drafter.h, wants, read),
 * which replaces the one before. */
int calibrated_open(
	struct source *out, const struct calibrated_options *, struct err *);

#endif
