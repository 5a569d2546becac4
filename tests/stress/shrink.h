/*
 * Minimizes a failing schedule: removes steps and reduces numbers as long as
 * the schedule still fails (delta debugging: Zeller and Hildebrandt,
 * "Simplifying and isolating failure-inducing input", TSE 2002). Steps are
 * removed in smaller and smaller groups. Afterwards each number is set to its
 * minimum. If the schedule then does not fail, the number is instead moved
 * half-way to its minimum, and then reduced by one, as often as the schedule
 * still fails. Removing steps and reducing numbers are repeated until neither
 * is possible.
 *
 * The caller's function decides whether a schedule fails; every subset of the
 * steps must be a valid schedule. Only one thread may call the function.
 */
#ifndef TESTS_STRESS_SHRINK_H
#define TESTS_STRESS_SHRINK_H

#include "tests/stress/schedule.h"

struct stress_shrink {
	bool (*fails)(void *arg, const struct stress_schedule *);
	void *arg;
	unsigned tries; /* number of schedules that may still be tried */
};

/* Replace the failing schedule *s by the smallest failing one that is found.
 * Returns true if the result is minimal, and false if all `tries` were used
 * before. */
bool stress_make_small(struct stress_schedule *s, const struct stress_verbs *,
	struct stress_shrink *);

#endif
