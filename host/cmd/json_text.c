#include "host/cmd/json_text.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static void *alloc_or_never_again(size_t size)
{
	static atomic_bool refused;
	void *p = atomic_load(&refused) ? NULL : malloc(size);

	if (p)
		return p;
	atomic_store(&refused, true);
	errno = ENOMEM;
	return NULL;
}

void json_all_or_nothing(void)
{
	json_set_alloc_funcs(alloc_or_never_again, free);
}

json_t *json_text(struct gguf_str s)
{
	json_t *text = json_stringn(s.data, s.len);
	char shown[1024];

	return text ? text : json_string(gguf_show(s, shown, sizeof(shown)));
}
