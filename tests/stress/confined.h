/*
 * Runs schedules in a separate process. The process has its own process group
 * and a time limit for each schedule. If the process crashes, hangs or is
 * killed, the current schedule has failed. The process is killed when its
 * parent ends. The process communicates with the parent only through shared
 * memory.
 */
#ifndef TESTS_STRESS_CONFINED_H
#define TESTS_STRESS_CONFINED_H

#include "tests/stress/stress.h"

struct stress_batch {
	const struct stress_area *area;
	void *world;
	bool plant;
	/* Run the schedules of `seed` from number `first` on, until the clock
	 * reaches `until_ns` or `count` schedules have run. */
	uint64_t seed, first, count, until_ns;
	/* if not NULL, run only this schedule, once */
	const struct stress_schedule *given;
	/* time limit of a schedule; 0 means the time limit of the area */
	unsigned seconds;
	const volatile sig_atomic_t *cancel;
};

struct stress_outcome {
	uint64_t runs; /* schedules that ended, including the one that failed */
	uint64_t tally[STRESS_TALLIES];
	int ret; /* result of stress_area.run, or -ECANCELED */
	bool hung;
	struct err e;
};

/* Run a batch. Returns 0 with *out, or a negative errno if the process cannot
 * be started. */
int stress_confined(
	const struct stress_batch *, struct stress_outcome *out, struct err *);

#endif
