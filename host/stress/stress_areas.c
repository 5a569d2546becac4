#include "host/stress/areas.h"

const struct stress_area *const stress_areas[] = {
	&stress_coherence,
	&stress_flash,
	&stress_ring,
	NULL,
};
