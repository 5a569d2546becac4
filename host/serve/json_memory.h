/*
 * Detects failed allocations in Jansson. When memory is short, Jansson's
 * functions for building JSON may omit a member without reporting an error, and
 * the server keeps running. So each thread has a flag that a failed allocation
 * sets; code that builds JSON checks the flag before the JSON is sent.
 */
#ifndef HOST_SERVE_JSON_MEMORY_H
#define HOST_SERVE_JSON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Like malloc, but a failure sets the thread's flag. The server makes this
 * function Jansson's allocator before the server builds its first JSON, while
 * no other thread uses Jansson. */
void *json_memory_alloc(size_t);

/* Returns whether an allocation of this thread has failed since the last call,
 * and resets the flag. */
bool json_memory_refused(void);

#endif
