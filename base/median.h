#ifndef BASE_MEDIAN_H
#define BASE_MEDIAN_H

#define MEDIAN_MOST 100

/* The median of n samples, 1 .. MEDIAN_MOST, which are not reordered; for an
 * even n the mean of the two in the middle. */
double median(const double *sample, unsigned n);

#endif
