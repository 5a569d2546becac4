#include "base/median.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(const double *sample, unsigned n)
{
	double sorted[MEDIAN_MOST];

	assert(n && n <= MEDIAN_MOST);
	memcpy(sorted, sample, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), rising);
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}
