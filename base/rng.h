/*
 * Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011). A number is a pure function of (seed,
 * stream, position). `stream` separates different uses of one seed, such as
 * several samples of a text; `position` counts within a stream, for example the
 * tokens of a text. So any process can repeat the sampling of any token, in any
 * order. A test can therefore check speculative sampling token by token.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

void rng_philox(
	const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Get four random words for one (seed, stream, position). */
void rng_words(
	uint64_t seed, uint64_t stream, uint64_t position, uint32_t out[4]);

/* A uniform random number in [0, 1) with 53 bits. */
double rng_uniform(uint64_t seed, uint64_t stream, uint64_t position);

#endif
