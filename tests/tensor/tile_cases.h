/* Shared by the tests of tiles: random inputs, and tile_reader.h, which reads
 * tiles. */
#ifndef TESTS_TENSOR_TILE_CASES_H
#define TESTS_TENSOR_TILE_CASES_H

#include "base/rng.h"
#include "tests/harness.h"
#include "tests/tensor/tile_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed;

static inline int setup(void **state)
{
	seed = harness_seed();
	return 0;
}

static inline double gauss(uint64_t stream, uint64_t i)
{
	const double u = rng_uniform(seed, stream, 2 * i);
	const double v = rng_uniform(seed, stream, 2 * i + 1);

	return sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

/* n random values with a normal distribution, from malloc. */
static inline float *gaussians(uint64_t stream, size_t n)
{
	float *x = malloc(n * sizeof(*x));

	for (size_t i = 0; i < n; i++)
		x[i] = (float)gauss(stream, i);
	return x;
}

static inline void *random_bytes(uint64_t stream, size_t bytes)
{
	uint8_t *p = malloc(bytes);

	for (size_t i = 0; i < bytes; i += 16) {
		uint32_t words[4];

		rng_words(seed, stream, i, words);
		memcpy(p + i, words, bytes - i < 16 ? bytes - i : 16);
	}
	return p;
}

#endif
