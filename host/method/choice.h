/*
 * Choosing among samples, by what is known of them: votes over their answers
 * and the largest of their values. Numbers in, numbers out: no session, no
 * text. Any thread.
 */
#ifndef HOST_METHOD_CHOICE_H
#define HOST_METHOD_CHOICE_H

#include "host/method/method_stats.h"
#include "host/method/samples_options.h"

#include <stdint.h>

#define CHOICE_NONE UINT32_MAX

/* What is known of a sample. */
struct candidate {
	const char *answer; /* in canonical form; NULL: it has none, no vote */
	double value;       /* the larger the better; NAN: not known */
	double weight;      /* of its vote */
};

/* Into row[n], in the order in which answers are first given; how many. */
uint32_t choice_tally(const struct candidate *, uint32_t n, struct tally *row);

/* The row of most weight, the first of several; CHOICE_NONE of none. */
uint32_t choice_heaviest(const struct tally *, uint32_t n);

/* The candidate of the largest value, the first of several; CHOICE_NONE where
 * none is known. */
uint32_t choice_largest(const struct candidate *, uint32_t n);

/*
 * Borda votes (Kang et al., "Scalable best-of-N selection for large language
 * models via self-certainty", 2025): the k-th largest of n values, k = 1 ...,
 * weighs (n - k + 1)^power, those not known nothing; power 0 is the majority.
 */
void choice_borda(struct candidate *, uint32_t n, double power);

/*
 * The value of a text from the scores of its steps (search-and-learn's
 * aggregations). NAN of none, or where one is not known.
 */
double choice_aggregate(const float *score, uint32_t n, enum aggregate);

/*
 * The share-th quantile of value[n], n >= 1, which is sorted: 0 is the least, 1
 * the largest, and between two the line between them.
 */
double choice_quantile(double *value, uint32_t n, double share);

#endif
