#ifndef BASE_MEDIAN_H
#define BASE_MEDIAN_H

#define MEDIAN_MOST 100

/* The median of n samples, n from 1 to MEDIAN_MOST; for an even n the mean of
 * the two middle samples. Does not reorder the samples. */
double median(const double *sample, unsigned n);

#endif
