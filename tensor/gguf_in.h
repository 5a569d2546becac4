/*
 * Reads the fields of a GGUF file in order, and checks the size of each field
 * against the bytes that are left. An error message names the key or tensor
 * (`where`). Private to gguf.c, which reads the header with these functions.
 */
#ifndef TENSOR_GGUF_IN_H
#define TENSOR_GGUF_IN_H

#include "tensor/gguf.h"

/* The smallest encoding of a key and of a tensor declaration, in bytes. The
 * counts in the header are checked against these sizes before memory is
 * allocated. */
#define GGUF_KV_MIN     (8 + 1 + 4 + 1)
#define GGUF_TENSOR_MIN (8 + 1 + 4 + 8 + 4 + 8)

struct gguf_in {
	const uint8_t *data;
	size_t size, at;
	struct err *e;
	char where[160];
};

/* Set the error to "WHERE: TEXT", where TEXT is the formatted text, and return
 * -code. */
int gguf_bad(struct gguf_in *, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Set `where`, so that later error messages name this key or tensor. `kind` is
 * "key" or "tensor". */
void gguf_in_where(struct gguf_in *, const char *kind, struct gguf_str name);

size_t gguf_in_left(const struct gguf_in *);
/* Copy the next n bytes to `out`. `field` names them in an error message.
 * Returns 0 or -EINVAL. */
int gguf_in_take(struct gguf_in *, void *out, size_t n, const char *field);

/* Read a key and its value, and check the value's size. Returns 0 or a negative
 * errno. */
int gguf_in_kv(struct gguf_in *, struct gguf_kv *);

/* Read a tensor's declaration. The tensor's `offset` counts from the start of
 * the data section and is not checked. Returns 0 or a negative errno. */
int gguf_in_tensor(struct gguf_in *, struct gguf_tensor *);

#endif
