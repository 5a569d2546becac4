/*
 * A failing schedule made small: as many of its steps left out and its numbers
 * made as little as can be while it still fails (Zeller and Hildebrandt,
 * "Simplifying and isolating failure-inducing input", TSE 2002). Steps go in
 * ever smaller pieces; then each number goes to its least value, or half-way
 * there, or down by one; and again from the beginning, until nothing more goes.
 *
 * Who asks says what a failure is, and sees to it that a schedule means
 * something whatever was left out of it. Owns nothing; one thread.
 */
#ifndef TESTS_STRESS_SHRINK_H
#define TESTS_STRESS_SHRINK_H

#include "tests/stress/schedule.h"

struct stress_shrink {
	bool (*fails)(void *arg, const struct stress_schedule *);
	void *arg;
	unsigned tries; /* that are left; at 0 the smallest so far stays */
};

/* *s fails; a smaller one that does takes its place. Returns whether it cannot
 * be made smaller, rather than that the tries were used up. */
bool stress_make_small(struct stress_schedule *s, const struct stress_verbs *,
	struct stress_shrink *);

#endif
