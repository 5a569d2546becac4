/*
 * Detection of failed allocations in Jansson, which omits a member silently if
 * memory is short. A server continues after that, so each thread has a flag
 * that is set on failure; code that has built a piece of JSON must check the
 * flag before sending it.
 */
#ifndef HOST_SERVE_JSON_MEMORY_H
#define HOST_SERVE_JSON_MEMORY_H

#include <stdbool.h>

/* Call before the server's first JSON, while no other thread uses Jansson. */
void json_memory_watch(void);

/* Whether an allocation has failed in this thread since the last call. */
bool json_memory_refused(void);

#endif
