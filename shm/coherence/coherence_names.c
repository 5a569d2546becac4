/* A separate file, so that a host that only parses the name of a level ("off",
 * "strict", "check") does not link the cache. */
#include "shm/coherence/tandem_coherence.h"

const char *const coherence_names[] = {
	[COHERENCE_OFF] = "off",
	[COHERENCE_STRICT] = "strict",
	[COHERENCE_CHECK] = "check",
	[COHERENCE_COUNT] = NULL,
};
