/*
 * Learns whether loops are faster if the other threads of a pool are woken
 * (workers.h). How long a thread takes to wake depends on the machine, and
 * waking another thread slows the loops down if no CPU is free for it. So both
 * ways are measured, for each series of loops before which the threads slept:
 * the first series use the two ways in turn; later series use the faster way,
 * except for every AGAIN-th one, which measures the other way again. If the
 * other way is slower by half or more, it is measured an eighth as often.
 * Series whose first burst (workers_burst) has about the same work count
 * together.
 *
 * Inline and without state of its own, so that tests can give the times.
 */
#ifndef BASE_WAKE_GAIN_H
#define BASE_WAKE_GAIN_H

#include <stdbool.h>
#include <stdint.h>

#define WAKE_GAIN_FIRST 24 /* first series, which use both ways in turn */
#define WAKE_GAIN_AGAIN 32
/* class i: first bursts with 2^i to 2^(i+1) - 1 multiply-adds */
#define WAKE_GAIN_CLASSES 64

struct wake_gain {
	struct {
		uint32_t series;
		/* ns for each unit of work, [1] if the threads are woken; 0:
		 * not measured yet */
		double cost[2];
	} of[WAKE_GAIN_CLASSES];
	/* the series in progress */
	unsigned class;
	bool wakes;
};

/* Begin a series whose first burst has `work` > 0. Returns whether to wake the
 * other threads. */
static inline bool wake_gain_begin(struct wake_gain *g, uint64_t work)
{
	unsigned class = 63 - (unsigned)__builtin_clzll(work);
	uint32_t n = g->of[class].series++;
	const double *cost = g->of[class].cost;
	bool clear = cost[0] > 1.5 * cost[1] || cost[1] > 1.5 * cost[0];
	uint32_t again = clear ? 8 * WAKE_GAIN_AGAIN : WAKE_GAIN_AGAIN;
	bool other = n % again == again - 1;

	g->class = class;
	g->wakes =
		n < WAKE_GAIN_FIRST ? !(n % 2) : (cost[1] <= cost[0]) != other;
	return g->wakes;
}

/* End the series: its bursts had `work` in total and took `ns`. A single long
 * time, as after a preemption, counts as at most twice the mean, and a mean of
 * more than twice the time is given up. */
static inline void wake_gain_end(
	struct wake_gain *g, uint64_t work, uint64_t ns)
{
	double *cost = &g->of[g->class].cost[g->wakes];
	double now = (double)ns / (double)work;

	if (*cost <= 0 || *cost > 2 * now)
		*cost = now;
	if (now > 2 * *cost)
		now = 2 * *cost;
	*cost += (now - *cost) / 8;
}

#endif
