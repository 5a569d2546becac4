/*
 * Reads the fields of a GGUF file in order, each checked against the bytes
 * that are left. An error names the key or tensor (`where`).
 * Private to gguf.c, which reads the header in terms of these fields.
 */
#ifndef TENSOR_GGUF_IN_H
#define TENSOR_GGUF_IN_H

#include "tensor/gguf.h"

/* The fewest bytes of a key and of a tensor: they bound the header's counts
 * before anything of that size is allocated. */
#define GGUF_KV_MIN     (8 + 1 + 4 + 1)
#define GGUF_TENSOR_MIN (8 + 1 + 4 + 8 + 4 + 8)

struct gguf_in {
	const uint8_t *data;
	size_t size, at;
	struct err *e;
	char where[160];
};

/* Fill e with "WHERE: TEXT" and return -code. */
int gguf_bad(struct gguf_in *, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Later messages name this key or tensor. */
void gguf_in_where(struct gguf_in *, const char *kind, struct gguf_str name);

size_t gguf_in_left(const struct gguf_in *);
/* Copy the next n bytes to `out`; 0 or -EINVAL. */
int gguf_in_take(struct gguf_in *, void *out, size_t n, const char *field);

/* A key and its value, whose bytes are checked. */
int gguf_in_kv(struct gguf_in *, struct gguf_kv *);

/* A tensor's declaration; its offset counts from the data section, unchecked.
 */
int gguf_in_tensor(struct gguf_in *, struct gguf_tensor *);

#endif
