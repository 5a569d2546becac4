#include "host/method/choice.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const aggregate_names[] = { "last", "min", "prod", NULL };

/* Whether a is larger than b; NAN is smaller than any number. */
static bool is_more(double a, double b)
{
	return isnan(b) ? !isnan(a) : a > b;
}

uint32_t choice_tally(const struct candidate *c, uint32_t n, struct tally *row)
{
	uint32_t rows = 0, k;

	for (uint32_t i = 0; i < n; i++) {
		if (!c[i].answer)
			continue;
		for (k = 0; k < rows; k++)
			if (!strcmp(row[k].answer, c[i].answer))
				break;
		if (k == rows)
			row[rows++] = (struct tally){
				.answer = c[i].answer, .first = i, .best = i
			};
		row[k].votes++;
		row[k].weight += c[i].weight;
		if (is_more(c[i].value, c[row[k].best].value))
			row[k].best = i;
	}
	return rows;
}

uint32_t choice_heaviest(const struct tally *row, uint32_t n)
{
	uint32_t best = CHOICE_NONE;

	for (uint32_t k = 0; k < n; k++)
		if (best == CHOICE_NONE || row[k].weight > row[best].weight)
			best = k;
	return best;
}

/*
 * In the worst case for the leading answer, all remaining candidates vote for
 * one other answer. The other answer may be a new answer (k = n), whose first
 * candidate is one of the remaining candidates.
 */
uint32_t choice_decided(
	const struct tally *row, uint32_t n, uint32_t left, uint32_t first_left)
{
	uint32_t most = CHOICE_NONE;

	for (uint32_t k = 0; k < n; k++)
		if (most == CHOICE_NONE || row[k].votes > row[most].votes)
			most = k;
	for (uint32_t k = 0; k <= n && most != CHOICE_NONE; k++) {
		uint32_t votes = left + (k < n ? row[k].votes : 0);
		uint32_t first = k < n ? row[k].first : CHOICE_NONE;

		if (left && first_left < first)
			first = first_left;
		if (k != most &&
			(votes > row[most].votes ||
				(votes == row[most].votes &&
					first < row[most].first)))
			most = CHOICE_NONE;
	}
	return most;
}

uint32_t choice_largest(const struct candidate *c, uint32_t n)
{
	uint32_t best = CHOICE_NONE;

	for (uint32_t i = 0; i < n; i++)
		if (is_more(c[i].value,
			    best == CHOICE_NONE ? NAN : c[best].value))
			best = i;
	return best;
}

void choice_borda(struct candidate *c, uint32_t n, double power)
{
	for (uint32_t i = 0; i < n; i++) {
		/* number of candidates that rank below candidate i, plus 1 */
		uint32_t below = 0;

		c[i].weight = 0;
		if (isnan(c[i].value))
			continue;
		for (uint32_t k = 0; k < n; k++)
			below += is_more(c[i].value, c[k].value) ||
				(k >= i && !is_more(c[k].value, c[i].value));
		c[i].weight = pow(below, power);
	}
}

double choice_aggregate(const float *score, uint32_t n, enum aggregate how)
{
	double product = 1, least = INFINITY;

	for (uint32_t i = 0; i < n; i++) {
		if (isnan(score[i]))
			return NAN;
		product *= score[i];
		least = score[i] < least ? score[i] : least;
	}
	if (!n)
		return NAN;
	return how == AGGREGATE_LAST   ? score[n - 1]
		: how == AGGREGATE_MIN ? least
				       : product;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double choice_quantile(double *value, uint32_t n, double share)
{
	double at = share * (n - 1);
	uint32_t low = (uint32_t)at;

	qsort(value, n, sizeof(*value), by_size);
	if (low >= n - 1)
		return value[n - 1];
	return value[low] + (at - low) * (value[low + 1] - value[low]);
}
