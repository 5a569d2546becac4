/*
 * Reading the fields of a GGUF file in order, each checked against the bytes
 * that are left. A refusal says which key or tensor it is about (`where`).
 * Private to gguf.c, which knows what fields a file has.
 */
#ifndef TENSOR_GGUF_IN_H
#define TENSOR_GGUF_IN_H

#include "tensor/gguf.h"

/* The fewest bytes that a key or a tensor can take: what bounds the counts
 * of the header before anything is allocated by them. */
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

/* From now on messages are about this key or tensor. */
void gguf_in_where(struct gguf_in *, const char *kind, struct gguf_str name);

size_t gguf_in_left(const struct gguf_in *);
int gguf_in_take(struct gguf_in *, void *out, size_t n, const char *field);
int gguf_in_u32(struct gguf_in *, uint32_t *out, const char *field);
int gguf_in_u64(struct gguf_in *, uint64_t *out, const char *field);

/* A key and its value; the value's bytes are walked and checked. */
int gguf_in_kv(struct gguf_in *, struct gguf_kv *);

/* A declaration: the offset is still that in the data section, unchecked. */
int gguf_in_tensor(struct gguf_in *, struct gguf_tensor *);

#endif
