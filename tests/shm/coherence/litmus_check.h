/*
 * Checks a litmus test (a short program for CPU, device and DMA,
 * tests/litmus/litmus.h). It finds the test's outcomes with the model, runs the
 * test on the emulator (litmus_emulator.h) on random and on given paths, and
 * compares the results. A struct litmus_tally has the sums over many tests.
 */
#ifndef TESTS_SHM_COHERENCE_LITMUS_CHECK_H
#define TESTS_SHM_COHERENCE_LITMUS_CHECK_H

#include "tests/shm/coherence/litmus_emulator.h"

struct litmus_tally {
	uint64_t tests, states, runs;
	uint64_t outcomes;  /* allowed outcomes */
	uint64_t by_chance; /* allowed outcomes that random runs reached */
	uint64_t
		right; /* tests that break no rule that the device can detect */
	uint64_t reported; /* tests with a report of the checker */
	/* tests that break a rule, but in which no old value can appear */
	uint64_t harmless;
	/* tests in which only the CPU breaks a rule, which is not reported */
	uint64_t unseen;
};

/*
 * Check that
 * - the outcomes that the test states are those of the model (if `stated`);
 * - no old value is read, or is in memory at the end, if no rule is broken;
 * - in random runs, with `seeds` seeds for each level, all values equal those
 *   of the model; with level off, those of memory without a cache;
 * - each allowed outcome occurs, and no other outcome;
 * - the checker reports exactly the rules that the device breaks in a run.
 * Returns 0, or a negative errno with a message that has the difference.
 */
int litmus_check(const struct litmus *, bool stated, unsigned seeds,
	struct litmus_tally *, struct err *);

void litmus_report(const struct litmus_tally *, char *text, size_t size);

#endif
