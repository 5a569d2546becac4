/*
 * Curves of a decoder's accuracy against its tokens per pass, and the areas
 * under these curves. Pure functions; the points may be in any order.
 */
#ifndef HOST_BENCH_CURVE_H
#define HOST_BENCH_CURVE_H

struct curve_point {
	double tokens; /* tokens per pass */
	double right;  /* share of the items that are answered correctly */
};

#define CURVE_POINTS 48

/* Return the area under the curve (trapezoidal rule) from 1 token per pass to
 * the largest `tokens` of the points. Left of the first point, accuracy is
 * assumed constant. n must not exceed CURVE_POINTS. */
double curve_area(const struct curve_point *, unsigned n);

/*
 * Return "accuracy under parallelism" as d3LLM (2026) defines it: the area from
 * 0 tokens per pass. Left of the first point, the accuracy is that of the first
 * point. From the first point on, the accuracy `right` of each point is
 * multiplied by exp(-3 (1 - right/best)) or, if this is more than 1, by 1.
 * `best` is the best accuracy of all curves that are compared. Points whose
 * accuracy is more than 0.05 below that of the first point are left out.
 */
double curve_weighted_area(const struct curve_point *, unsigned n, double best);

#endif
