/*
 * Litmus tests on libtandem-coherence: one run is one interleaving of the
 * agents' steps with what the cache and DMA may do at any time. After each move
 * every word of memory, and every value read, is compared with the model's.
 *
 * What happens without a step is done by the room's own functions for one line
 * or transfer: line_evict writes a line back, dma_move moves a transfer's
 * bytes. An early fill is a read whose bytes are not used. The library never
 * drops a clean line, so the emulator changes the line's state.
 *
 * One thread for each emulator; the caller owns the test and the path.
 */
#ifndef TESTS_SHM_COHERENCE_LITMUS_EMULATOR_H
#define TESTS_SHM_COHERENCE_LITMUS_EMULATOR_H

#include "shm/coherence/tandem_coherence.h"
#include "tests/litmus/litmus.h"

struct err;

struct litmus_run {
	enum coherence level;
	uint64_t seed;       /* of random moves, if there is no path */
	const uint8_t *path; /* NULL: at random */
	unsigned moves;      /* of the path */
	/* Out: */
	struct litmus_outcome outcome;
	unsigned broken;   /* enum litmus_breach, by the model */
	unsigned reported; /* enum litmus_breach, by the checker */
	char report[320]; /* its first report other than needless maintenance */
};

/* 0; -EILSEQ and the difference from the model. */
int litmus_emulate(const struct litmus *, struct litmus_run *, struct err *);

#endif
