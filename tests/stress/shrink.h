/*
 * Minimizes a failing schedule: removes steps and reduces numbers while it
 * still fails (delta debugging: Zeller and Hildebrandt, "Simplifying and
 * isolating failure-inducing input", TSE 2002). Steps are removed in ever
 * smaller groups; then each number is set to its minimum, or half-way there, or
 * reduced by one; all this is repeated until nothing can be removed.
 *
 * The caller's function decides whether a schedule fails; every subset of steps
 * must be a valid schedule. Owns nothing; one thread.
 */
#ifndef TESTS_STRESS_SHRINK_H
#define TESTS_STRESS_SHRINK_H

#include "tests/stress/schedule.h"

struct stress_shrink {
	bool (*fails)(void *arg, const struct stress_schedule *);
	void *arg;
	unsigned tries; /* that are left; at 0 the smallest so far stays */
};

/* *s fails and is replaced by a smaller failing one. True if it is minimal,
 * false if the tries were used up. */
bool stress_make_small(struct stress_schedule *s, const struct stress_verbs *,
	struct stress_shrink *);

#endif
