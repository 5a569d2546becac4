/*
 * Runs litmus tests on libtandem-coherence. A run is one interleaving of the
 * agents' steps with events of the cache and of DMA, which may happen at any
 * time (enum litmus_nature). After each move, all words of memory and all
 * values that were read are compared with those of the model
 * (tests/litmus/litmus.h).
 *
 * Internal functions of the library cause the events: line_evict writes a line
 * back, and dma_move moves the bytes of a transfer. To fill a line, the
 * emulator reads bytes that no test accesses. The library never drops a clean
 * line, so the emulator changes the line's state.
 *
 * Only one thread may use an emulator. The caller owns the test and the path.
 */
#ifndef TESTS_SHM_COHERENCE_LITMUS_EMULATOR_H
#define TESTS_SHM_COHERENCE_LITMUS_EMULATOR_H

#include "shm/coherence/tandem_coherence.h"
#include "tests/litmus/litmus.h"

struct err;

struct litmus_run {
	enum coherence level;
	uint64_t seed;       /* for random moves, if `path` is NULL */
	const uint8_t *path; /* the moves; NULL: random moves */
	unsigned moves;      /* number of moves of the path */
	/* The results: */
	struct litmus_outcome outcome;
	unsigned broken;   /* enum litmus_breach, by the model */
	unsigned reported; /* enum litmus_breach, by the checker */
	/* the checker's first report, except about needless maintenance */
	char report[320];
};

/* Returns 0, -EILSEQ with a message that has the difference from the model, or
 * another negative errno. */
int litmus_emulate(const struct litmus *, struct litmus_run *, struct err *);

#endif
