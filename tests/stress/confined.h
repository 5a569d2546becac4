/*
 * Runs schedules in a separate process. It is a process group and has a time
 * limit for each schedule: a crash, a hang or a kill is reported as a finding,
 * with the current schedule. It ends with the process that started it, and
 * communicates only through shared memory.
 */
#ifndef TESTS_STRESS_CONFINED_H
#define TESTS_STRESS_CONFINED_H

#include "tests/stress/stress.h"

struct stress_batch {
	const struct stress_area *area;
	void *world;
	bool plant;
	/* Schedules of this seed, `first` and later ones, until
	 * `until_ns` of the clock is over or there were `count`. */
	uint64_t seed, first, count, until_ns;
	const struct stress_schedule *given; /* not NULL: this one, once */
	unsigned seconds; /* limit of a schedule; 0: the area's */
	const volatile sig_atomic_t *cancel;
};

struct stress_outcome {
	uint64_t runs; /* that were ended, the one that failed among them */
	uint64_t tally[STRESS_TALLIES];
	int ret; /* as of stress_area.run; -ECANCELED */
	bool hung;
	struct err e;
};

/* 0 and *out, or -errno if the process cannot be started. */
int stress_confined(
	const struct stress_batch *, struct stress_outcome *out, struct err *);

#endif
