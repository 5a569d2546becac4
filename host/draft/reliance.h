/*
 * Calibration of a source's guesses (source.h), learned from which guesses were
 * accepted. A source gives a token a share, which one factor for each class of
 * (origin, match length, depth) turns into a probability. The factor is the
 * number of guesses that were accepted divided by the sum of their shares, over
 * all guesses of the class. It starts from a prior that grows with the match
 * length.
 *
 * Lengths and depths are grouped in classes, so that a single request gives
 * enough samples for each class. Not thread-safe.
 */
#ifndef HOST_DRAFT_RELIANCE_H
#define HOST_DRAFT_RELIANCE_H

#include <stdbool.h>
#include <stdint.h>

#define RELIANCE_ORIGINS 4
#define RELIANCE_MATCHES 8 /* classes: 0, 1, 2, 3, 4, 5-8, 9-16, more */
#define RELIANCE_DEPTHS  5 /* classes: 0, 1, 2-3, 4-7, more */

struct reliance {
	struct {
		double promised, kept;
	} cell[RELIANCE_ORIGINS][RELIANCE_MATCHES][RELIANCE_DEPTHS];
};

/* Evidence for a guess: which of the source's indexes it came from, the number
 * of matched tokens before the draft, and its depth in the draft. */
struct grounds {
	uint32_t origin; /* below RELIANCE_ORIGINS */
	uint32_t match;
	uint32_t depth; /* depth of the parent node; 0 for the root */
};

void reliance_init(struct reliance *);

/* Returns the factor that turns a share into a probability. It is above 0, and
 * above 1 if more guesses are accepted than their shares add up to. */
double reliance_of(const struct reliance *, const struct grounds *);

/* Record an outcome. The guesses with this evidence had the shares `share` in
 * all, 0 to 1; `came` is whether one of them was accepted. */
void reliance_saw(
	struct reliance *, const struct grounds *, double share, bool came);

#endif
