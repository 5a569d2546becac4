/*
 * A growing array of bytes, always followed by a NUL that `len` does not
 * count. Zero-initialise it (STRBUF_INIT); strbuf_release frees and zeroes.
 * A failed allocation sets `failed`, and later calls do nothing,
 * so that many appends need only one check at the end.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
	char *data; /* NULL while empty */
	size_t len, cap;
	bool failed;
};

#define STRBUF_INIT               \
	{                         \
		NULL, 0, 0, false \
	}

void strbuf_add(struct strbuf *, const void *data, size_t len);
void strbuf_addf(struct strbuf *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void strbuf_reset(struct strbuf *); /* empty, memory kept */
void strbuf_release(struct strbuf *);

#endif
