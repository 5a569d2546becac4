/*
 * Learns whether bursts of loops are faster if the other threads of a pool are
 * woken (workers.h). How long a thread takes to wake depends on the machine,
 * and waking another thread slows the burst down if no CPU is free for it. So
 * both ways are measured, for bursts of about the same work together: the first
 * groups of GROUP bursts use the two ways in turn; later groups use the faster
 * way, except for every AGAIN-th group, which measures the other way again. If
 * the other way is slower by half or more, it is measured an eighth as often.
 *
 * Inline and without state of its own, so that tests can give the times.
 */
#ifndef BASE_WAKE_GAIN_H
#define BASE_WAKE_GAIN_H

#include <stdbool.h>
#include <stdint.h>

#define WAKE_GAIN_GROUP 4
#define WAKE_GAIN_FIRST 6 /* first groups, which use both ways in turn */
#define WAKE_GAIN_AGAIN 32
/* class i: bursts with 2^i to 2^(i+1) - 1 multiply-adds */
#define WAKE_GAIN_CLASSES 64

struct wake_gain {
	struct {
		uint32_t bursts;
		/* ns for each unit of work, [1] if the threads are woken; 0:
		 * not measured yet */
		double cost[2];
	} of[WAKE_GAIN_CLASSES];
	/* the burst in progress */
	unsigned class;
	bool wakes, counts;
};

/* Begin a burst with `work` > 0. Returns whether to wake the other threads. */
static inline bool wake_gain_begin(struct wake_gain *g, uint64_t work)
{
	unsigned class = 63 - (unsigned)__builtin_clzll(work);
	uint32_t n = g->of[class].bursts++, group = n / WAKE_GAIN_GROUP;
	const double *cost = g->of[class].cost;
	bool clear = cost[0] > 1.5 * cost[1] || cost[1] > 1.5 * cost[0];
	uint32_t again = clear ? 8 * WAKE_GAIN_AGAIN : WAKE_GAIN_AGAIN;
	bool other = group % again == again - 1;

	g->class = class;
	/* The first burst of a group does not count: whether the threads are
	 * awake depends on the group before. */
	g->counts = n % WAKE_GAIN_GROUP;
	g->wakes = group < WAKE_GAIN_FIRST ? !(group % 2)
					   : (cost[1] <= cost[0]) != other;
	return g->wakes;
}

/* End the burst, which took `ns`. A single long time, as after a preemption,
 * counts as at most twice the mean, and a mean of more than twice the time is
 * given up. */
static inline void wake_gain_end(
	struct wake_gain *g, uint64_t work, uint64_t ns)
{
	double *cost = &g->of[g->class].cost[g->wakes];
	double now = (double)ns / (double)work;

	if (!g->counts)
		return;
	if (*cost <= 0 || *cost > 2 * now)
		*cost = now;
	if (now > 2 * *cost)
		now = 2 * *cost;
	*cost += (now - *cost) / 8;
}

#endif
