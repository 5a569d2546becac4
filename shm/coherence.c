#include "shm/coherence.h"

#include <stddef.h>

const char *const coherence_names[] = {
	[COHERENCE_OFF] = "off",
	[COHERENCE_STRICT] = "strict",
	[COHERENCE_CHECK] = "check",
	[COHERENCE_COUNT] = NULL,
};
