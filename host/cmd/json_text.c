#include "host/cmd/json_text.h"

#include <errno.h>
#include <math.h>
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

json_t *json_finite(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

void put_u64(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_integer((json_int_t)v));
}

void put_real(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, json_finite(v));
}

void put_str(json_t *o, const char *key, const char *v)
{
	json_object_set_new(o, key, v ? json_ctext(v) : json_null());
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
