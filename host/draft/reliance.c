#include "host/draft/reliance.h"

/* PRIOR: value of `promised` (the sum of the shares of guesses) with which each
 * class starts; a larger value makes the prior factor last longer. MEMORY:
 * maximum of `promised`; if the sum exceeds it, `promised` and `kept` (accepted
 * guesses) are scaled down, so older guesses lose influence. */
#define PRIOR  4.0
#define MEMORY 256.0

static uint32_t match_class(uint32_t match)
{
	if (match <= 4)
		return match;
	return match <= 8 ? 5 : match <= 16 ? 6 : 7;
}

static uint32_t depth_class(uint32_t depth)
{
	if (depth <= 1)
		return depth;
	return depth <= 3 ? 2 : depth <= 7 ? 3 : 4;
}

void reliance_init(struct reliance *r)
{
	static const double prior[RELIANCE_MATCHES] = { 0.1, 0.25, 0.4, 0.5,
		0.6, 0.7, 0.8, 0.9 };

	for (uint32_t o = 0; o < RELIANCE_ORIGINS; o++)
		for (uint32_t m = 0; m < RELIANCE_MATCHES; m++)
			for (uint32_t d = 0; d < RELIANCE_DEPTHS; d++) {
				r->cell[o][m][d].promised = PRIOR;
				r->cell[o][m][d].kept = PRIOR * prior[m];
			}
}

double reliance_of(const struct reliance *r, const struct grounds *g)
{
	uint32_t m = match_class(g->match), d = depth_class(g->depth);

	return r->cell[g->origin][m][d].kept /
		r->cell[g->origin][m][d].promised;
}

void reliance_saw(
	struct reliance *r, const struct grounds *g, double share, bool came)
{
	uint32_t m = match_class(g->match), d = depth_class(g->depth);
	double *promised = &r->cell[g->origin][m][d].promised;
	double *kept = &r->cell[g->origin][m][d].kept;

	*promised += share;
	*kept += came ? 1 : 0;
	if (*promised > MEMORY) {
		*kept *= MEMORY / *promised;
		*promised = MEMORY;
	}
}
