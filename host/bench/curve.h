/*
 * Accuracy of a decoder over its tokens a pass: points, and areas below the
 * line through them. Pure functions; the order of points does not matter.
 */
#ifndef HOST_BENCH_CURVE_H
#define HOST_BENCH_CURVE_H

struct curve_point {
	double tokens; /* tokens a pass */
	double right;  /* share of the items that are right */
};

#define CURVE_POINTS 48

/* Area by trapezoids from 1 token a pass to the largest of the points. Left of
 * the first point accuracy is constant. n <= CURVE_POINTS. */
double curve_area(const struct curve_point *, unsigned n);

/*
 * "Accuracy under parallelism" of d3LLM (2026): area from 0 tokens a pass,
 * where accuracy right of the first point is weighted by exp(-3 (1 -
 * right/best)); points more than 0.05 below the first are left out. `best`: the
 * best accuracy of all curves that are compared.
 */
double curve_weighted_area(const struct curve_point *, unsigned n, double best);

#endif
