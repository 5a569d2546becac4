/*
 * An array of bytes that grows. A NUL that `len` does not count follows the
 * bytes. Initialize the struct with STRBUF_INIT; strbuf_release frees the
 * memory and zeroes the struct. If an allocation fails, `failed` is set and
 * later calls append nothing, so that a caller checks for failure only once,
 * after many appends.
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
void strbuf_reset(struct strbuf *); /* empty the buffer, but keep its memory */
void strbuf_release(struct strbuf *);

#endif
