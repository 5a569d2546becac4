/*
 * Random schedules (tests/stress/schedule.h) against a simple model of what
 * must hold: `tandem-stress`. An area has verbs, draws schedules of them, and
 * runs one against the real thing, with a model that shares no code with it.
 * The engine runs many in a process of its own (tests/stress/confined.h), so
 * that a crash or a hang is a finding like any other, makes the first that
 * fails small (tests/stress/shrink.h), and says what is left of it.
 *
 * Whatever steps are left out of a schedule, and whatever numbers it has within
 * their ranges, it means something, and the model knows what must hold of it.
 *
 * Refuses to judge what the machine cannot do: no memory, no device program.
 * Never prints. One thread; the processes that it starts are gone when it
 * returns.
 */
#ifndef TESTS_STRESS_STRESS_H
#define TESTS_STRESS_STRESS_H

#include "base/err.h"
#include "tests/stress/schedule.h"

#include <limits.h>
#include <signal.h>

#define STRESS_TALLIES 12
/* What failed is made small by so many tries at most, begun within so many
 * seconds; more where each that still fails hangs. */
#define STRESS_SHRINK_TRIES        2000
#define STRESS_SHRINK_SECONDS      60
#define STRESS_SHRINK_HUNG_SECONDS 240

/* What stress_area.run finds, besides 0 and the codes of what the machine could
 * not do. */
#define STRESS_BROKEN 1

struct stress_run {
	void *world; /* of stress_area.prepare */
	/* Something is to be wrong: of the area's own choosing, to see that it
	 * is found. */
	bool plant;
	uint64_t *tally; /* of what happened, by the area's words for it */
	struct err *e;
};

/* Say what does not hold; returns STRESS_BROKEN. */
int stress_broken(struct stress_run *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

struct stress_area {
	struct stress_verbs verbs;
	const char *const *tally; /* NULL at the end */
	unsigned seconds;         /* that one schedule may take */
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
	bool stopped; /* by the caller, or by what the machine could not do */
	bool broken;
	/* Of what is broken: */
	uint64_t run;    /* which */
	struct err what; /* of the small one */
	uint32_t steps;  /* it had before */
	bool again;      /* the same schedule, alone, failed again */
	bool smallest;   /* nothing more goes */
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

/* 0, also of what was found broken; -errno where it could not be run. */
int stress(const struct stress_area *, const struct stress_opts *,
	struct stress_result *, struct err *);

#endif
