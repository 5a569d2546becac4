/*
 * How far a source of guesses can be relied on, learnt from what came of them:
 * one factor for each (origin, match length, depth), by which the share that a
 * source gives a token is multiplied to make a probability. It is the ratio of
 * the guesses that came true to what their shares promised, over all of that
 * kind, begun from a prior that grows with the match.
 *
 * Lengths and depths go together in classes, so that there is something to
 * learn from in one text. One thread.
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

/* What a guess was made of: which memory of the source it came from, how many
 * tokens before the draft were matched, how deep in the draft it stands. */
struct grounds {
	uint32_t origin; /* below RELIANCE_ORIGINS */
	uint32_t match;
	uint32_t depth; /* of the node that it is behind; 0 of the root */
};

void reliance_init(struct reliance *);

/* The factor, above 0; above 1 where more comes true than the shares say. */
double reliance_of(const struct reliance *, const struct grounds *);

/* Guesses on these grounds had `share` together, 0 to 1, and one of them came
 * next, or none did. */
void reliance_saw(
	struct reliance *, const struct grounds *, double share, bool came);

#endif
