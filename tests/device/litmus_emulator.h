/*
 * Litmus tests on the real device/cache.c: one run is one way of its agents
 * and of nature through the test, and after each move every word of memory and
 * every value read is held against the model's.
 *
 * Nature's part is played by what the cache offers. Lines are written back by
 * its seeded evictor, which chooses which (the model follows); an early fill is
 * a view that nobody looks into; that a line is dropped, which the evictor
 * never does, is an invalidation that nobody ordered (level strict only, since
 * the checker would take it for the device's own). By `hand`, a write-back is a
 * clean of just that line (likewise).
 *
 * One thread an emulator; the test and the path stay the caller's.
 */
#ifndef TESTS_DEVICE_LITMUS_EMULATOR_H
#define TESTS_DEVICE_LITMUS_EMULATOR_H

#include "device/window.h"
#include "shm/coherence.h"
#include "tests/litmus/litmus.h"

struct litmus_emulator {
	struct window window;
	struct mapping *mapping;
	uint8_t *cpu; /* the CPU's own mapping */
};

struct litmus_run {
	enum coherence level;
	uint64_t seed;       /* of the way, where there is no path */
	uint64_t evict_seed; /* 0: no evictor */
	bool hand;
	const uint8_t *path; /* NULL: at random */
	unsigned moves;      /* of the path */
	/* Out: */
	struct litmus_outcome outcome;
	unsigned broken;   /* enum litmus_breach, by the model */
	bool strayed;      /* the evictor chose other lines than the path */
	unsigned reported; /* enum litmus_breach, by the checker */
	char report[320];  /* its first, needless maintenance aside */
};

int litmus_emulator_open(struct litmus_emulator *, struct err *);
void litmus_emulator_close(struct litmus_emulator *);

/* 0; -EILSEQ and what differs from the model. */
int litmus_emulate(struct litmus_emulator *, const struct litmus *,
	struct litmus_run *, struct err *);

#endif
