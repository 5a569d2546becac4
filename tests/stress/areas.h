/*
 * What there is to be tried, a file each: what it draws, what it runs, and the
 * model of what must hold. docs/stress.md tells them.
 */
#ifndef TESTS_STRESS_AREAS_H
#define TESTS_STRESS_AREAS_H

#include "tests/stress/stress.h"

extern const struct stress_area stress_coherence, stress_faults, stress_flash,
	stress_ring, stress_va;

#endif
