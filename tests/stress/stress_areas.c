#include "tests/stress/areas.h"

const struct stress_area *const stress_areas[] = {
	&stress_va,
	&stress_coherence,
	&stress_ring,
	&stress_faults,
	&stress_flash,
	NULL,
};
