/*
 * Calibration of a source's guesses, learnt from what was accepted: one factor
 * for each class of (origin, match length, depth) turns the share that a source
 * gives a token into a probability. The factor is the number of guesses that
 * came true divided by the sum of their shares, over all guesses of the class,
 * starting from a prior that grows with the match length.
 *
 * Lengths and depths are grouped in classes, so that a single text gives enough
 * samples for each. One thread.
 */
#ifndef HOST_DRAFT_RELIANCE_H
#define HOST_DRAFT_RELIANCE_H

#include <stdbool.h>
#include <stdint.h>

#define RELIANCE_ORIGINS 4
#define RELIANCE_MATCHES 8 /* classes: 0, 1, 2, 3, 4, 5-8, 9-16, more */
#define RELIANCE_DEPTHS  5 /* 0, 1, 2-3, 4-7, more */

struct reliance {
	struct {
		double promised, kept;
	} cell[RELIANCE_ORIGINS][RELIANCE_MATCHES][RELIANCE_DEPTHS];
};

/* Evidence for a guess: the memory of the source that it came from, the number
 * of matched tokens before the draft, and its depth in the draft. */
struct grounds {
	uint32_t origin; /* below RELIANCE_ORIGINS */
	uint32_t match;
	uint32_t depth; /* of the node before it; 0 for the root */
};

void reliance_init(struct reliance *);

/* The factor, above 0; above 1 where more comes true than the shares add up
 * to. */
double reliance_of(const struct reliance *, const struct grounds *);

/* Record an outcome: guesses on these grounds had the shares `share` in all, 0
 * to 1, and one of them came true, or none. */
void reliance_saw(
	struct reliance *, const struct grounds *, double share, bool came);

#endif
