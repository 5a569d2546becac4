#include "host/tree/pass_cost.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* RATE: an observation corrects the estimates by this share of the error, the
 * difference between observed and expected time. MOST: an error larger than
 * this share of the expected time counts only as this share, because a machine
 * that is sometimes busy with other work must not distort the estimates. */
#define RATE 0.1
#define MOST 0.5
/* Each of the first WHOLE passes scales the estimated times for all numbers of
 * rows by one factor. */
#define WHOLE 4
/* Initial assumption: this share of a pass's time does not depend on its number
 * of rows. */
#define FIXED 0.5

const uint32_t pass_knot[PASS_KNOTS] = { 1, 8, 16, 32, 64, 96, 128, 192, 256 };

void pass_cost_see(double *mean, uint32_t *n, double x)
{
	assert(x >= 0);
	*n += *n < PASS_MEMORY;
	*mean += (x - *mean) / *n;
}

/* ---- rows ---------------------------------------------------------------- */

/*
 * Pool adjacent violators: replace the sequence by the non-decreasing sequence
 * that is nearest by least squares. Adjacent values that decrease are replaced
 * by their mean.
 */
static void straighten(double *x, uint32_t n)
{
	double sum[PASS_ROWS];
	uint32_t size[PASS_ROWS], pools = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum[pools] = x[i];
		size[pools++] = 1;
		while (pools > 1 &&
			sum[pools - 2] * size[pools - 1] >
				sum[pools - 1] * size[pools - 2]) {
			sum[pools - 2] += sum[pools - 1];
			size[pools - 2] += size[pools - 1];
			pools--;
		}
	}
	for (uint32_t p = 0; p < pools; p++)
		for (uint32_t k = 0; k < size[p]; k++)
			*x++ = sum[p] / size[p];
}

void pass_cost_set(struct pass_cost *c, const uint32_t *row, const double *time,
	uint32_t n)
{
	assert(n && n <= PASS_ROWS);
	c->n_rows = n;
	c->n_seen = 0;
	memcpy(c->row, row, n * sizeof(*row));
	memcpy(c->time, time, n * sizeof(*time));
	straighten(c->time, n);
}

static void outweigh(uint32_t *n)
{
	if (*n > PASS_BEFORE)
		*n = PASS_BEFORE;
}

void pass_cost_remembered(struct pass_cost *c)
{
	outweigh(&c->n_token);
	outweigh(&c->n_begin);
	outweigh(&c->n_other);
	for (unsigned i = 0; i < PASS_LOOKS; i++)
		outweigh(&c->n_look[i]);
}

/* Interpolate C(n), the time of a pass of n rows, linearly: compute the weights
 * of the stored times, one for each stored number of rows. Above the largest
 * stored number, C is proportional to n. */
static void shares(const struct pass_cost *c, double n, double share[PASS_ROWS])
{
	uint32_t i = 0;

	memset(share, 0, PASS_ROWS * sizeof(*share));
	while (i + 1 < c->n_rows && c->row[i] < n)
		i++;
	if (c->row[i] < n)
		share[i] = n / c->row[i];
	else if (!i)
		share[i] = 1;
	else {
		share[i] = (n - c->row[i - 1]) / (c->row[i] - c->row[i - 1]);
		share[i - 1] = 1 - share[i];
	}
}

static double weigh(const struct pass_cost *c, const double share[PASS_ROWS])
{
	double sum = 0;

	for (uint32_t i = 0; i < c->n_rows; i++)
		sum += share[i] * c->time[i];
	return sum;
}

double pass_cost_rows(const struct pass_cost *c, double n)
{
	double share[PASS_ROWS];

	if (!c->n_rows)
		return 0;
	shares(c, n, share);
	return weigh(c, share);
}

/* Assume that the share FIXED of the time does not depend on the number of
 * rows, and that the rest is proportional to the number of rows. */
void pass_cost_begin(struct pass_cost *c, double n, double time)
{
	double at[PASS_KNOTS];

	for (uint32_t i = 0; i < PASS_KNOTS; i++)
		at[i] = time * (FIXED + (1 - FIXED) * pass_knot[i] / n);
	pass_cost_set(c, pass_knot, at, PASS_KNOTS);
}

void pass_cost_saw_rows(struct pass_cost *c, uint32_t n, uint32_t kept,
	double lower, double time)
{
	double share[PASS_ROWS], upper[PASS_ROWS], expected, error, sum = 0;

	if (!c->n_rows) {
		pass_cost_begin(c, lower * n + (1 - lower) * kept, time);
		return;
	}
	shares(c, n, share);
	shares(c, kept, upper);
	for (uint32_t i = 0; i < c->n_rows; i++) {
		share[i] = lower * share[i] + (1 - lower) * upper[i];
		sum += share[i] * share[i];
	}
	expected = weigh(c, share);
	c->n_seen++;
	if (c->n_seen <= WHOLE && expected > 0) {
		/* Scale by a geometric mean of the ratios of measured and
		 * expected time, because a faster or slower machine changes the
		 * times of all numbers of rows by one factor. */
		error = pow(
			fmin(time / expected, 1 + MOST), 1. / (c->n_seen + 1));
		for (uint32_t i = 0; i < c->n_rows; i++)
			c->time[i] *= error;
		return;
	}
	error = fmin(fmax(time - expected, -MOST * expected), MOST * expected);
	for (uint32_t i = 0; i < c->n_rows; i++)
		c->time[i] =
			fmax(c->time[i] + RATE * error * share[i] / sum, 0);
	straighten(c->time, c->n_rows);
}

/* ---- drafting ------------------------------------------------------------ */

void pass_cost_saw_look(struct pass_cost *c, uint32_t nodes, double time)
{
	for (unsigned i = 0; i < PASS_LOOKS; i++)
		if (nodes == 1u << i)
			pass_cost_see(&c->look[i], &c->n_look[i], time);
}

uint32_t pass_cost_look(const struct pass_cost *c, uint32_t most, double *time)
{
	unsigned at = 0, known;

	assert(most >= 1);
	while (at + 1 < PASS_LOOKS && 2u << at <= most)
		at++;
	for (known = at; known && !c->n_look[known];)
		known--;
	*time = c->look[known];
	return 1u << at;
}

/* ---- a cycle ------------------------------------------------------------- */

/* The time of a cycle without W, the time that no other term explains; the
 * terms are those of pass_cost.h. */
static double overlapped(
	const struct pass_cost *c, double gap, double rows_time)
{
	double still = gap + c->before * rows_time - c->ahead;
	double flash = c->read + (c->read > 0 ? fmax(still, 0) : 0);

	return fmax(flash, gap + rows_time);
}

double pass_cost_cycle(const struct pass_cost *c, double tokens,
	double drafting, double rows_time)
{
	return c->other +
		overlapped(c, tokens * c->token + drafting, rows_time);
}

void pass_cost_saw_cycle(
	struct pass_cost *c, double gap, double rows_time, double time)
{
	double known = overlapped(c, gap, rows_time);

	pass_cost_see(&c->other, &c->n_other,
		fmin(fmax(time - known, 0), MOST * known));
}
