/*
 * How well a decoder does the more it dares: points of accuracy over tokens a
 * pass, and areas below the line through them. Pure functions; the order of
 * points does not matter.
 */
#ifndef HOST_BENCH_CURVE_H
#define HOST_BENCH_CURVE_H

struct curve_point {
	double tokens; /* a pass */
	double right;  /* share of the items */
};

#define CURVE_POINTS 48

/* By trapezoids from 1 token a pass to the most that a point has. Before the
 * first point accuracy is what it is there. n <= CURVE_POINTS. */
double curve_area(const struct curve_point *, unsigned n);

/*
 * "Accuracy under parallelism" of d3LLM (2026): from 0 tokens a pass, accuracy
 * being weighted by exp(-3 (1 - right/best)) behind the first point; points
 * more than 0.05 below the first are left out. `best`: of all curves that are
 * compared.
 */
double curve_weighted_area(const struct curve_point *, unsigned n, double best);

#endif
