/* Choosing among samples by numbers: votes over their answers, and the largest
 * of their values. Any thread. */
#ifndef HOST_METHOD_CHOICE_H
#define HOST_METHOD_CHOICE_H

#include "host/method/method_stats.h"
#include "host/method/samples_options.h"

#include <stdint.h>

#define CHOICE_NONE UINT32_MAX

/* A sample, as a candidate of the choice. */
struct candidate {
	const char *answer; /* in canonical form; NULL: none, and no vote */
	double value;       /* larger is better; NAN: unknown */
	double weight;      /* of its vote */
};

/* Count the answers into row[n], in the order of their first candidates;
 * returns their number. */
uint32_t choice_tally(const struct candidate *, uint32_t n, struct tally *row);

/* The row with the largest weight, the first of equal ones; CHOICE_NONE: n is
 * 0. */
uint32_t choice_heaviest(const struct tally *, uint32_t n);

/* The candidate with the largest value, the first of equal ones; CHOICE_NONE:
 * no value is known. */
uint32_t choice_largest(const struct candidate *, uint32_t n);

/*
 * Borda votes (Kang et al., "Scalable best-of-N selection for large language
 * models via self-certainty", 2025): the k-th largest of n values, k = 1 ...,
 * gets the weight (n - k + 1)^power, an unknown value 0. Power 0 is the plain
 * majority.
 */
void choice_borda(struct candidate *, uint32_t n, double power);

/* The value of a text from the scores of its steps (search-and-learn's
 * aggregations). NAN: no scores, or one is NAN. */
double choice_aggregate(const float *score, uint32_t n, enum aggregate);

/* The share-th quantile of value[n], n >= 1, linearly interpolated; 0 is the
 * least value, 1 the largest. Sorts value[]. */
double choice_quantile(double *value, uint32_t n, double share);

#endif
