#include "base/strbuf.h"

#include "base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Make room for `more` bytes and the NUL. Returns false if there is no
 * memory. */
static bool strbuf_grow(struct strbuf *b, size_t more)
{
	size_t need, cap = b->cap ? b->cap : 64;
	char *p;

	if (b->failed)
		return false;
	if (size_add(&need, b->len, more) || size_add(&need, need, 1))
		goto fail;
	if (need <= b->cap)
		return true;
	while (cap < need)
		if (size_mul(&cap, cap, 2))
			goto fail;
	p = realloc(b->data, cap);
	if (!p)
		goto fail;
	b->data = p;
	b->cap = cap;
	return true;
fail:
	b->failed = true;
	return false;
}

void strbuf_add(struct strbuf *b, const void *data, size_t len)
{
	if (!strbuf_grow(b, len))
		return;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void strbuf_addf(struct strbuf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !strbuf_grow(b, (size_t)n)) {
		b->failed = true;
	} else {
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

void strbuf_reset(struct strbuf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = '\0';
}

void strbuf_release(struct strbuf *b)
{
	free(b->data);
	*b = (struct strbuf)STRBUF_INIT;
}
