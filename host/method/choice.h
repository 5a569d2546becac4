/*
 * Functions that choose among samples: they count votes for the samples'
 * answers, or find the largest value. No state; any thread may call the
 * functions.
 */
#ifndef HOST_METHOD_CHOICE_H
#define HOST_METHOD_CHOICE_H

#include "host/scheduler/method_stats.h"
#include "host/scheduler/samples_options.h"

#include <stdint.h>

#define CHOICE_NONE UINT32_MAX

/* The properties of a sample on which the choice depends. */
struct candidate {
	/* answer in canonical form; NULL (no answer) means no vote */
	const char *answer;
	/* value of the sample, larger is better; NAN if unknown */
	double value;
	double weight; /* weight of the sample's vote */
};

/*
 * Count the votes for each answer. The answers are written to row[], which has
 * room for n answers, in the order in which they occur first in the array of
 * candidates. Returns the number of different answers.
 */
uint32_t choice_tally(const struct candidate *, uint32_t n, struct tally *row);

/* Index of the first answer with the largest total weight. Returns CHOICE_NONE
 * if n is 0. */
uint32_t choice_heaviest(const struct tally *, uint32_t n);

/*
 * Whether a vote is decided although `left` candidates have not voted yet;
 * first_left is the index of the first candidate without a vote. All votes
 * weigh 1. Finds the first answer with the most votes. Returns its index if
 * this answer wins for all possible votes of the remaining candidates,
 * otherwise CHOICE_NONE.
 */
uint32_t choice_decided(
	const struct tally *, uint32_t n, uint32_t left, uint32_t first_left);

/* Index of the first candidate with the largest value. Returns CHOICE_NONE if
 * no value is known. */
uint32_t choice_largest(const struct candidate *, uint32_t n);

/*
 * Set the weights for Borda votes (Kang et al., "Scalable best-of-N selection
 * for large language models via self-certainty", 2025). The candidate with the
 * k-th largest of n values (k from 1) gets the weight (n - k + 1)^power; a
 * candidate whose value is unknown gets the weight 0. With power 0 all other
 * weights are equal, as in a plain majority vote.
 */
void choice_borda(struct candidate *, uint32_t n, double power);

/*
 * Combine the scores of a text's steps into the value of the text (the
 * aggregations are those of search-and-learn). Returns NAN if n is 0 or a score
 * is NAN.
 */
double choice_aggregate(const float *score, uint32_t n, enum aggregate);

/* The quantile of value[n] at `share` in [0, 1], linearly interpolated: share 0
 * is the smallest value, 1 the largest. n must be at least 1. Sorts value[]. */
double choice_quantile(double *value, uint32_t n, double share);

#endif
