#include "host/cmd/json_text.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

void *json_all_or_nothing(size_t size)
{
	static atomic_bool refused;
	void *p = atomic_load(&refused) ? NULL : malloc(size);

	if (p)
		return p;
	atomic_store(&refused, true);
	errno = ENOMEM;
	return NULL;
}

json_t *json_text(struct gguf_str s)
{
	json_t *text = json_stringn(s.data, s.len);
	char shown[1024];

	return text ? text : json_string(gguf_show(s, shown, sizeof(shown)));
}

int json_print(json_t *o, size_t digits, FILE *f)
{
	int ret = o ? 0 : -ENOMEM;

	errno = o ? 0 : ENOMEM;
	if (o &&
		(json_dumpf(o, f, JSON_COMPACT | JSON_REAL_PRECISION(digits)) ||
			fputc('\n', f) == EOF))
		ret = -EIO;
	if (ret && !errno)
		errno = EIO;
	json_decref(o);
	return ret;
}
