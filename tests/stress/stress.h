/*
 * Random schedules (tests/stress/schedule.h) compared with a simple model:
 * `tandem-stress`. An area has verbs, draws schedules of them, and runs each on
 * the real code and on a model that shares no code with it. The engine runs
 * many schedules in a separate process (tests/stress/confined.h), so that a
 * crash or a hang is a finding like any other, minimizes the first failing one
 * (tests/stress/shrink.h), and reports the result.
 *
 * A schedule with any steps removed, and with any numbers in their ranges, is
 * valid, and the model has its expected results.
 *
 * Failures of the machine (no memory, no device program) are not findings.
 * Never prints. One thread; the processes that it starts have ended when it
 * returns.
 */
#ifndef TESTS_STRESS_STRESS_H
#define TESTS_STRESS_STRESS_H

#include "base/err.h"
#include "tests/stress/schedule.h"

#include <limits.h>
#include <signal.h>

#define STRESS_TALLIES 12
/* Limits of minimizing: tries, and seconds within which tries begin; more
 * seconds if the failing ones hang. */
#define STRESS_SHRINK_TRIES        2000
#define STRESS_SHRINK_SECONDS      60
#define STRESS_SHRINK_HUNG_SECONDS 240

/* Result of stress_area.run besides 0 and codes of failures of the machine. */
#define STRESS_BROKEN 1

struct stress_run {
	void *world; /* of stress_area.prepare */
	/* Plant a bug of the area's choice, to check that it
	 * is found. */
	bool plant;
	uint64_t *tally; /* counts of events, named by the area */
	struct err *e;
};

/* Report a difference; returns STRESS_BROKEN. */
int stress_broken(struct stress_run *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

struct stress_area {
	struct stress_verbs verbs;
	const char *const *tally; /* NULL at the end */
	unsigned seconds;         /* time limit of a schedule */
	/* In the process of the command, once: files that all runs use, in an
	 * empty folder. NULL: nothing. */
	int (*prepare)(void **world, const char *folder, struct err *);
	void (*discard)(void *world);
	void (*draw)(struct stress_draw *, struct stress_schedule *);
	/* 0: all held; STRESS_BROKEN; -errno. In a process of its own. */
	int (*run)(struct stress_run *, const struct stress_schedule *);
};

/* All of them, NULL at the end. */
extern const struct stress_area *const stress_areas[];
const struct stress_area *stress_area_named(const char *name);

struct stress_result {
	uint64_t runs;
	double seconds;
	uint64_t tally[STRESS_TALLIES];
	bool stopped; /* by the caller, or by a failure of the machine */
	bool broken;
	/* For a failing schedule: */
	uint64_t run;    /* which */
	struct err what; /* of the small one */
	uint32_t steps;  /* it had before */
	bool again;      /* the same schedule failed again by itself */
	bool smallest;   /* it is minimal */
	struct stress_schedule schedule;
};

struct stress_opts {
	uint64_t seed;
	uint64_t runs;  /* 0: until the time is over */
	double seconds; /* 0: until the runs are through */
	bool plant;
	const struct stress_schedule *replay; /* this one alone; NULL: drawn */
	const volatile sig_atomic_t *cancel;
	/* A few times a second. */
	void (*tell)(void *arg, const struct stress_area *,
		const struct stress_result *);
	void *arg;
};

/* 0, also with a failing schedule; -errno if it could not run. */
int stress(const struct stress_area *, const struct stress_opts *,
	struct stress_result *, struct err *);

#endif
