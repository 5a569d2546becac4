/*
 * Litmus tests on the real device/cache.c: one run is one interleaving of the
 * agents' moves with spontaneous moves of the cache (write-backs, fills,
 * drops). After each move every word of memory and every value read is compared
 * with the model's.
 *
 * The spontaneous moves use the cache's own functions. Its seeded evictor
 * chooses and writes back lines (the model follows); an early fill is a view
 * whose bytes are not used; dropping a line, which the evictor never does, is
 * an extra invalidation (level strict only, because the checker would count it
 * as the device's own). With `hand` a write-back is a clean of just that line
 * (likewise level strict only).
 *
 * One thread for each emulator; the caller owns the test and the path.
 */
#ifndef TESTS_DEVICE_LITMUS_EMULATOR_H
#define TESTS_DEVICE_LITMUS_EMULATOR_H

#include "device/window.h"
#include "shm/coherence/tandem_coherence.h"
#include "tests/litmus/litmus.h"

struct litmus_emulator {
	struct window window;
	struct mapping *mapping;
	uint8_t *cpu; /* the CPU's own mapping */
};

struct litmus_run {
	enum coherence level;
	uint64_t seed;       /* of random moves, if there is no path */
	uint64_t evict_seed; /* 0: no evictor */
	bool hand;
	const uint8_t *path; /* NULL: at random */
	unsigned moves;      /* of the path */
	/* Out: */
	struct litmus_outcome outcome;
	unsigned broken;   /* enum litmus_breach, by the model */
	bool strayed;      /* the evictor chose lines that the path does not */
	unsigned reported; /* enum litmus_breach, by the checker */
	char report[320]; /* its first report other than needless maintenance */
};

int litmus_emulator_open(struct litmus_emulator *, struct err *);
void litmus_emulator_close(struct litmus_emulator *);

/* 0; -EILSEQ and the difference from the model. */
int litmus_emulate(struct litmus_emulator *, const struct litmus *,
	struct litmus_run *, struct err *);

#endif
