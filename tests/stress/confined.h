/*
 * Schedules in a process of its own. It is a process group, and has a bound of
 * time for each schedule: what crashes, hangs or is killed there is told as a
 * finding, with the schedule that was at work. It ends with the process that
 * started it, and sends nothing but what lies in the memory that the two share.
 */
#ifndef TESTS_STRESS_CONFINED_H
#define TESTS_STRESS_CONFINED_H

#include "tests/stress/stress.h"

struct stress_batch {
	const struct stress_area *area;
	void *world;
	bool plant;
	/* Schedules of this seed, `first` and those behind it, until
	 * `until_ns` of the clock is over or there were `count`. */
	uint64_t seed, first, count, until_ns;
	const struct stress_schedule *given; /* not NULL: this one, once */
	unsigned seconds; /* that a schedule may take; 0: as the area says */
	const volatile sig_atomic_t *cancel;
};

struct stress_outcome {
	uint64_t runs; /* that were ended, the one that failed among them */
	uint64_t tally[STRESS_TALLIES];
	int ret; /* as of stress_area.run; -ECANCELED */
	bool hung;
	struct err e;
};

/* 0 and *out, or -errno where there could be no such process. */
int stress_confined(
	const struct stress_batch *, struct stress_outcome *out, struct err *);

#endif
