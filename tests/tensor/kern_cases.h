/* Shared by the tests of kernels: the list of the implementations that this CPU
 * can run, and random inputs. */
#ifndef TESTS_TENSOR_KERN_CASES_H
#define TESTS_TENSOR_KERN_CASES_H

#include "base/rng.h"
#include "tensor/kern.h"
#include "tests/harness.h"

#include <stdlib.h>

static const struct kern *ref, *vecs[8];
static size_t n_vecs;
static uint64_t seed;

static inline int setup(void **state)
{
	ref = kern_find("ref");
	n_vecs = 0;
	for (const char *const *n = kern_names(); *n; n++) {
		const struct kern *k = kern_find(*n);

		if (k && k != ref)
			vecs[n_vecs++] = k;
	}
	seed = harness_seed();
	return 0;
}

/* Returns n random values in [-1, 1), in memory from malloc. */
static inline float *floats(uint64_t stream, size_t n)
{
	float *x = malloc((n + !n) * sizeof(*x));

	for (size_t i = 0; i < n; i++)
		x[i] = (float)(2 * rng_uniform(seed, stream, i) - 1);
	return x;
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

#endif
