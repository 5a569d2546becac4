/*
 * Checks a litmus test: explores it with the model, runs it on the emulator in
 * both ways, and compares the two. The counts of many tests are added up in a
 * struct litmus_tally.
 */
#ifndef TESTS_SHM_COHERENCE_LITMUS_CHECK_H
#define TESTS_SHM_COHERENCE_LITMUS_CHECK_H

#include "tests/shm/coherence/litmus_emulator.h"

struct litmus_tally {
	uint64_t tests, states, runs;
	uint64_t outcomes;  /* that are allowed */
	uint64_t by_chance; /* of these, reached by random runs */
	uint64_t
		right; /* tests that break no rule that the device can detect */
	uint64_t reported; /* tests with a report of the checker */
	uint64_t harmless; /* reported, though no old value is ever read */
	uint64_t unseen;   /* only the CPU breaks a rule: not reported */
};

/*
 * Holds:
 * - the test's stated outcomes, if any (`stated`), are those of the model;
 * - no wrong value is read unless a rule is broken;
 * - in all runs, at `seeds` seeds a level, every value is the model's; with
 *   level off, that of memory without a cache;
 * - each allowed outcome occurs, and no other;
 * - the checker reports exactly the rules that each run breaks.
 * 0; or a negative errno and the difference.
 */
int litmus_check(const struct litmus *, bool stated, unsigned seeds,
	struct litmus_tally *, struct err *);

void litmus_report(const struct litmus_tally *, char *text, size_t size);

#endif
