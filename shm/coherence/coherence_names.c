/* Apart from the cache, so that a host that parses a level does not link it. */
#include "shm/coherence/tandem_coherence.h"

const char *const coherence_names[] = {
	[COHERENCE_OFF] = "off",
	[COHERENCE_STRICT] = "strict",
	[COHERENCE_CHECK] = "check",
	[COHERENCE_COUNT] = NULL,
};
