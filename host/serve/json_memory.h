/*
 * Detection of failed allocations in Jansson. Without memory Jansson's
 * functions for building JSON may leave out a member without reporting it, and
 * the server does not end when memory is short. So each thread has a flag,
 * which is set by a failed allocation; code that builds JSON checks the flag
 * before the JSON is sent.
 */
#ifndef HOST_SERVE_JSON_MEMORY_H
#define HOST_SERVE_JSON_MEMORY_H

#include <stdbool.h>

/* Install the detection. To be called before the server's first JSON, while no
 * other thread uses Jansson. */
void json_memory_watch(void);

/* Returns whether an allocation of this thread has failed since the last call,
 * and resets the flag. */
bool json_memory_refused(void);

#endif
