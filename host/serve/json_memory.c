#include "host/serve/json_memory.h"

#include <stdlib.h>

static _Thread_local bool refused;

void *json_memory_alloc(size_t size)
{
	void *p = malloc(size);

	refused |= !p;
	return p;
}

bool json_memory_refused(void)
{
	bool was = refused;

	refused = false;
	return was;
}
