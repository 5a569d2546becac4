/*
 * Runs random schedules (tests/stress/schedule.h) and compares the results with
 * those of a simple model: the program `tandem-stress`. An area is one subject
 * of tests. An area has verbs, draws schedules of these verbs, and runs each
 * schedule on the real code and on a model that shares no code with it. The
 * engine runs many schedules in a separate process (tests/stress/confined.h),
 * so that a crash or a hang is reported like any other failure. The engine
 * minimizes the first schedule that fails (tests/stress/shrink.h) and reports
 * the result.
 *
 * A schedule stays valid if steps are removed or numbers change within their
 * ranges; the model gives the expected results of every valid schedule.
 *
 * If a schedule cannot run (no memory, no device program), this is a failure of
 * the machine, not of the schedule. The engine never prints. Only one thread
 * may use the engine; the processes that stress() starts have ended when
 * stress() returns.
 */
#ifndef TESTS_STRESS_STRESS_H
#define TESTS_STRESS_STRESS_H

#include "base/err.h"
#include "tests/stress/schedule.h"

#include <limits.h>
#include <signal.h>

#define STRESS_TALLIES 12
/*
 * Limits of minimizing: the number of schedules to try, and the seconds after
 * which no further schedule is tried. If the failing schedule hangs,
 * STRESS_SHRINK_HUNG_SECONDS replaces STRESS_SHRINK_SECONDS.
 */
#define STRESS_SHRINK_TRIES        2000
#define STRESS_SHRINK_SECONDS      60
#define STRESS_SHRINK_HUNG_SECONDS 240

/* A result of stress_area.run: the schedule failed. */
#define STRESS_BROKEN 1

struct stress_run {
	void *world; /* the files and data that stress_area.prepare created */
	/* Insert a bug, which the area chooses, to check that the test finds
	 * the bug. */
	bool plant;
	uint64_t *tally; /* counts of events, named by the area */
	struct err *e;
};

/* Set the message that describes how the results differ from the model's.
 * Returns STRESS_BROKEN. */
int stress_broken(struct stress_run *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

struct stress_area {
	struct stress_verbs verbs;
	const char *const *tally; /* names of the counts, then NULL */
	unsigned seconds;         /* time limit of a schedule */
	/* Called once, in the main process: create the files that all runs use,
	 * in an empty folder. NULL if the area needs no files. */
	int (*prepare)(void **world, const char *folder, struct err *);
	void (*discard)(void *world);
	void (*draw)(struct stress_draw *, struct stress_schedule *);
	/* Run a schedule; called in a separate process. Returns 0 on success,
	 * STRESS_BROKEN, or a negative errno for a failure of the machine. */
	int (*run)(struct stress_run *, const struct stress_schedule *);
};

/* All areas, then NULL. */
extern const struct stress_area *const stress_areas[];
const struct stress_area *stress_area_named(const char *name);

struct stress_result {
	uint64_t runs;
	double seconds;
	uint64_t tally[STRESS_TALLIES];
	bool stopped; /* ended by the caller or by a failure of the machine */
	bool broken;
	/* The members below are set for a failing schedule. */
	uint64_t run;    /* number of the schedule */
	struct err what; /* message of the minimized schedule */
	uint32_t steps;  /* number of steps before minimizing */
	bool again;      /* the schedule failed again when it was run alone */
	bool smallest;   /* the schedule is minimal */
	struct stress_schedule schedule;
};

struct stress_opts {
	uint64_t seed;
	/* number of schedules; 0 means until the time is over */
	uint64_t runs;
	double seconds; /* time limit; 0 means until all runs are done */
	bool plant;
	/* run only this schedule; NULL means random schedules */
	const struct stress_schedule *replay;
	const volatile sig_atomic_t *cancel;
	/* Called a few times a second. */
	void (*report)(void *arg, const struct stress_area *,
		const struct stress_result *);
	void *arg;
};

/* Run schedules of an area. Returns 0, also if a schedule fails, or a negative
 * errno if the schedules could not run. */
int stress(const struct stress_area *, const struct stress_opts *,
	struct stress_result *, struct err *);

#endif
