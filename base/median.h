#ifndef BASE_MEDIAN_H
#define BASE_MEDIAN_H

#define MEDIAN_MOST 100

/* Of n samples, 1 .. MEDIAN_MOST, which stay in their order; of an even number
 * the mean of the two in the middle. */
double median(const double *sample, unsigned n);

#endif
