#include "host/serve/json_memory.h"

#include <jansson.h>
#include <stdlib.h>

static _Thread_local bool refused;

static void *alloc_or_remember(size_t size)
{
	void *p = malloc(size);

	refused |= !p;
	return p;
}

void json_memory_watch(void)
{
	json_set_alloc_funcs(alloc_or_remember, free);
}

bool json_memory_refused(void)
{
	bool was = refused;

	refused = false;
	return was;
}
