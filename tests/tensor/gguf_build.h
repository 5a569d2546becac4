/*
 * Builds valid and bad GGUF files byte by byte, with code that is independent
 * of the GGUF writer, so that the GGUF reader is also tested with files that
 * the GGUF writer did not write.
 */
#ifndef TESTS_TENSOR_GGUF_BUILD_H
#define TESTS_TENSOR_GGUF_BUILD_H

#include "base/strbuf.h"
#include "tensor/gguf.h"

#include <stdlib.h>
#include <string.h>

static inline void u8(struct strbuf *b, uint8_t v)
{
	strbuf_add(b, &v, 1);
}

static inline void u32(struct strbuf *b, uint32_t v)
{
	strbuf_add(b, &v, 4);
}

static inline void u64(struct strbuf *b, uint64_t v)
{
	strbuf_add(b, &v, 8);
}

static inline void str(struct strbuf *b, const char *s)
{
	u64(b, strlen(s));
	strbuf_add(b, s, strlen(s));
}

static inline void header(
	struct strbuf *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
	strbuf_add(b, "GGUF", 4);
	u32(b, version);
	u64(b, tensors);
	u64(b, keys);
}

static inline void key(struct strbuf *b, const char *name, uint32_t type)
{
	str(b, name);
	u32(b, type);
}

static inline void tensor(struct strbuf *b, const char *name, uint64_t cols,
	uint64_t rows, uint32_t type, uint64_t offset)
{
	str(b, name);
	u32(b, 2);
	u64(b, cols);
	u64(b, rows);
	u32(b, type);
	u64(b, offset);
}

static inline void data(struct strbuf *b, size_t len, size_t align)
{
	while (b->len % align)
		u8(b, 0);
	for (size_t i = 0; i < len; i++)
		u8(b, (uint8_t)i);
}

/* Parse a copy of the bytes in memory of exactly their size, so that a
 * sanitizer detects a read of one byte too many. Frees the bytes in *b. */
static inline int parse(
	struct strbuf *b, struct gguf **g, void **copy, struct err *e)
{
	*copy = malloc(b->len + !b->len);
	memcpy(*copy, b->data ? b->data : "", b->len);
	return gguf_parse(g, *copy, b->len, e);
}

/* Build a file with every value type, an array of strings and two tensors. */
static inline void good_file(struct strbuf *b, uint32_t version)
{
	header(b, version, 2, 13);
	key(b, "u8", GGUF_U8), u8(b, 200);
	key(b, "i8", GGUF_I8), u8(b, 200);
	key(b, "u16", GGUF_U16), strbuf_add(b, "\xff\xff", 2);
	key(b, "i16", GGUF_I16), strbuf_add(b, "\xff\xff", 2);
	key(b, "u32", GGUF_U32), u32(b, UINT32_MAX);
	key(b, "i32", GGUF_I32), u32(b, UINT32_MAX);
	key(b, "u64", GGUF_U64), u64(b, UINT64_MAX);
	key(b, "i64", GGUF_I64), u64(b, UINT64_MAX);
	key(b, "f32", GGUF_F32), u32(b, 0x3fc00000);
	key(b, "f64", GGUF_F64), u64(b, 0xc004000000000000);
	key(b, "bool", GGUF_BOOL), u8(b, 1);
	key(b, "string", GGUF_STRING), u64(b, 4), strbuf_add(b, "a\0b\xff", 4);
	key(b, "strings", GGUF_ARRAY), u32(b, GGUF_STRING), u64(b, 3);
	str(b, "one"), str(b, ""), str(b, "three");
	tensor(b, "late", 32, 2, DTYPE_Q4_0, 32);
	tensor(b, "early", 3, 2, DTYPE_F32, 0);
	data(b, 32 + 36, 32);
}

#endif
