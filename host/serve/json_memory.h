/*
 * Jansson leaves out a member without a word when it is refused memory. A
 * server goes on then, so that each thread remembers whether it happened, and
 * whoever made a piece of JSON asks before giving it away.
 */
#ifndef HOST_SERVE_JSON_MEMORY_H
#define HOST_SERVE_JSON_MEMORY_H

#include <stdbool.h>

/* Before the first JSON of the server, while no other thread makes any. */
void json_memory_watch(void);

/* Whether this thread was refused memory since it last asked. */
bool json_memory_refused(void);

#endif
