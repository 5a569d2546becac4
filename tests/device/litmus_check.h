/*
 * A litmus test, done: explored by the model and run on the emulator, both
 * ways that there are, and everything that must hold of the two held. What
 * came of many tests is added up.
 */
#ifndef TESTS_DEVICE_LITMUS_CHECK_H
#define TESTS_DEVICE_LITMUS_CHECK_H

#include "tests/device/litmus_emulator.h"

struct litmus_tally {
	uint64_t tests, states, runs;
	uint64_t outcomes;  /* that are allowed */
	uint64_t by_chance; /* of these, seen without a path to them */
	uint64_t right;     /* tests that break no rule that a device sees */
	uint64_t reported;  /* tests that the checker named */
	uint64_t harmless;  /* reported, though nothing old is ever seen */
	uint64_t unseen;    /* only the CPU breaks a rule: nobody reports */
};

/*
 * Holds:
 * - the test states what the model finds, if it states anything (`stated`);
 * - nothing goes wrong without a rule broken;
 * - in all runs, at `seeds` seeds a level, every value is the model's; with
 *   level off, that of memory without a cache;
 * - each allowed outcome is seen, and no other;
 * - the checker reports in each run just the rules that it breaks.
 * 0; or a negative errno and the difference.
 */
int litmus_check(struct litmus_emulator *, const struct litmus *, bool stated,
	unsigned seeds, struct litmus_tally *, struct err *);

void litmus_report(const struct litmus_tally *, char *text, size_t size);

#endif
