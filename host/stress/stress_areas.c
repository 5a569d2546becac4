#include "host/stress/areas.h"

const struct stress_area *const stress_areas[] = {
	&stress_ring,
	NULL,
};
