#include "host/bench/curve.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* alpha in d3LLM's definition of "accuracy under parallelism" */
#define PENALTY 3.0
/* A point is left out if its accuracy is lower than that of the first point by
 * more than this. */
#define MOST_LOST 0.05

static int by_tokens(const void *a, const void *b)
{
	const struct curve_point *p = a, *q = b;

	return (p->tokens > q->tokens) - (p->tokens < q->tokens);
}

static void sorted(
	struct curve_point *out, const struct curve_point *p, unsigned n)
{
	assert(n <= CURVE_POINTS);
	memcpy(out, p, n * sizeof(*p));
	qsort(out, n, sizeof(*out), by_tokens);
}

static double trapezoid(struct curve_point a, struct curve_point b)
{
	return (b.tokens - a.tokens) * (a.right + b.right) / 2;
}

double curve_area(const struct curve_point *points, unsigned n)
{
	struct curve_point p[CURVE_POINTS], at;
	double area = 0;

	if (!n)
		return 0;
	sorted(p, points, n);
	at = (struct curve_point){ 1, p[0].right };
	for (unsigned i = 0; i < n; i++) {
		if (p[i].tokens <= 1)
			continue;
		if (i && p[i - 1].tokens < 1) {
			/* Replace the points below 1 token per pass by one
			 * point, interpolated between a and p[i]. */
			struct curve_point a = p[i - 1];
			double part = (1 - a.tokens) / (p[i].tokens - a.tokens);

			at = (struct curve_point){ 1,
				a.right + part * (p[i].right - a.right) };
		}
		area += trapezoid(at, p[i]);
		at = p[i];
	}
	return area;
}

double curve_weighted_area(
	const struct curve_point *points, unsigned n, double best)
{
	struct curve_point p[CURVE_POINTS], last;
	double area, least;

	if (!n || !(best > 0))
		return 0;
	sorted(p, points, n);
	last = p[0];
	area = last.tokens * last.right;
	least = p[0].right - MOST_LOST;
	for (unsigned i = 0; i < n; i++) {
		if (p[i].right < least)
			continue;
		p[i].right *= fmin(exp(-PENALTY * (1 - p[i].right / best)), 1);
		if (i)
			area += trapezoid(last, p[i]);
		last = p[i];
	}
	return area;
}
