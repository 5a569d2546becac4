/*
 * Calibration of a source's guesses (source.h), learned from which guesses were
 * accepted. The matched tokens have earlier occurrences; a source gives each
 * guessed token a share: the fraction of these occurrences after which the
 * token came next. A factor turns the share into a probability. There is one
 * factor for each class of guesses with the same origin (index in which the
 * guess was found), match length and depth in the draft tree: the number of
 * accepted guesses of the class, divided by the sum of the shares of all
 * guesses of the class. The factor starts from a prior that grows with the
 * match length.
 *
 * Similar match lengths count as the same length, and similar depths as the
 * same depth, so that a single request gives enough samples for each class. Not
 * thread-safe.
 */
#ifndef HOST_DRAFT_RELIANCE_H
#define HOST_DRAFT_RELIANCE_H

#include <stdbool.h>
#include <stdint.h>

#define RELIANCE_ORIGINS 4
/* classes of match lengths: 0, 1, 2, 3, 4, 5-8, 9-16, more */
#define RELIANCE_MATCHES 8
#define RELIANCE_DEPTHS  5 /* classes of depths: 0, 1, 2-3, 4-7, more */

struct reliance {
	/* promised: sum of the shares of the guesses. kept: number of accepted
	 * guesses. */
	struct {
		double promised, kept;
	} cell[RELIANCE_ORIGINS][RELIANCE_MATCHES][RELIANCE_DEPTHS];
};

/* The evidence for a guess. origin: number of the index (automaton, tree ...)
 * that the guess comes from. match: number of matched tokens of the
 * sequence. */
struct grounds {
	uint32_t origin; /* below RELIANCE_ORIGINS */
	uint32_t match;
	uint32_t depth; /* depth of the parent node; 0 for the root */
};

void reliance_init(struct reliance *);

/* Returns the factor > 0 that turns a share into a probability. The factor is
 * above 1 if more guesses of the class were accepted than the sum of the shares
 * of all its guesses. */
double reliance_of(const struct reliance *, const struct grounds *);

/* Record the outcome of all guesses with these grounds at one node of the draft
 * tree. `share` is the sum of their shares, 0 to 1. `came`: whether one of
 * these guesses was accepted. */
void reliance_saw(
	struct reliance *, const struct grounds *, double share, bool came);

#endif
