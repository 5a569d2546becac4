/*
 * The areas of stress tests. Each area is in a separate file, with its random
 * schedules, their execution, and the model of the expected results.
 * docs/stress.md describes the areas.
 */
#ifndef TESTS_STRESS_AREAS_H
#define TESTS_STRESS_AREAS_H

#include "tests/stress/stress.h"

extern const struct stress_area stress_coherence, stress_faults, stress_flash,
	stress_ring, stress_va;

#endif
